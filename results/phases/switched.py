#!/usr/bin/env python3
"""What engines cost under each kind of load: one server that changes from one to the other and back, and an interval.

    results/phases/switched.py cached disk crowd large connections      # amped and proactor
    results/phases/switched.py large --engines amped,thread-pool --pairs 6

One process serves from processor 0 and is asked from processor 1: the same sockets, memory and page cache for both engines, so
that what differs is the engine. A slice is `ctl arch set`, and a load of a second; a pair is a slice of each, the other one
first in every second pair. CPU time is that of the process, by its CPU clock; the load says how many answers. Beside the load
there are 9,800 idle connections (crowd), a visitor who asks for small files 200 times a second (large), or 16 connections that
ask for cold files on a disk of 200 reads a second (disk; needs the cgroup controller `blkio`). The interval is Student's t, 95 %.
Adds lines to results/phases/switched.jsonl. The document root is that of `lamna lab phases`. Lamna is that of target/release,
or LAMNA.
"""
import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LAMNA = os.environ.get("LAMNA", f"{HERE}/../../target/release/lamna")
SITE = os.path.join(tempfile.gettempdir(), "lamna-lab/phases")
KINDS = ("cached", "disk", "large", "connections", "crowd")
STUDENT = {2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 11: 2.201}
GROUP, PORT = "/sys/fs/cgroup/blkio/lamna-switched", 19650
URL = f"http://127.0.0.1:{PORT}/"


def cpu_us(pid):
    return time.clock_gettime((~pid << 3) | 2) * 1e6  # CPUCLOCK_SCHED of a process: clock_getcpuclockid(3)


def listed(work, kind):
    """A file with the paths of all files of a kind, for `--paths`."""
    top = f"{SITE}/{kind}"
    paths = [os.path.join(place, name)[len(SITE):] for place, _, names in os.walk(top) for name in names]
    path = f"{work}/{kind}.paths"
    with open(path, "w") as file:
        file.write("".join(f"{each} 1\n" for each in sorted(paths)))
    return path


def asking(work, kind, *options):
    return ["taskset", "-c", "1", LAMNA, "load", URL, "--paths", f"{work}/{kind}.paths", "-q", "--json", *map(str, options)]


def beside(work, kind, seconds):
    """What is asked besides, for so long."""
    commands = {
        "crowd": asking(work, "small", "-c", 1, "--think-ms", 3_600_000, "--idle", 9_800, "-d", seconds),
        "large": asking(work, "small", "-c", 64, "--rate", 200, "--poisson", "-d", seconds),
        "disk": asking(work, "cold", "-c", 16, "-d", seconds),
    }
    return subprocess.Popen(commands[kind], stdout=subprocess.DEVNULL) if kind in commands else None


def evict(top):
    for place, _, names in os.walk(top):
        for name in names:
            with open(os.path.join(place, name)) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def limit_disk():
    device = os.stat(SITE).st_dev
    os.makedirs(GROUP, exist_ok=True)
    with open(f"{GROUP}/blkio.throttle.read_iops_device", "w") as file:
        file.write(f"{os.major(device)}:{os.minor(device)} 200")


def enter_group():
    with open(f"{GROUP}/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))


def measure(kind, options, work):
    count = 2 * options.pairs * (options.seconds + 0.4) + 3
    admin, disk = f"unix:{work}/admin-{kind}", kind == "disk"
    if disk:
        limit_disk()
        evict(f"{SITE}/cold")
    command = ["taskset", "-c", "0", LAMNA, "serve", SITE, "--arch", options.engines[0], "--workers", "1", "--log", "off",
               "--admin", admin, "--listen", f"127.0.0.1:{PORT}"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=enter_group if disk else None)
    load = {"large": ("large", "-c", 16), "connections": ("small", "-c", 64, "--new-connections")}.get(kind, ("small", "-c", 64))
    other = None

    def slice_of(engine):
        subprocess.run([LAMNA, "ctl", "--admin", admin, "arch", "set", engine], check=True, capture_output=True)
        time.sleep(0.1)
        before = cpu_us(server.pid)
        output = subprocess.run(asking(work, *load, "-d", options.seconds), check=True, capture_output=True).stdout
        answered = json.loads(output)["counts"]["answered"]
        return (cpu_us(server.pid) - before) / answered, answered / options.seconds

    try:
        time.sleep(0.5)
        other = beside(work, kind, count)
        time.sleep(2 if kind == "crowd" else 0.2)
        for engine in options.engines:
            slice_of(engine)
        pairs = []
        for number in range(options.pairs):
            order = options.engines if number % 2 == 0 else options.engines[::-1]
            taken = {engine: slice_of(engine) for engine in order}
            pairs.append([taken[engine] for engine in options.engines])
    finally:
        for process in filter(None, (other, server)):
            process.terminate()
            process.wait()
        if disk:
            os.rmdir(GROUP)
    return pairs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="+", choices=KINDS)
    parser.add_argument("--engines", default="amped,proactor", type=lambda text: text.split(","))
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        for files in ("small", "large", "cold"):
            listed(work, files)
        for kind in options.kinds:
            pairs = measure(kind, options, work)
            logarithms = [math.log(b[0] / a[0]) for a, b in pairs]
            margin = STUDENT.get(len(pairs) - 1, 2.3) * statistics.stdev(logarithms) / math.sqrt(len(pairs))
            result = {
                "kind": kind, "engines": options.engines, "kernel": platform.release(),
                "cpu_us": [round(statistics.median(pair[place][0] for pair in pairs), 2) for place in (0, 1)],
                "per_second": [round(statistics.median(pair[place][1] for pair in pairs)) for place in (0, 1)],
                "ratio": round(math.exp(statistics.mean(logarithms)), 4), "interval_95": round(margin, 4),
                "pairs": [[round(a[0], 2), round(b[0], 2)] for a, b in pairs],
            }
            with open(f"{HERE}/switched.jsonl", "a") as file:
                file.write(json.dumps(result) + "\n")
            one, other = options.engines
            print(f"{kind}: {one} {result['cpu_us'][0]} us, {result['per_second'][0]}/s; {other} {result['cpu_us'][1]} us, "
                  f"{result['per_second'][1]}/s; ratio {result['ratio']} +- {100 * margin:.1f} %", flush=True)


if __name__ == "__main__":
    main()
