#!/usr/bin/env python3
"""What Early Hints give a browser that is far away, and how much of what is hinted is fetched in vain.

    bench/early_hints.py --lamna target/release/lamna --runs 10

Chromium, headless, loads a page of 20 sub-resources over HTTP/2 and TLS, through a relay that holds every byte back by 100 ms each way (a round
trip is 200 ms). Five of the 20 matter, and most are found late: a style sheet, which imports another, which needs a font; a script, which asks for
data. The other 15 are pictures, which browsers fetch when there is time (--pictures lazy), or before `load` (eager). The page is a file, or with
--think-ms comes from an application that takes so long to answer. Each view has a browser and a profile of its own, so nothing is in its cache. One server has Early Hints, the other has not,
and views of them take turns. Before the views that count, the server with hints has --learning views to learn from.

Printed are the times from the beginning of the navigation to `load`, and until the page shows its data, and what the server counts of its hints meanwhile.
Needs chromium and openssl. All traffic is on 127.0.0.1, and every wait has an end.
"""
import argparse, glob, http.server, json, os, re, shutil, statistics, subprocess, tempfile, threading, time

from chromium import Relay, browser, free_port, is_open, make_certificate, run, wait_for

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--lamna", default="target/release/lamna")
parser.add_argument("--runs", type=int, default=10)
parser.add_argument("--learning", type=int, default=6, help="views before those that count")
parser.add_argument("--delay-ms", type=int, default=100, help="each way")
parser.add_argument("--pictures", choices=["lazy", "eager"], default="lazy")
parser.add_argument("--think-ms", type=int, default=0, help="the page comes from an application that takes so long; 0: it is a file")
parser.add_argument("--engine", default="amped")
parser.add_argument("--keep", action="store_true", help="keep the directory")
arguments = parser.parse_args()

work = tempfile.mkdtemp(prefix="early-hints-")
PICTURES = 15


def make_site(root):
    os.mkdir(root)
    write = lambda name, text: open(f"{root}/{name}", "w").write(text)
    pictures = "".join(f'<img src="/p{at}.svg" loading="{arguments.pictures}" width="40" height="40" alt="">' for at in range(PICTURES))
    write("index.html", f"""<!doctype html><meta charset="utf-8"><title>Early</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/main.css"><script src="/app.js"></script>
<h1>Early hints</h1><p id="data">Waiting</p>{pictures}""")
    write("main.css", '@import "/base.css";\nh1 { color: #234 }\n')
    write("base.css", '@font-face { font-family: Own; src: url("/own.ttf") format("truetype") }\nbody { font-family: Own, serif }\n')
    write("app.js", """fetch('/data.json').then(answer => answer.json()).then(data => {
  const show = () => { document.getElementById('data').textContent = data.text; performance.mark('shown') };
  document.readyState === 'loading' ? addEventListener('DOMContentLoaded', show) : show();
});
""")
    write("data.json", '{"text": "Here"}')
    for at in range(PICTURES):
        write(f"p{at}.svg", f'<svg xmlns="http://www.w3.org/2000/svg"><circle cx="20" cy="20" r="{at + 4}"/><!-- {"x" * 2000} --></svg>')
    # One of the size that fonts of pages have.
    fonts = sorted(glob.glob("/usr/share/fonts/**/*.ttf", recursive=True), key=lambda font: abs(os.path.getsize(font) - 50_000))
    shutil.copy(fonts[0], f"{root}/own.ttf")


def start_application(root):
    """Answers with the page, after a while. Its port."""
    page = open(f"{root}/index.html", "rb").read()

    class Answers(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            time.sleep(arguments.think_ms / 1000)
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


class Lamna:
    def __init__(self, name, has_hints, application):
        self.port, self.socket = free_port(), f"{work}/{name}.sock"
        open(f"{work}/{name}.toml", "w").write(f"""
listen = ["127.0.0.1:{self.port}"]
arch = "{arguments.engine}"
log = "off"
admin = "unix:{self.socket}"
[[site]]
root = "{work}/root"
certificate = "{work}/cert.pem"
key = "{work}/key.pem"
headers = {{ Cache-Control = "max-age=3600" }}
early_hints = {str(has_hints).lower()}
hints = {str(has_hints).lower()}
{f'[[site.route]]{chr(10)}match = "/"{chr(10)}proxy = "http://127.0.0.1:{application}"' if application else ''}
""")
        self.log = open(f"{work}/{name}.log", "w")
        self.process = subprocess.Popen([arguments.lamna, "serve", "--config", f"{work}/{name}.toml"], stdout=self.log, stderr=self.log)
        wait_for(lambda: is_open(self.port), 20, f"{name} serves")

    def hints(self):
        """By fate: hints, and bytes of what they name."""
        text = run("curl", "-s", "--unix-socket", self.socket, "http://localhost/metrics").stdout.decode()
        number = lambda family: {fate: int(count) for fate, count in re.findall(family + r'\{fate="(\w+)"\} (\d+)', text)}
        return number("lamna_early_hints_total"), number("lamna_early_hints_bytes_total")

    def end(self):
        self.process.terminate()
        self.process.wait(20)


def view(url, spki):
    """Loads the page in a browser of its own. Milliseconds to `load` and until the data is shown, and how each resource came to be asked for."""
    with browser(work, spki) as page:
        page.send("Page.navigate", url=url)
        page.wait("Page.loadEventFired")
        wait_for(lambda: page.evaluate("performance.getEntriesByName('shown').length"), 30, "the page shows its data")
        # Pictures and what is asked for in vain come later; `loadEventEnd` is set a moment after the event.
        time.sleep(0.5)
        found = page.evaluate("""JSON.stringify({
            navigation: performance.getEntriesByType('navigation')[0],
            shown: performance.getEntriesByName('shown')[0].startTime,
            resources: performance.getEntriesByType('resource').map(one => [new URL(one.name).pathname, one.initiatorType, one.transferSize, Math.round(one.startTime), Math.round(one.responseEnd)])})""")
        found = json.loads(found)
        return found["navigation"]["loadEventStart"], found["shown"], found["resources"], found["navigation"]["nextHopProtocol"]


def main():
    spki = make_certificate(work)
    make_site(f"{work}/root")
    application = start_application(f"{work}/root") if arguments.think_ms else None
    servers = [Lamna("with", True, application), Lamna("without", False, application)]
    try:
        measure(servers, spki)
    finally:
        for server in servers:
            server.end()
        if not arguments.keep:
            shutil.rmtree(work, ignore_errors=True)


def measure(servers, spki):
    urls = [f"https://localhost:{Relay(server.port, arguments.delay_ms / 1000).port}/" for server in servers]
    version = run("chromium", "--version").stdout.decode().strip()
    print(f"{version}; {arguments.delay_ms} ms each way; pictures are {arguments.pictures}; the page {f'takes {arguments.think_ms} ms' if arguments.think_ms else 'is a file'}; {arguments.learning} views to learn from, then {arguments.runs} of each")
    for at in range(arguments.learning):
        load, shown, resources, protocol = view(urls[0], spki)
        time.sleep(1)
        print(f"learning, view {at + 1}: load {load:.0f} ms, data shown {shown:.0f} ms, {protocol}; hints {servers[0].hints()[0].get('sent', 0)}")
    before = servers[0].hints()
    times = [[], []]
    for at in range(arguments.runs):
        for which in (0, 1):
            load, shown, resources, _ = view(urls[which], spki)
            times[which].append((load, shown))
            if at == 0:
                print(f"{'with' if which == 0 else 'without'} hints, {len(resources)} resources; how they came to be asked for, bytes, from when to when in ms:")
                for name, how, size, begin, end in resources:
                    if not re.match(r"/p\d*[1-9]", name):
                        print(f"    {name:12} {how:12} {size:7} {begin:5} {end:5}")
    time.sleep(2)
    after = servers[0].hints()
    for name, one in (("with hints", times[0]), ("without", times[1])):
        for what, place in (("load", 0), ("data shown", 1)):
            found = sorted(each[place] for each in one)
            print(f"{name}: {what} median {statistics.median(found):.0f} ms, least {found[0]:.0f}, most {found[-1]:.0f}")
    for what, place in (("load", 0), ("data shown", 1)):
        gain = statistics.median(each[place] for each in times[1]) - statistics.median(each[place] for each in times[0])
        print(f"{what}: {gain:.0f} ms sooner with hints: {gain / (2 * arguments.delay_ms):.1f} round trips")
    counts, sizes = ({fate: after[kind].get(fate, 0) - before[kind].get(fate, 0) for fate in after[kind]} for kind in (0, 1))
    print(f"hints in these views: {counts}")
    print(f"bytes: {sizes}: {100 * sizes['wasted'] / max(sizes['sent'], 1):.1f} % wasted; before, while learning: {before[1]}")


main()
