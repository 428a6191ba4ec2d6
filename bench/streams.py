#!/usr/bin/env python3
"""What it costs to compress the answers of an application while they pass.

    cargo build --release && bench/streams.py            # processor time for each MB, and how small it gets, beside nginx
    options: --lamna PATH  --rounds 3  --requests 20  --megabytes 8  --arch sped  --json FILE

An application answers with the same text (the documents and sources of this tree) in chunks, without a length. One client asks for it over and over,
and checks what it decodes. Server on processor 0, application and client on processor 1. The time is that of the server, less that of passing the same answer on as it is.
`ratio` is how many times smaller it gets. For gzip, what nginx takes at the same ratio lies on the line between its levels: `of nginx` is
that share. "others" is how much of a processor anything else on the machine used meanwhile: do not quote figures beside more than a few percent.
"""
import argparse
import http.client
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import servers
from servers import LOAD_CPU, Others, Server, write

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--lamna", default=os.path.join(servers.ROOT, "target/release/lamna"))
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--requests", type=int, default=20)
parser.add_argument("--megabytes", type=float, default=8)
parser.add_argument("--arch", default="sped")
parser.add_argument("--json")
options = parser.parse_args()
os.sched_setaffinity(0, {int(LOAD_CPU)})
work = tempfile.mkdtemp(prefix="lamna-bench-")


def text():
    names = subprocess.run(["git", "ls-files", "docs", "crates", "*.md"], cwd=servers.ROOT, capture_output=True, text=True, check=True).stdout.split()
    content = b"".join(open(os.path.join(servers.ROOT, name), "rb").read() for name in names if not name.endswith(".lock"))
    wanted = int(options.megabytes * 1e6)
    return (content * (wanted // len(content) + 1))[:wanted]


TEXT = text()


class Application(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for at in range(0, len(TEXT), 32768):
            piece = TEXT[at:at + 32768]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_):
        pass


application = ThreadingHTTPServer(("127.0.0.1", 0), Application)
threading.Thread(target=application.serve_forever, daemon=True).start()
TO = f"http://127.0.0.1:{application.server_port}"


def free_port():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lamna(port, filters):
    config = write(f"{work}/lamna.toml", f"[[site]]\n[[site.route]]\nmatch = \"/*\"\nproxy = \"{TO}\"\nfilters = [{filters}]\n")
    return [options.lamna, "serve", "--config", config, "--listen", f"127.0.0.1:{port}", "--log", "off", "--arch", options.arch]


def nginx(port, level):
    gzip = f"gzip on; gzip_types text/plain; gzip_proxied any; gzip_comp_level {level};" if level else ""
    return ["nginx", "-c", write(f"{work}/nginx.conf", f"""daemon off; worker_processes 1; pid {work}/nginx.pid;
error_log {work}/nginx.err crit; user root; events {{ worker_connections 512; }}
http {{ access_log off; {gzip} upstream application {{ server {TO[7:]}; keepalive 8; }}
server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://application; proxy_http_version 1.1; proxy_set_header Connection ''; }} }} }}""")]


def candidates():
    compress = lambda coding, level: f"{{ name = \"compress\", codings = \"{coding}\", level = \"{level}\" }}"
    found = {("lamna", "as it is", 0): lambda port: lamna(port, "")}
    for coding, levels in {"gzip": [1, 2, 3, 4, 6], "zstd": [1, 3, 5], "br": [1, 3, 5]}.items():
        for level in levels:
            found["lamna", coding, level] = lambda port, coding=coding, level=level: lamna(port, compress(coding, level))
    if shutil.which("nginx"):
        for level in [0, 1, 2, 3, 4, 5, 6]:
            found["nginx", "gzip" if level else "as it is", level] = lambda port, level=level: nginx(port, level)
    return found


def ask(connection, coding):
    connection.request("GET", "/text", headers={"Accept-Encoding": coding} if coding else {})
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == 200 and (answer.getheader("Content-Encoding") or "") == coding, answer.headers
    if coding == "gzip":
        assert zlib.decompress(content, 31) == TEXT
    return len(content)


def measure(name, coding, command):
    coding = "" if coding == "as it is" else coding
    server = Server(name, command(port := free_port()), port)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        ask(connection, coding)
        others, before = Others(server), server.cpu_us()
        size = [ask(connection, coding) for _ in range(options.requests)][0]
        took = (server.cpu_us() - before) / options.requests / (len(TEXT) / 1e6) / 1000
        return took, len(TEXT) / size, 100 * others.share()
    finally:
        server.stop()


found = {key: [] for key in candidates()}
for _ in range(options.rounds):
    for key, command in candidates().items():
        found[key].append(measure(key[0], key[1], command))
middle = {key: [statistics.median(column) for column in zip(*rounds)] for key, rounds in found.items()}
plain = {key[0]: value[0] for key, value in middle.items() if key[1] == "as it is"}
points = sorted((value[1], value[0] - plain["nginx"]) for key, value in middle.items() if key[0] == "nginx" and key[1] == "gzip")


def of_nginx(ratio, took):
    """What part of the time it is that nginx takes for this ratio."""
    for (low, low_took), (high, high_took) in zip(points, points[1:]):
        if low <= ratio <= high:
            return f"{took / (low_took + (high_took - low_took) * (ratio - low) / (high - low)):.2f}"
    return "-"


print(f"{'server':8}{'coding':10}{'level':>6}{'ratio':>8}{'ms/MB':>9}{'of nginx':>10}{'others %':>10}")
for (name, coding, level), (took, ratio, others) in middle.items():
    took -= plain[name] if level else 0
    share = of_nginx(ratio, took) if level and name == "lamna" else ""
    print(f"{name:8}{coding:10}{level or '':>6}{ratio:8.2f}{took:9.2f}{share:>10}{others:10.1f}")
if options.json:
    write(options.json, json.dumps([[*key, *value] for key, value in middle.items()]))
shutil.rmtree(work)
