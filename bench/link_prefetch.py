#!/usr/bin/env python3
"""What a link to the likely next page gives a browser that is far away, and whether the server's estimate of waste is right.

    bench/link_prefetch.py --lamna target/release/lamna --runs 10 --clients 6000 --wants 70

First Chromium, headless, loads a page over HTTP/2 and TLS (or --http1: over HTTP/1.1), through a relay that holds every byte back by 100 ms each way (a
round trip is 200 ms), reads for --reading-ms, and clicks a link to the next page, of 30 kB. Each view has a browser and a profile of its own. One server has `link_prefetch`, the
other has not, and views of them take turns. Before, 12 clients have gone from the page to the next one. Printed are the times from the click to the
end of the next page's HTML and to its `load`.

Then that many clients, each with an address of its own in 127.1.0.0/16, ask the server for the page. Of 100 --wants go on to the next page, and
--able fetch ahead when they are sent a link. Printed is how much was fetched in vain, as the clients know it, and as the server estimates it.
Needs chromium, curl and openssl. All traffic is on 127.0.0.0/8, and every wait has an end.
"""
import argparse, json, os, random, re, shutil, socket, statistics, subprocess, tempfile, time

from chromium import Relay, browser, free_port, is_open, make_certificate, run, wait_for

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--lamna", default="target/release/lamna")
parser.add_argument("--runs", type=int, default=10)
parser.add_argument("--delay-ms", type=int, default=100, help="each way")
parser.add_argument("--reading-ms", type=int, default=2000, help="before the click")
parser.add_argument("--http1", action="store_true", help="over HTTP/1.1 in clear text")
parser.add_argument("--clients", type=int, default=0)
parser.add_argument("--wants", type=int, default=70, help="percent of the clients that go on")
parser.add_argument("--able", type=int, default=80, help="percent of the clients that fetch ahead")
parser.add_argument("--waste-percent-max", type=int, default=100, help="what the site allows")
parser.add_argument("--engine", default="amped")
arguments = parser.parse_args()

work = tempfile.mkdtemp(prefix="link-prefetch-")
NEXT_BYTES = 30_000
LINK = "</next.html>; rel=prefetch"
NAVIGATION = {"Accept": "text/html,*/*;q=0.8", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
AHEAD = {"Accept": "text/html,*/*;q=0.8", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty", "Sec-Purpose": "prefetch"}


def make_site(root):
    os.mkdir(root)
    write = lambda name, text: open(f"{root}/{name}", "w").write(text)
    head = '<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><link rel="stylesheet" href="/main.css">'
    write("page.html", f'{head}<title>Page</title><p><a id="next" href="/next.html">Next</a>')
    text = "<p>Words and words and words.\n" * (NEXT_BYTES // 30)
    write("next.html", f"{head}<title>Next</title>{text}")
    write("main.css", "p { color: #234 }\n")


class Lamna:
    def __init__(self, name, has_links, secure):
        self.port, self.socket, self.secure = free_port(), f"{work}/{name}.sock", secure
        tls = f'certificate = "{work}/cert.pem"\nkey = "{work}/key.pem"' if secure else ""
        open(f"{work}/{name}.toml", "w").write(f"""
listen = ["127.0.0.1:{self.port}"]
arch = "{arguments.engine}"
log = "off"
admin = "unix:{self.socket}"
[[site]]
root = "{work}/root"
headers = {{ Cache-Control = "max-age=600" }}
link_prefetch = {str(has_links).lower()}
link_prefetch_waste_percent_max = {arguments.waste_percent_max}
{tls}
""")
        self.log = open(f"{work}/{name}.log", "w")
        self.process = subprocess.Popen([arguments.lamna, "serve", "--config", f"{work}/{name}.toml"], stdout=self.log, stderr=self.log)
        wait_for(lambda: is_open(self.port), 20, f"{name} serves")

    def ask(self, client, path, fields):
        """The head of an answer over HTTP/1.1 in clear text, to a client at this address."""
        with socket.create_connection(("127.0.0.1", self.port), 20, (client, 0)) as one:
            lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
            one.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n".encode())
            answer = b""
            while piece := one.recv(65536):
                answer += piece
            return answer.partition(b"\r\n\r\n")[0].decode()

    def learn(self):
        """Twelve clients go from the page to the next one."""
        scheme = "https" if self.secure else "http"
        for _ in range(12):
            for path, more in (("/page.html", {}), ("/next.html", {"Referer": f"{scheme}://localhost:{self.port}/page.html"})):
                fields = [part for name, value in {**NAVIGATION, **more}.items() for part in ("-H", f"{name}: {value}")]
                run("curl", "-sk", *fields, "-o", "/dev/null", f"{scheme}://localhost:{self.port}{path}")
            time.sleep(0.4)

    def figures(self):
        text = run("curl", "-s", "--unix-socket", self.socket, "http://localhost/metrics").stdout.decode()
        counts = {fate: int(count) for fate, count in re.findall(r'lamna_link_prefetch_total\{fate="(\w+)"\} (\d+)', text)}
        sizes = {fate: int(count) for fate, count in re.findall(r'lamna_link_prefetch_bytes_total\{fate="(\w+)"\} (\d+)', text)}
        return counts, sizes, int(re.search(r"lamna_link_prefetch_wasted_bytes (\d+)", text)[1])

    def end(self):
        self.process.terminate()
        self.process.wait(20)


def view(url, spki):
    """Loads the page, reads, and clicks. Milliseconds from the click to the end of the next page's HTML and to its `load`, and how it came."""
    with browser(work, spki) as page:
        page.send("Page.navigate", url=url)
        page.wait("Page.loadEventFired")
        time.sleep(arguments.reading_ms / 1000)
        page.events.clear()
        page.send("Runtime.evaluate", expression="document.getElementById('next').click()")
        page.wait("Page.loadEventFired")
        time.sleep(0.5)
        found = page.evaluate("document.title + JSON.stringify(performance.getEntriesByType('navigation')[0])")
        assert found.startswith("Next{"), found
        found = json.loads(found[4:])
        return found["responseEnd"], found["loadEventStart"], found["transferSize"], found["nextHopProtocol"]


def measure(servers, spki):
    scheme = "http" if arguments.http1 else "https"
    urls = [f"{scheme}://localhost:{Relay(server.port, arguments.delay_ms / 1000).port}/page.html" for server in servers]
    print(f"{run('chromium', '--version').stdout.decode().strip()}; {arguments.delay_ms} ms each way; {arguments.reading_ms} ms until the click; {arguments.runs} views of each")
    servers[0].learn()
    times = [[], []]
    for at in range(arguments.runs):
        for which in (0, 1):
            html, load, transferred, protocol = view(urls[which], spki)
            times[which].append((html, load))
            print(f"{'with' if which == 0 else 'without'} link: HTML {html:.0f} ms, load {load:.0f} ms after the click, {transferred} bytes, {protocol}")
    for name, one in (("with link", times[0]), ("without", times[1])):
        for what, place in (("HTML", 0), ("load", 1)):
            found = sorted(each[place] for each in one)
            print(f"{name}: {what} median {statistics.median(found):.0f} ms, least {found[0]:.0f}, most {found[-1]:.0f}")
    print(f"counted: {servers[0].figures()[0]}")
    if servers[0].figures()[0]["sent"] == 0:
        print("no link was sent: this address belongs to the control group of the page, as one of 16 does in an hour. Run it again.")


def crowd(server):
    """Clients of which some go on. What they fetched in vain, and what the server makes of it."""
    chance = random.Random(1)
    server.learn()
    referer, fetched, vain, told = {"Referer": "http://localhost/page.html"}, 0, 0, 0
    for number in range(arguments.clients):
        client = f"127.1.{number // 250}.{number % 250 + 1}"
        wants, is_able = chance.random() * 100 < arguments.wants, chance.random() * 100 < arguments.able
        is_told = LINK in server.ask(client, "/page.html", NAVIGATION)
        has_it = is_told and is_able
        told += is_told
        if has_it:
            server.ask(client, "/next.html", {**AHEAD, **referer})
            fetched += 1
            vain += not wants
        elif wants:
            server.ask(client, "/next.html", {**NAVIGATION, **referer})
    counts, sizes, wasted = server.figures()
    print(f"{arguments.clients} clients, of 100 {arguments.wants} go on and {arguments.able} fetch ahead: {told} were sent a link, {fetched} fetched ahead")
    print(f"in vain: {vain}, {100 * vain / max(fetched, 1):.1f} % of what was fetched; the server estimates {100 * wasted / max(sizes['fetched'], 1):.1f} %")
    print(f"counted: {counts}; bytes: {sizes}")


def main():
    spki = make_certificate(work)
    make_site(f"{work}/root")
    servers = []
    try:
        if arguments.runs:
            servers += [Lamna("with", True, not arguments.http1), Lamna("without", False, not arguments.http1)]
            measure(servers, spki)
        if arguments.clients:
            servers.append(Lamna("crowd", True, False))
            crowd(servers[-1])
    finally:
        for server in servers:
            server.end()
        shutil.rmtree(work, ignore_errors=True)


main()
