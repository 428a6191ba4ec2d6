#!/usr/bin/env python3
"""Every engine of Lamna beside other servers: what a request costs, and what a slow disk does to them.

    cargo build --release && bench/engines.py                   # everything, about 25 minutes; the slow disk needs root
    bench/engines.py --engines amped,mp --loads cached-64-500   # a part of it, merged into the data that is there
    bench/engines.py --table                                    # only writes the table anew

Writes results/engines/data.json and results/engines/table.md. Loads:

    cached-C-B   a file of B bytes in memory over C keep-alive connections: CPU time per request, requests/s, p99
    close-64-500 a new connection for each request
    calls        system calls and context switches per request, of all threads, 64 connections, 500 bytes
    disk         8 connections ask for a hot file while 16 ask for cold ones on a disk held to 200 reads a second

Servers take turns, round after round, so that a drift of the machine meets all of them; figures are medians over the
rounds, for the disk the round in which others used the machine least. Compare within one load only: requests/s and p99 depend on what else the machine does, of which `others` in the
data is the share of one processor; a run that was disturbed is tried again. Needs wrk, and perf and strace for
`calls`; nginx, h2o, Apache and gcc (for the floor, null_server.c) take part if they are there. Debian: apt-get install
wrk linux-perf strace nginx-light h2o apache2 gcc.
"""
import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import servers
from servers import Others, Server, parse_wrk, write, wrk

RESULTS = os.path.join(servers.ROOT, "results/engines")
PORT = 18700
CACHED = [f"cached-{connections}-{content}" for content in (500, 51200) for connections in (1, 64, 512)]
LOADS = [*CACHED, "close-64-500", "calls", "disk"]
BLKIO = "/sys/fs/cgroup/blkio/lamna-bench"
READS_PER_SECOND, COLD_FILES, COLD_BYTES = 200, 20000, 15000
CALLS_SHOWN = 6
OTHERS_MAX, TRIES = 0.08, 2  # share of one processor


def measure_throughput(load, chosen, options, work):
    """CPU time per request, requests a second and p99 of each server."""
    kind, connections, content = load.split("-")
    more = ["-H", "Connection: close"] if kind == "close" else []
    path, samples, running = f"/f{content}.html", {}, []
    try:
        for index, (name, command) in enumerate(chosen.items()):
            if name == "null" and kind == "close":
                continue  # it reads no fields, so it does not know that it is to close
            port = PORT + index
            running.append(Server(name, command(port, f"{work}/docroot", work, int(content)), port))
        for server in running:
            wrk(server.port, path, connections, 1, *more)
        for _ in range(options.rounds):
            for server in running:
                sample = undisturbed(server, lambda: wrk(server.port, path, connections, options.seconds, *more))
                samples.setdefault(server.name, []).append(sample)
    finally:
        for server in running:
            server.stop()
    return {name: median(rows) for name, rows in samples.items()}


def undisturbed(server, load):
    """The result of a load, with the CPU time per request; of a few tries if others use the machine meanwhile."""
    tries = []
    for _ in range(TRIES):
        others, before = Others(server), server.cpu_us()
        sample = load()
        sample["cpu_us"] = (server.cpu_us() - before) / max(sample["requests"], 1)
        sample["others"] = max(others.share(), 0.0)
        tries.append(sample)
        if sample["others"] <= OTHERS_MAX:
            break
    return min(tries, key=lambda sample: sample["others"])


def median(rows):
    """The median of each figure, the sum of errors and refusals."""
    figures = {key: [row[key] for row in rows if row[key] is not None] for key in rows[0]}
    total = {"errors", "refused", "requests"}
    return {key: sum(values) if key in total else statistics.median(values) if values else None
            for key, values in figures.items()}


def measure_calls(chosen, options, work):
    """System calls and context switches per request, of ended threads and processes as well: whole runs are counted."""
    rows = {}
    for name, command in chosen.items():
        words, counts, traced = command(PORT, f"{work}/docroot", work, 500), f"{work}/counts", f"{work}/traced"
        events = "context-switches,raw_syscalls:sys_enter"
        sample = once(name, words, ["perf", "stat", "-x,", "-o", counts, "-e", events], options)
        found = {event: float(value) for value, event in re.findall(r"^([\d.]+),[^,]*,([\w:-]+),", open(counts).read(), re.M)}
        row = {"calls": found["raw_syscalls:sys_enter"] / sample["requests"],
               "switches": found["context-switches"] / sample["requests"]}
        sample = once(name, words, ["strace", "-f", "-c", "-o", traced], options)
        calls = re.findall(r"^ +[\d.]+ +[\d.]+ +\d+ +(\d+) (?: *\d+)? +(\w+)$", open(traced).read(), re.M)
        by_name = sorted(((int(count) / sample["requests"], call) for count, call in calls if call != "total"), reverse=True)
        row["by_name"] = {call: round(count, 2) for count, call in by_name[:CALLS_SHOWN] if count >= 0.01}
        rows[name] = row
        print(f"calls {name}: {row}", flush=True)
    return rows


def once(name, words, wrapper, options):
    """One load on a server that runs under a counting program."""
    server = Server(name, words, PORT, wrapper=wrapper)
    try:
        return wrk(PORT, "/f500.html", 64, options.seconds)
    finally:
        server.stop()
        time.sleep(0.3)


def measure_disk(chosen, options, work):
    """How much of the hot rate each server keeps while others wait for the disk."""
    if os.geteuid() != 0 or not os.path.isdir(os.path.dirname(BLKIO)):
        sys.exit("disk: needs root and the blkio controller of cgroup v1")
    docroot = options.cold_docroot
    plant_cold_files(docroot)
    os.makedirs(BLKIO, exist_ok=True)
    device = os.stat(docroot).st_dev
    write(f"{BLKIO}/blkio.throttle.read_iops_device", f"{os.major(device)}:{os.minor(device)} {READS_PER_SECOND}")
    script = write(f"{work}/cold.lua", "math.randomseed(os.time())\nrequest = function() return wrk.format('GET', '/cold/' .. "
                   f"math.random(0, {COLD_FILES - 1}) .. '.html') end\n")
    rows = {}
    for name, command in chosen.items():
        if name == "null":
            continue  # it reads no files
        server = Server(name, command(PORT, docroot, work, 500), PORT, lambda: write(f"{BLKIO}/cgroup.procs", str(os.getpid())))
        try:
            rows[name] = min((disturb(server, docroot, script, options) for _ in range(options.rounds)), key=lambda row: row["others"])
        finally:
            server.stop()
        print(f"disk {name}: {rows[name]}", flush=True)
    return rows


def disturb(server, docroot, script, options):
    hot = "/f500.html"
    wrk(server.port, hot, 8, 1)
    others = Others(server)
    alone = wrk(server.port, hot, 8, options.seconds)
    forget(docroot)
    wrk(server.port, hot, 1, 1)
    reader = wrk(server.port, "/", 16, options.seconds + 5, "-s", script, start=True)
    time.sleep(1.5)
    busy = wrk(server.port, hot, 8, options.seconds + 1)
    cold = parse_wrk(reader.communicate()[0])
    return {"alone_per_second": alone["requests_per_second"], "hot_per_second": busy["requests_per_second"],
            "kept": busy["requests_per_second"] / alone["requests_per_second"], "hot_p50_ms": busy["p50_ms"],
            "hot_p99_ms": busy["p99_ms"], "cold_per_second": cold["requests_per_second"],
            "others": max(others.share(), 0.0), "errors": busy["errors"] + busy["refused"] + cold["refused"]}


def plant_cold_files(docroot):
    os.makedirs(f"{docroot}/cold", exist_ok=True)
    write(f"{docroot}/f500.html", "x" * 500)
    for index in range(COLD_FILES):
        path = f"{docroot}/cold/{index}.html"
        if not os.path.exists(path):
            write(path, os.urandom(COLD_BYTES // 2).hex())
    subprocess.run(["chmod", "-R", "a+rX", docroot], check=True)
    subprocess.run(["sync", "-f", docroot], check=True)


def forget(docroot):
    """Drops the content of the cold files, and nothing else, from the page cache. Their names stay."""
    for index in range(COLD_FILES):
        file = os.open(f"{docroot}/cold/{index}.html", os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def table(data):
    """The data as Markdown."""
    lines = ["# Engines side by side", "", "Made by `bench/engines.py`; how, and what the columns mean, is said there. Medians;",
             f"{data['machine']}.", ""]
    names = [name for name in servers.installed() if any(name in data.get(load, {}) for load in LOADS)]
    figure = lambda value, form: "" if value is None else format(value, form)
    row = lambda cells: lines.append("| " + " | ".join(cells) + " |")
    head = lambda cells: (row(cells), row(["---"] + ["---:"] * (len(cells) - 1)))
    for key, title, form in [("cpu_us", "CPU time per request, microseconds", ".2f"), ("requests_per_second", "Requests a second", ",.0f"),
                             ("p99_ms", "p99 latency, milliseconds", ".2f")]:
        lines += [f"## {title}", ""]
        loads = [load for load in [*CACHED, "close-64-500"] if load in data]
        head(["", *(label(load) for load in loads)])
        for name in names:
            row([name, *(figure(data[load].get(name, {}).get(key), form) for load in loads)])
        lines.append("")
    others = [rows[name].get("others", 0) for load, rows in data.items() if load in CACHED or load.startswith("close") for name in rows]
    lines += [f"Others used {max(others):.0%} of a processor at the most, {statistics.median(others):.0%} in the median.", ""]
    failed = [f"{name} at {label(load)}: {rows[name]['errors']} timeouts and other errors, {rows[name]['refused']} refusals"
              for load, rows in data.items() if load in CACHED or load.startswith("close")
              for name in rows if rows[name]["errors"] or rows[name]["refused"]]
    lines += ["Not everything was answered: " + "; ".join(failed) + ".", ""] if failed else []
    if "calls" in data:
        lines += ["## System calls and context switches per request: 64 connections, 500 bytes", ""]
        head(["", "calls", "switches", "which (under strace, which slows the server down and so changes what is batched)"])
        for name in names:
            if counted := data["calls"].get(name):
                which = ", ".join(f"{call} {count}" for call, count in counted["by_name"].items())
                row([name, f"{counted['calls']:.2f}", f"{counted['switches']:.3f}", which])
        lines.append("")
    for load in [load for load in data if load.startswith("disk")]:
        run = "" if load == "disk" else ", an earlier run"
        lines += [f"## A hot file beside cold ones on a disk of 200 reads a second{run}", ""]
        head(["", "hot alone/s", "hot/s", "kept", "hot p50 ms", "hot p99 ms", "cold/s", "others"])
        for name in names:
            if kept := data[load].get(name):
                row([name, f"{kept['alone_per_second']:,.0f}", f"{kept['hot_per_second']:,.0f}", f"{kept['kept']:.0%}",
                     figure(kept["hot_p50_ms"], ".2f"), figure(kept["hot_p99_ms"], ".2f"), f"{kept['cold_per_second']:.0f}", figure(kept.get("others"), ".0%")])
        lines.append("")
    return "\n".join(lines)


def label(load):
    kind, connections, content = load.split("-")
    size = "50 KB" if content == "51200" else f"{content} B"
    return f"{size}, {'new connections' if kind == 'close' else connections + ' conn.'}"


def slug(name):
    return name.lower().replace(", ", "-").replace(" ", "-")


def machine():
    model = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    return f"{model.group(1) if model else os.uname().machine}, {os.cpu_count()} processors, Linux {os.uname().release}"


def stop_orderly(*_):
    """So that servers are stopped."""
    sys.exit(143)


def main():
    signal.signal(signal.SIGTERM, stop_orderly)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", help="names, with commas between: " + ", ".join(map(slug, servers.installed())))
    parser.add_argument("--loads", help="names, with commas between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--cold-docroot", default="/var/tmp/lamna-bench", help="for cold files, on a disk")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    options = parser.parse_args()
    os.makedirs(RESULTS, exist_ok=True)
    path = f"{RESULTS}/data.json"
    data = json.load(open(path)) if os.path.exists(path) else {}
    data["machine"] = machine()
    wanted = options.engines and options.engines.split(",")
    chosen = {name: command for name, command in servers.installed().items() if not wanted or slug(name) in wanted}
    loads = [] if options.table else options.loads.split(",") if options.loads else LOADS
    work = tempfile.mkdtemp(prefix="lamna-bench-")
    try:
        os.chmod(work, 0o755)
        os.makedirs(f"{work}/docroot")
        for content in (500, 51200):
            write(f"{work}/docroot/f{content}.html", "x" * content)
        for load in loads:
            if load == "calls":
                rows = measure_calls(chosen, options, work)
            elif load == "disk":
                rows = measure_disk(chosen, options, work)
            else:
                rows = measure_throughput(load, chosen, options, work)
            data.setdefault(load, {}).update(rows)
            write(path, json.dumps(data, indent=1) + "\n")
            print(f"{load}: done", flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    write(f"{RESULTS}/table.md", table(data) + "\n")


main()
