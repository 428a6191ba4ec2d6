#!/usr/bin/env python3
"""Ever new forms: what a server answers, and how much memory it takes, when somebody asks for a million different ones.

    cargo build --release && bench/forms.py [--forms 1000000] [--engines amped,proactor]

A third of the requests asks for new forms of a picture (crop, scale, rotate, gamma), a third for new sections of a page (`structured`), and a third searches
for new words (`search`), over four connections, a hundred requests in one send. Each answer is read to its end. Told are the answers by status, the
rate, and the memory of the server at the beginning and at most (VmRSS). One request of each kind that was answered before is made again at the end.
"""
import argparse
import collections
import http.client
import os
import random
import socket
import subprocess
import tempfile
import threading
import time

import servers
from servers import Server, write

PORT = 18797
BATCH = 100
KINDS = ("picture", "section", "search")


def target(kind, number):
    if kind == "picture":
        digits = random.Random(number)
        crop = ",".join(str(digits.randrange(101)) for _ in range(4))
        return f"/a.png?crop={crop}&scale={1 + number % 4000}x{1 + number // 4000 % 4000}&gamma={0.1 + number % 49 / 10:.1f}&n={number}"
    if kind == "section":
        return f"/a.html?section=part-{number}"
    return f"/docs/?q=word{number}"


def answers(stream, count):
    """Statuses of so many answers, each read to its end."""
    for _ in range(count):
        line = stream.readline()
        assert line.startswith(b"HTTP/1.1 "), line
        length, chunked = 0, False
        while (field := stream.readline()) != b"\r\n":
            name, _, value = field.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
            chunked |= name.lower() == b"transfer-encoding"
        if chunked:
            while size := int(stream.readline(), 16):
                stream.read(size + 2)
            stream.readline()
        else:
            stream.read(length)
        yield int(line[9:12])


def ask(kind, numbers, counts, lock):
    with socket.create_connection(("127.0.0.1", PORT), timeout=120) as connection, connection.makefile("rb") as stream:
        for first in range(numbers.start, numbers.stop, BATCH):
            batch = range(first, min(first + BATCH, numbers.stop))
            connection.sendall("".join(f"GET {target(kind, one)} HTTP/1.1\r\nHost: a.test\r\n\r\n" for one in batch).encode())
            found = collections.Counter(answers(stream, len(batch)))
            with lock:
                counts[kind] += found


def memory_mib(server):
    with open(f"/proc/{server.process.pid}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))


def measure(engine, options, work):
    write(f"{work}/{engine}.toml", f'listen = ["127.0.0.1:{PORT}"]\narch = "{engine}"\nworkers = 1\nlog = "off"\nadmin = "off"\n'
          f'cache_bytes = "32 MiB"\nrequest_limit = "off"\n[[site]]\nroot = "{work}/site"\n[[site.route]]\nmatch = "*.png"\nfilters = ["images"]\n'
          '[[site.route]]\nmatch = "*.html"\nstructured = true\n[[site.route]]\nmatch = "/docs/*"\nsearch = true\n')
    server = Server(engine, [os.path.join(servers.ROOT, "target/release/lamna"), "serve", "--config", f"{work}/{engine}.toml"], PORT)
    try:
        counts, lock = {kind: collections.Counter() for kind in KINDS}, threading.Lock()
        begun, before, most = time.monotonic(), memory_mib(server), 0.0
        share = options.forms // len(KINDS)
        threads = [threading.Thread(target=ask, args=(kind, range(share), counts, lock)) for kind in KINDS]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            most = max(most, memory_mib(server))
            time.sleep(0.1)
        seconds = time.monotonic() - begun
        for kind in KINDS:
            print(f"{engine}: {kind}: " + ", ".join(f"{count} of {status}" for status, count in sorted(counts[kind].items())))
        print(f"{engine}: {sum(map(sum, (one.values() for one in counts.values())))} answers in {seconds:.0f} s, "
              f"memory {before:.1f} MiB at first, {most:.1f} at most", flush=True)
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
        for path in ("/a.png", "/a.html?section=one", "/docs/?q=music", target("picture", 0)):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            print(f"{engine}: then {path.partition('&')[0]}: {answer.status}", flush=True)
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forms", type=int, default=1_000_000)
    parser.add_argument("--engines", default="amped,proactor")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lamna-bench-") as work:
        os.makedirs(f"{work}/site/docs")
        subprocess.run(["vips", "gaussnoise", f"{work}/site/a.png", "600", "400"], check=True)
        page = "".join(f"<h2 id='{name}'>{name}</h2><p>{name} and more of it. " * 20 for name in ("one", "two", "three"))
        write(f"{work}/site/a.html", f"<!doctype html><title>a</title>{page}")
        for number in range(20):
            write(f"{work}/site/docs/{number}.html", f"<!doctype html><title>{number}</title><p>music {number}")
        for engine in options.engines.split(","):
            measure(engine, options, work)


main()
