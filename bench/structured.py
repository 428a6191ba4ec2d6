#!/usr/bin/env python3
"""Overview and sections of a large page: how soon they are there over a slow link, what they read from a cold disk, and whether they are valid.

    cargo build --release && sudo bench/structured.py [--page FILE] [--rate 1000000] [--sections 60] [--bytes 1000000] [--engine amped]

Over the link: server and client are in network namespaces of their own, with a link of --rate bits a second between them (tc-tbf(8) at the
server's end). Told is the time from the first byte of an answer to the last, without a content coding and with gzip.
From the disk: the same page, one of 8 MB, and one of a megabyte in Markdown and as plain text; before each request the page cache is told to let go of the page, and what the server has had
read from the disk (`read_bytes` of /proc/PID/io) and by its own calls (`rchar`) is told. The first request has to read the page to divide it.
Valid: tidy(1) finds no error in the overview and in any section; how many have a warning is told.

Without --page a page of paragraphs with so many sections is made. Root is needed. Ends by itself, and takes away what it made.
"""
import argparse
import gzip
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

import servers

SERVER, CLIENT = f"lamna-s{os.getpid()}", f"lamna-c{os.getpid()}"
ADDRESS, PORT = "10.199.1.1", 8080
LARGE_BYTES = 8_000_000
CONFIG = """listen = ["{address}:{port}"]
arch = "{engine}"
workers = 1
log = "off"
admin = "off"
[[site]]
root = "{root}"
[[site.route]]
match = ["*.html", "*.txt"]
structured = true
[[site.route]]
match = "*.md"
filters = ["markdown"]
structured = true
"""


def page(sections, size):
    """Prose without meaning, so that it compresses about as prose does."""
    chance = random.Random(1)
    letters = "etaoinshrdlucmfwypvbgkq"
    words = ["".join(chance.choices(letters, range(len(letters), 0, -1), k=chance.randint(2, 9))) for _ in range(3000)]
    text = lambda count: " ".join(chance.choices(words, k=count))
    parts = ["<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>A manual</title><style>p{max-width:40em}</style></head><body>\n"]
    for at in range(sections):
        level = 1 if at == 0 else 2 if at % 6 == 1 else 3
        parts.append(f"<h{level} id=\"s{at}\">{text(3).capitalize()}</h{level}>\n")
        while sum(map(len, parts)) < size * (at + 1) / sections:
            parts.append(f"<p>{text(80)} <a href=\"#s{(at + 1) % sections}\">{text(2)}</a>.</p>\n")
    return "".join([*parts, "</body></html>\n"])


def markdown(html):
    """The same text in Markdown, which is plain text as well: its headings have no names but those that are made of them."""
    body = re.sub(r"<h(\d)[^>]*>(.*?)</h\d>", lambda found: f"\n{'#' * int(found[1])} {found[2]}\n", html.split("<body>")[-1])
    body = re.sub(r'<a href="([^"]*)">(.*?)</a>', r"[\2](\1)", body).replace("<p>", "\n")
    return re.sub(r"<[^>]*>", "", body)


def fetch(url, name, *more):
    """First byte and last since the request, in seconds, and bytes."""
    words = ["ip", "netns", "exec", CLIENT, "curl", "-s", "-o", "/dev/null", "-w", "%{time_starttransfer} %{time_total} %{size_download} %{http_code}",
             *more, f"{url}/{name}"]
    first, last, size, status = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    assert status == "200", (name, status)
    return float(first), float(last), int(size)


def over_the_link(work, options, ids):
    commands = [
        f"ip netns add {SERVER}", f"ip netns add {CLIENT}", f"ip link add lamna-a netns {SERVER} type veth peer name lamna-b netns {CLIENT}",
        f"ip -n {SERVER} addr add {ADDRESS}/24 dev lamna-a", f"ip -n {CLIENT} addr add 10.199.1.2/24 dev lamna-b",
        f"ip -n {SERVER} link set lamna-a up", f"ip -n {CLIENT} link set lamna-b up",
        f"tc -n {SERVER} qdisc add dev lamna-a root tbf rate {options.rate}bit burst 3kb latency 400ms",
    ]
    try:
        for command in commands:
            subprocess.run(command.split(), check=True)
        config = servers.write(f"{work}/link.toml", CONFIG.format(address=ADDRESS, port=PORT, engine=options.engine, root=f"{work}/site"))
        server = subprocess.Popen(["ip", "netns", "exec", SERVER, options.lamna, "serve", "--config", config], stderr=subprocess.DEVNULL)
        try:
            time.sleep(3)
            url = f"http://{ADDRESS}:{PORT}"
            for coding, more in (("no coding", []), ("gzip", ["-H", "Accept-Encoding: gzip"])):
                whole = 0.0
                for what, name in (("whole", "page.html"), ("overview", "page.html?view=outline"), ("section", f"page.html?section={ids[len(ids) // 2]}")):
                    # A coding is made when it was asked for twice.
                    for _ in range(2):
                        fetch(url, name, *more)
                        time.sleep(2)
                    first, last, size = fetch(url, name, *more)
                    took = last - first
                    whole = whole or took
                    print(f"{coding:10} {what:9} {size:9} bytes, first byte to last {took * 1000:8.1f} ms ({took / whole * 100:5.1f} % of the whole's), "
                          f"request to last {last * 1000:8.1f} ms")
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
    finally:
        subprocess.run(["ip", "netns", "del", SERVER], check=False)
        subprocess.run(["ip", "netns", "del", CLIENT], check=False)


def read_so_far(process):
    with open(f"/proc/{process}/io") as file:
        numbers = dict(line.split(": ") for line in file.read().splitlines())
    return int(numbers["read_bytes"]), int(numbers["rchar"])


def forget(path):
    """Has the page cache let go of a file."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def from_the_disk(work, options, name, ids):
    path = f"{work}/site/{name}"
    config = servers.write(f"{work}/disk.toml", CONFIG.format(address="127.0.0.1", port=18850, engine=options.engine, root=f"{work}/site"))
    server = servers.Server("lamna", [options.lamna, "serve", "--config", config], 18850)
    try:
        process = server.process.pid
        middle = ids[len(ids) // 2]
        for what, query in (("first section", f"?section={ids[1]}"), ("another section", f"?section={middle}"), ("overview", "?view=outline")):
            forget(path)
            before = read_so_far(process)
            with urllib.request.urlopen(f"http://127.0.0.1:18850/{name}{query}") as answer:
                size = len(answer.read())
            disk, calls = (after - earlier for after, earlier in zip(read_so_far(process), before))
            print(f"{name}, {os.path.getsize(path)} bytes: {what:15} {size:8} bytes, read from the disk {disk:8}, by calls {calls:8}")
    finally:
        server.stop()


def validity(work, options, ids):
    config = servers.write(f"{work}/disk.toml", CONFIG.format(address="127.0.0.1", port=18850, engine=options.engine, root=f"{work}/site"))
    server = servers.Server("lamna", [options.lamna, "serve", "--config", config], 18850)
    errors = warnings = 0
    queries = ["?view=outline", *(f"?section={name}" for name in ids)]
    try:
        for query in queries:
            with urllib.request.urlopen(f"http://127.0.0.1:18850/page.html{query}") as answer:
                content = answer.read()
            status = subprocess.run(["tidy", "-q", "-e", "--show-warnings", "yes"], input=content, stderr=subprocess.PIPE).returncode
            errors += status == 2
            warnings += status == 1
    finally:
        server.stop()
    print(f"tidy: {len(queries)} pages, {errors} with an error, {warnings} with a warning only")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamna", default=os.path.join(servers.ROOT, "target/release/lamna"))
    parser.add_argument("--engine", default="amped")
    parser.add_argument("--page")
    parser.add_argument("--rate", type=int, default=1_000_000, help="bits a second")
    parser.add_argument("--sections", type=int, default=60)
    parser.add_argument("--bytes", type=int, default=1_000_000)
    parser.add_argument("--directory", default="/var/tmp", help="on which disk")
    options = parser.parse_args()
    work = tempfile.mkdtemp(prefix="lamna-bench-", dir=options.directory)
    try:
        os.mkdir(f"{work}/site")
        text = page(options.sections, options.bytes)
        if options.page:
            with open(options.page, encoding="utf-8") as file:
                text = file.read()
        servers.write(f"{work}/site/page.html", text)
        servers.write(f"{work}/site/large.html", page(400, LARGE_BYTES))
        text_of_headings = markdown(page(options.sections, options.bytes))
        for kind in ("md", "txt"):
            servers.write(f"{work}/site/page.{kind}", text_of_headings)
        # What has just been written has no validator yet.
        time.sleep(2)
        ids = re.findall(r"<h[1-6][^>]* id=\"?([^\" >]+)", text)
        print(f"{len(text.encode())} bytes, {len(ids)} sections; gzip -6: {len(gzip.compress(text.encode(), 6))}")
        over_the_link(work, options, ids)
        from_the_disk(work, options, "page.html", ids)
        from_the_disk(work, options, "large.html", [f"s{at}" for at in range(400)])
        names = ["-".join(words.lower().split()) for words in re.findall(r"(?m)^#+ (.*)$", text_of_headings)]
        for kind in ("md", "txt"):
            from_the_disk(work, options, f"page.{kind}", names)
        if shutil.which("tidy"):
            validity(work, options, ids)
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
