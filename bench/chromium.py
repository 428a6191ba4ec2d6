"""What measurements with a browser share: Chromium, headless, by the DevTools protocol, a relay that holds every byte back, and a certificate.

All traffic is on 127.0.0.1, and every wait has an end. Needs chromium and openssl.
"""
import asyncio, base64, contextlib, hashlib, json, os, re, shutil, socket, subprocess, sys, tempfile, threading, time
import urllib.request


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, **more)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def is_open(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    sys.exit(f"in {seconds} s it did not come to this: {what}")


class Relay:
    """Passes connections on to a port, and holds every byte back by so many seconds each way. Each is from another of five addresses: what one client
    network asks for alone is hinted to nobody."""

    def __init__(self, to, seconds):
        self.to, self.seconds, self.port, self.count = to, seconds, free_port(), 0
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()
        threading.Thread(target=self.work, args=(ready,), daemon=True).start()
        ready.wait()

    def work(self, ready):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", self.port))
        ready.set()
        self.loop.run_forever()

    async def serve(self, reader, writer):
        self.count += 1
        own = (f"127.0.0.{2 + self.count % 5}", 0)
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self.to, local_addr=own)
        for one in (writer, other_writer):
            one.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.gather(self.pass_on(reader, other_writer), self.pass_on(other_reader, writer))

    async def pass_on(self, reader, writer):
        queue = asyncio.Queue()

        async def receive():
            while True:
                try:
                    piece = await reader.read(65536)
                except OSError:
                    piece = b""
                queue.put_nowait((self.loop.time() + self.seconds, piece))
                if not piece:
                    return

        receiving = asyncio.ensure_future(receive())
        try:
            while True:
                due, piece = await queue.get()
                await asyncio.sleep(due - self.loop.time())
                if not piece:
                    break
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        receiving.cancel()
        writer.close()


class DevTools:
    """A session of the DevTools protocol over a WebSocket (RFC 6455), as much of it as this needs."""

    def __init__(self, url):
        address, path = re.match(r"ws://([^/]+)(/.*)", url).groups()
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), 30)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.file = self.socket.makefile("rb")
        while self.file.readline().strip():
            pass
        self.last_id, self.events = 0, []

    def send(self, method, **parameters):
        self.last_id += 1
        payload = json.dumps({"id": self.last_id, "method": method, "params": parameters}).encode()
        length = len(payload)
        head = bytes([0x81, 0x80 | length]) if length < 126 else bytes([0x81, 0xFE]) + length.to_bytes(2, "big")
        mask = os.urandom(4)
        self.socket.sendall(head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)))
        while (answer := self.receive()).get("id") != self.last_id:
            self.events.append(answer.get("method"))
        return answer.get("result", {})

    def receive(self):
        text = b""
        while True:
            first, second = self.file.read(2)
            length = second & 0x7F
            if length >= 126:
                length = int.from_bytes(self.file.read(2 if length == 126 else 8), "big")
            text += self.file.read(length)
            if first & 0x80:
                return json.loads(text)

    def wait(self, event):
        while event not in self.events:
            self.events.append(self.receive().get("method"))

    def evaluate(self, expression):
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return result["result"].get("value")


@contextlib.contextmanager
def browser(work, spki):
    """A browser of its own, with an empty profile beneath `work`, that trusts the certificate: a session with its page."""
    profile = tempfile.mkdtemp(prefix="profile-", dir=work)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-port=0", f"--user-data-dir={profile}",
             f"--ignore-certificate-errors-spki-list={spki}"]
    process = subprocess.Popen(["chromium", *flags, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        file = f"{profile}/DevToolsActivePort"
        wait_for(lambda: os.path.exists(file) and os.path.getsize(file) > 0, 60, "Chromium begins")
        port = open(file).read().split()[0]
        pages = lambda: [one for one in json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=30)) if one["type"] == "page"]
        page = DevTools(wait_for(pages, 60, "Chromium has a page")[0]["webSocketDebuggerUrl"])
        page.send("Page.enable")
        page.events.clear()
        yield page
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(profile, ignore_errors=True)


def make_certificate(work):
    """For localhost, as `cert.pem` and `key.pem` in `work`: what Chromium knows its key by."""
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
        "subjectAltName=DNS:localhost", "-keyout", f"{work}/key.pem", "-out", f"{work}/cert.pem")
    public = run("openssl", "x509", "-in", f"{work}/cert.pem", "-pubkey", "-noout").stdout
    return base64.b64encode(hashlib.sha256(run("openssl", "pkey", "-pubin", "-outform", "der", input=public).stdout).digest()).decode()
