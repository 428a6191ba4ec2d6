#!/usr/bin/env python3
"""What it costs to send content of each size in each way: the measurements behind the defaults of `stretch_copy_bytes_max`
and `message_copy_bytes_max`.

    cargo build --release && bench/send.py [--rounds 3] [--seconds 1] [--only stretches|messages]

Writes results/engines/send.json and send.md. Stretches are ranges of a large file, which is not held in memory; messages
are small files, which are. CPU time of the server (amped, one worker) per request in microseconds, 64 connections, median
of rounds in which the ways take turns.
"""
import argparse
import json
import os
import statistics
import tempfile

import servers
from servers import Server, write, wrk

PORT = 18750
RESULTS = os.path.join(servers.ROOT, "results/engines")
STRETCHES = [1 << power for power in range(11, 19)]
MESSAGES = [1 << power for power in range(10, 18)]
WAYS = {
    "stretches": {way: f'send = "{way}"' for way in ("copy", "mapped", "sendfile")},
    "messages": {"copied": 'message_copy_bytes_max = "256KiB"', "gathered": "message_copy_bytes_max = 0"},
}


def measure(kind, sizes, options, work):
    running, samples = [], {}
    try:
        for index, (way, line) in enumerate(WAYS[kind].items()):
            config = write(f"{work}/{way}.toml", f'{line}\nlog = "off"\n[[site]]\nroot = "docroot"\n')
            binary = os.path.join(servers.ROOT, "target/release/lamna")
            port = PORT + index
            running.append(Server(way, [binary, "serve", "--config", config, "--listen", f"127.0.0.1:{port}"], port))
        for _ in range(options.rounds):
            for size in sizes:
                for server in running:
                    path, more = (f"/{size}", []) if kind == "messages" else ("/large", ["-H", f"Range: bytes=4096-{4095 + size}"])
                    before = server.cpu_us()
                    result = wrk(server.port, path, 64, options.seconds, *more)
                    cost = (server.cpu_us() - before) / result["requests"]
                    samples.setdefault(str(size), {}).setdefault(server.name, []).append(cost)
    finally:
        for server in running:
            server.stop()
    return {size: {way: statistics.median(costs) for way, costs in ways.items()} for size, ways in samples.items()}


def table(data):
    lines = ["# Ways to send", "", "CPU time per request in microseconds, made by `bench/send.py`; 64 connections, `amped`, one worker.", ""]
    titles = {"stretches": "Ranges of a file that is not held in memory (`--send`)",
              "messages": "Files that are held in memory: head and content copied to the output, or gathered from two places"}
    for kind, sizes in data.items():
        ways = list(WAYS[kind])
        lines += [f"## {titles[kind]}", "", "| bytes | " + " | ".join(ways) + " |", "| ---: |" + " ---: |" * len(ways)]
        lines += [f"| {int(size):,} | " + " | ".join(f"{costs[way]:.2f}" for way in ways) + " |" for size, costs in sizes.items()]
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--only", choices=WAYS)
    options = parser.parse_args()
    os.makedirs(RESULTS, exist_ok=True)
    path = f"{RESULTS}/send.json"
    data = json.load(open(path)) if os.path.exists(path) else {}
    with tempfile.TemporaryDirectory(prefix="lamna-bench-") as work:
        os.makedirs(f"{work}/docroot")
        write(f"{work}/docroot/large", "x" * (4 << 20))
        for size in MESSAGES:
            write(f"{work}/docroot/{size}", "x" * size)
        for kind, sizes in (("stretches", STRETCHES), ("messages", MESSAGES)):
            if options.only in (None, kind):
                data[kind] = measure(kind, sizes, options, work)
                write(path, json.dumps(data, indent=1) + "\n")
    write(f"{RESULTS}/send.md", table(data) + "\n")


main()
