#!/usr/bin/env python3
"""Requests that wait for a slow disk, by cache policy, with and without hints: while a trace is replayed, or visitors follow links.

    cargo build --release && sudo bench/replays.py TRACE.csv.zst [--lamna PATH] [--rows gdsf,gdsf+filter,hinted,hinted+precache] [--speed 300]
    sudo bench/replays.py visits [--seconds 120] [--visitors 16] [--round-trip-ms 50]

The server may read --iops times a second from the disk of --directory (cgroup v1, blkio.throttle.read_iops_device), and its cache has room for
--memory percent of the files of the trace. The kernel's page cache is told every half a second to let go of the files, so that what the server
has not kept it has to read. The first half of the trace warms up and teaches; the second half counts: files that nobody waited for, files that
somebody waited for (their open or read would have blocked), reads ahead, and reads of the disk by the kernel's count, which are several for a large file and some for directories.
Traces name no visitors, so what follows what cannot be learned from their replay. `visits` is a site of 800 pages with four pictures each, which no other page has:
each visitor asks over a connection of his own for a page (Zipf), a round trip later for its pictures, with `Referer`, and a second later for another page.
Root is needed. Ends by itself; traffic stays on 127.0.0.1.
"""
import argparse
import asyncio
import json
import multiprocessing
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import servers
from servers import Server, write

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("trace", help="or `visits`")
parser.add_argument("--lamna", default=os.path.join(servers.ROOT, "target/release/lamna"))
parser.add_argument("--rows", default="gdsf,gdsf+filter,hinted,hinted+precache")
parser.add_argument("--engine", default="amped")
parser.add_argument("--memory", type=int, default=33, help="percent of the bytes of all files")
parser.add_argument("--iops", type=int, default=200)
parser.add_argument("--speed", type=int, default=300, help="times as fast as the trace was recorded")
parser.add_argument("--seconds", type=int, default=120, help="of visits")
parser.add_argument("--visitors", type=int, default=16)
parser.add_argument("--round-trip-ms", type=int, default=50)
parser.add_argument("--directory", default="/var/tmp", help="on which disk")
options = parser.parse_args()
lab = os.path.join(os.path.dirname(os.path.abspath(options.lamna)), "lamna-lab")
BLKIO = f"/sys/fs/cgroup/blkio/lamna-bench-{os.getpid()}"
SETTINGS = {
    "filter": 'cache_filter = true\n',
    "precache": "precache = true\n",
}


PAGES, PICTURES = 800, 4


def make_site(site):
    """Pages, each with pictures of its own."""
    chance = random.Random(1)
    os.makedirs(site)
    for page in range(PAGES):
        pictures = [f"{page}-{at}.png" for at in range(PICTURES)]
        write(f"{site}/{page}.html", "<!doctype html><title>A page</title>" + "".join(f'<img src="/{name}" alt="">' for name in pictures) + "text " * 400)
        for name in pictures:
            with open(f"{site}/{name}", "wb") as file:
                file.write(chance.randbytes(chance.randint(2_000, 40_000)))


async def visit(port, seed, until):
    """Somebody who goes from page to page."""
    chance = random.Random(seed)
    weights = [1 / (rank + 1) ** 0.8 for rank in range(PAGES)]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def get(paths, fields=""):
        for path in paths:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: example.org\r\n{fields}\r\n".encode())
        for _ in paths:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            assert head.startswith("http/1.1 200"), head
            await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
    while time.monotonic() < until:
        page = chance.choices(range(PAGES), weights)[0]
        await get([f"/{page}.html"], "Accept: text/html\r\nSec-Fetch-Dest: document\r\n")
        await asyncio.sleep(options.round_trip_ms / 1000)
        await get([f"/{page}-{at}.png" for at in range(PICTURES)], f"Referer: http://example.org/{page}.html\r\nSec-Fetch-Dest: image\r\n")
        await asyncio.sleep(chance.random() * 2)
    writer.close()


def visit_all(port):
    async def all_of_them():
        until = time.monotonic() + options.seconds
        await asyncio.gather(*(visit(port, seed, until) for seed in range(options.visitors)))
    asyncio.run(all_of_them())


def load(port):
    """What asks the server at `port`, as a process."""
    if options.trace == "visits":
        process = multiprocessing.Process(target=visit_all, args=(port,))
        process.start()
        return process.is_alive
    replay = subprocess.Popen([lab, "replay", options.trace, f"http://127.0.0.1:{port}", "--speed", str(options.speed), "--quiet"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return lambda: replay.poll() is None


def files_of(site):
    return [os.path.join(folder, name) for folder, _, names in os.walk(site) for name in names]


def let_go(descriptors):
    for descriptor in descriptors:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def disk_reads():
    with open(f"{BLKIO}/blkio.throttle.io_serviced") as file:
        found = [line.split() for line in file]
    return sum(int(words[2]) for words in found if len(words) == 3 and words[1] == "Read")


def state_of(control):
    told = subprocess.run([options.lamna, "ctl", "stats", "--json"], env=control, stdout=subprocess.PIPE, text=True, check=True)
    told = json.loads(told.stdout)
    disk, hints = told["disk"], told["hints"]
    return {
        "requests": told["requests"], "waited": disk["open_blocked"] + disk["read_blocked"],
        "reads": disk_reads(), "ahead": hints["ahead"], "used": hints["ahead_used"], "pairs": hints["pairs"],
    }


def measure(row, site, cache_bytes, seconds, work):
    policy, *more = row.split("+")
    hints = "hints = true\n" if policy == "hinted" else ""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    control = dict(os.environ, XDG_STATE_HOME=f"{work}/state-{row}", LAMNA_RUNTIME_DIR=f"{work}/run-{row}")
    config = write(f"{work}/{row}.toml", f'listen = ["127.0.0.1:{port}"]\narch = "{options.engine}"\nworkers = 1\nlog = "off"\n'
                   f'cache_bytes = {cache_bytes}\ncache_policy = "{policy}"\n{hints}{"".join(SETTINGS[one] for one in more)}'
                   f'[[site]]\nroot = "{site}"\n')
    os.environ.update(control)
    server = Server(row, [options.lamna, "serve", "--config", config], port, before=lambda: write(f"{BLKIO}/cgroup.procs", str(os.getpid())))
    descriptors = [os.open(path, os.O_RDONLY) for path in files_of(site)]
    try:
        let_go(descriptors)
        is_loaded = load(port)
        begun, half = time.monotonic(), None
        while is_loaded():
            time.sleep(0.5)
            let_go(descriptors)
            if half is None and time.monotonic() - begun >= seconds / 2:
                half = state_of(control)
        end = state_of(control)
        return {name: end[name] - half[name] for name in end} | {"pairs": end["pairs"]}
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        server.stop()


def main():
    if os.geteuid() != 0 or not os.path.isdir("/sys/fs/cgroup/blkio"):
        sys.exit("needs root and the cgroup v1 blkio controller")
    work = tempfile.mkdtemp(prefix="lamna-bench-", dir=options.directory)
    os.makedirs(BLKIO)
    try:
        site = f"{work}/site"
        if options.trace == "visits":
            make_site(site)
            seconds = options.seconds
        else:
            subprocess.run([lab, "site", options.trace, site], check=True)
            recorded = subprocess.run(f"zstdcat {options.trace} | tail -1", shell=True, check=True, stdout=subprocess.PIPE, text=True).stdout
            seconds = int(recorded.split(",")[0]) / options.speed
        subprocess.run(["sync"], check=True)
        size = sum(os.path.getsize(path) for path in files_of(site))
        device = os.stat(site).st_dev
        write(f"{BLKIO}/blkio.throttle.read_iops_device", f"{os.major(device)}:{os.minor(device)} {options.iops}")
        print("| policy | requests | waited | % | reads ahead, used | reads of the disk | pairs known |\n| --- " + "| ---: " * 6 + "|", flush=True)
        for row in options.rows.split(","):
            found = measure(row, site, size * options.memory // 100, seconds, work)
            print(f"| `{row}` | {found['requests']} | {found['waited']} | {100 * found['waited'] / max(found['requests'], 1):.2f} "
                  f"| {found['ahead']}, {found['used']} | {found['reads']} | {found['pairs']} |", flush=True)
    finally:
        shutil.rmtree(work)
        os.rmdir(BLKIO)


main()
