#!/usr/bin/env python3
"""Order of service over a link or from a disk that is the bottleneck: latency by size of answer under each `schedule`.

    cargo build --release && sudo bench/schedules.py [--lamna PATH] [--seconds 60] [--rounds 2] [--load 0.9] [--engine amped]
    sudo bench/schedules.py --disk 8000000 --rows round-robin,srpt [--helpers 2]

A mix of sizes (that of WebStone) is asked for at random moments (a Poisson process), each over a connection of its own, so that the link is
as busy as --load says. Server and load are in network namespaces of their own, with a link of --rate bits a second between them (tc-tbf(8) at
the server's end). Rows: `kernel` is a server that knows nothing of the link; the others are told its rate (`uplink_bytes_per_s`, a little less
than the link has). All rows of a round get the same requests at the same moments. Root is needed. Ends by itself, and takes away what it made.

--disk: the server reads no more than so many bytes a second from the disk of --directory (cgroup v1, blkio.throttle.read_bps_device). Every request
is for a file of its own that nobody has read (the page cache of the machine is dropped before each row), over loopback. The kernel reads no further
ahead than --read-ahead KiB meanwhile (what Linux does unless it is told otherwise): what it reads ahead nobody can order.
"""
import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import servers

# Bytes and share of requests: the mix of WebSTONE in JAWS over ATM (table 1).
MIX = [(500, 0.35), (5_000, 0.50), (50_000, 0.14), (5_000_000, 0.01)]
SERVER, LOAD = f"lamna-s{os.getpid()}", f"lamna-l{os.getpid()}"
BLKIO = f"/sys/fs/cgroup/blkio/lamna-bench-{os.getpid()}"
# What frames, heads and acknowledgements take of the link.
USABLE = 0.93
# What of the disk's rate is content: the rest are whole pages, directories and inodes.
CONTENT = 0.85

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--lamna", default=os.path.join(servers.ROOT, "target/release/lamna"))
parser.add_argument("--engine", default="amped")
parser.add_argument("--seconds", type=int, default=60)
parser.add_argument("--rounds", type=int, default=2)
parser.add_argument("--load", type=float, default=0.9)
parser.add_argument("--rate", type=int, default=100_000_000, help="bits a second")
parser.add_argument("--rows", default="kernel,round-robin,srpt")
parser.add_argument("--disk", type=int, default=0, help="bytes a second that the server may read; 0 for a link in the place of a disk")
parser.add_argument("--helpers", type=int, default=2, help="--disk: helpers of the worker, and so reads at once")
parser.add_argument("--read-ahead", type=int, default=128, help="--disk: KiB")
parser.add_argument("--directory", default="/var/tmp", help="--disk: on which disk")
parser.add_argument("--generate", type=json.loads, help=argparse.SUPPRESS)
options = parser.parse_args()
ADDRESS = "127.0.0.1" if options.disk else "10.199.0.1"


def plan(seed, seconds):
    """Moments and sizes."""
    chance = random.Random(seed)
    mean = sum(size * share for size, share in MIX)
    rate = options.load * (options.disk * CONTENT or options.rate / 8 * USABLE) / mean
    at, requests = 0.0, []
    while (at := at + chance.expovariate(rate)) < seconds:
        requests.append((at, chance.choices([size for size, _ in MIX], [share for _, share in MIX])[0]))
    return requests


def named(number, size):
    """What is asked for: a file of its own from a disk, one of each size over a link."""
    return f"{number}-{size}" if options.disk else f"f{size}"


async def ask(number, at, size, begun, port, found):
    await asyncio.sleep(max(0, begun + at - time.monotonic()))
    since = time.monotonic()
    reader, writer = await asyncio.open_connection(ADDRESS, port, limit=1 << 20)
    writer.write(f"GET /{named(number, size)} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    left = size
    while left:
        received = await reader.read(1 << 18)
        assert received, f"{left} bytes of {size} are missing"
        left -= len(received)
    found.append((size, time.monotonic() - since))
    writer.close()


async def generate(seed, port):
    found, begun = [], time.monotonic() + 0.5
    requests = enumerate(plan(seed, options.seconds))
    await asyncio.wait_for(asyncio.gather(*(ask(number, at, size, begun, port, found) for number, (at, size) in requests)), options.seconds * 4)
    return found


def run(row, seed, docroot):
    arguments = [options.lamna, "serve", docroot, "--listen", f"{ADDRESS}:8080", "--log", "off", "--arch", options.engine, "--workers", "1"]
    if options.disk:
        arguments += ["--schedule", row, "--helpers-max", str(options.helpers), "--cache-bytes", "1MiB"]
        subprocess.run(["sync"], check=True)
        servers.write("/proc/sys/vm/drop_caches", "3")
    elif row != "kernel":
        arguments += ["--schedule", row, "--uplink-bytes-per-s", str(int(options.rate / 8 * USABLE))]
    enter = [] if options.disk else ["ip", "netns", "exec", SERVER]
    server = subprocess.Popen([*enter, "taskset", "-c", "0", *arguments], stderr=subprocess.DEVNULL)
    try:
        time.sleep(1)
        if options.disk:
            # Its own program has been read by now.
            servers.write(f"{BLKIO}/cgroup.procs", str(server.pid))
        words = [sys.executable, os.path.abspath(__file__), "--seconds", str(options.seconds), "--load", str(options.load), "--rate", str(options.rate)]
        words += ["--disk", str(options.disk), "--generate", json.dumps([seed, 8080])]
        enter = [] if options.disk else ["ip", "netns", "exec", LOAD]
        told = subprocess.run([*enter, "taskset", "-c", "1", *words], check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(told.stdout)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def prepare_disk(docroot):
    os.mkdir(BLKIO)
    device = os.stat(docroot).st_dev
    servers.write(f"{BLKIO}/blkio.throttle.read_bps_device", f"{os.major(device)}:{os.minor(device)} {options.disk}")
    return set_read_ahead(device, options.read_ahead)


def set_read_ahead(device, kib):
    """Sets how far the kernel reads ahead on a disk. Returns what it was."""
    disk = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if not os.path.isdir(f"{disk}/queue"):
        disk = os.path.dirname(disk)  # of a partition
    with open(f"{disk}/queue/read_ahead_kb") as file:
        before = int(file.read())
    servers.write(f"{disk}/queue/read_ahead_kb", str(kib))
    return before


def plant(docroot, seed):
    """The files of a round, in the place of those of the last."""
    for name in os.listdir(docroot):
        os.remove(f"{docroot}/{name}")
    content = random.Random(seed).randbytes(max(size for size, _ in MIX))
    for number, (_, size) in enumerate(plan(seed, options.seconds)):
        with open(f"{docroot}/{named(number, size)}", "wb") as file:
            file.write(content[:size])


def prepare(docroot):
    for size, _ in MIX:
        with open(f"{docroot}/f{size}", "wb") as file:
            file.write(random.Random(size).randbytes(size))
    commands = [
        f"ip netns add {SERVER}", f"ip netns add {LOAD}", f"ip link add lamna-a netns {SERVER} type veth peer name lamna-b netns {LOAD}",
        f"ip -n {SERVER} addr add {ADDRESS}/24 dev lamna-a", f"ip -n {LOAD} addr add 10.199.0.2/24 dev lamna-b",
        f"ip -n {SERVER} link set lamna-a up", f"ip -n {LOAD} link set lamna-b up",
        f"tc -n {SERVER} qdisc add dev lamna-a root tbf rate {options.rate}bit burst 64kb latency 200ms",
    ]
    for command in commands:
        subprocess.run(command.split(), check=True)


def show(results):
    def line(name, latencies):
        ordered = sorted(latencies)
        at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e3
        print(f"    {name:>10} {len(ordered):6} {statistics.mean(ordered) * 1e3:9.2f} {at(0.5):9.2f} {at(0.99):9.2f}")
    for row, found in results.items():
        print(f"{row}\n    {'bytes':>10} {'count':>6} {'mean ms':>9} {'median':>9} {'p99':>9}")
        for size, _ in MIX:
            line(size, [latency for of, latency in found if of == size] or [0.0])
        line("all", [latency for _, latency in found])
    mean = {row: statistics.mean(latency for _, latency in found) for row, found in results.items()}
    for row in results:
        if row != "srpt" and "srpt" in results:
            print(f"mean latency with srpt: {mean['srpt'] / mean[row]:.2f} of {row}")


def main():
    docroot = tempfile.mkdtemp(prefix="lamna-bench-", dir=options.directory if options.disk else "/dev/shm")
    os.chmod(docroot, 0o755)
    results = {row: [] for row in options.rows.split(",")}
    read_ahead = None
    try:
        read_ahead = (prepare_disk if options.disk else prepare)(docroot)
        for seed in range(options.rounds):
            if options.disk:
                plant(docroot, seed)
            for row in results:
                results[row] += run(row, seed, docroot)
        show(results)
    finally:
        if read_ahead is not None:
            set_read_ahead(os.stat(docroot).st_dev, read_ahead)
        if options.disk:
            os.rmdir(BLKIO)
        else:
            subprocess.run(["ip", "netns", "del", SERVER], check=False)
            subprocess.run(["ip", "netns", "del", LOAD], check=False)
        shutil.rmtree(docroot, ignore_errors=True)


if options.generate:
    json.dump(asyncio.run(generate(*options.generate)), sys.stdout)
else:
    main()
