#!/usr/bin/env python3
"""What a request costs more with one way to serve than with another: pairs of short runs, and a confidence interval.

    results/phases/paired.py                                    # what looking costs: --arch auto that keeps amped, and amped
    results/phases/paired.py --b "--arch proactor" --pairs 6    # another way to serve
    results/phases/paired.py --bytes 1048576 --connections 16 --b "--arch thread-pool"

Both servers run all the time, on processor 0, and are asked in turn from processor 1. A pair is so many seconds of each, in
slices that alternate, because the machine has a speed for some seconds and then another; the other way begins each time. CPU
time is that of the process and its children, by their CPU clocks before and after each run. A pair's difference is one
sample; the interval is Student's t, 95 %. `main` is the share of the first thread, which in Lamna only supervises. Adds a
line to results/phases/paired.jsonl. Lamna is that of target/release, or LAMNA.
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

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAMNA = os.environ.get("LAMNA", f"{ROOT}/target/release/lamna")
KINDS = ("cached", "disk", "large", "connections", "crowd")
ENGINES = ("sped", "pipelined", "proactor", "thread-pool", "thread-per-request", "thread-per-session")
STUDENT = {5: 2.571, 7: 2.365, 9: 2.262, 10: 2.228, 11: 2.201, 13: 2.160, 15: 2.131, 17: 2.110, 19: 2.093, 23: 2.069, 29: 2.045}
FILES, FIRST_PORT = 16, 19600


def keeping_amped(path):
    """A profile by which no engine can be better than amped."""
    sure = "".join(f"{engine} = {{ ratio = 2.0, doubt = 0.01 }}\n" for engine in ENGINES)
    with open(path, "w") as file:
        file.write("".join(f"[{kind}]\namped = {{ ratio = 1.0, doubt = 0.01 }}\n{sure}" for kind in KINDS))
    return path


def serve(arguments, port, site):
    command = [LAMNA, "serve", site, "--workers", "1", "--log", "off", "--admin", "off", "--listen", f"127.0.0.1:{port}"]
    return subprocess.Popen(["taskset", "-c", "0", *command, *arguments.split()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cpu_us(pid):
    """Of a process, threads that have ended included, and of its children."""
    try:
        own = time.clock_gettime((~pid << 3) | 2) * 1e6  # CPUCLOCK_SCHED of a process: clock_getcpuclockid(3)
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = [int(child) for child in file.read().split()]
    except OSError:
        return 0.0  # one that has just ended
    return own + sum(cpu_us(child) for child in children)


def main_us(pid):
    with open(f"/proc/{pid}/task/{pid}/schedstat") as file:
        return int(file.read().split()[0]) / 1000


def ask(port, server, options, seconds):
    """Answers, CPU time for them, and that of the first thread."""
    urls = [f"http://127.0.0.1:{port}/{number}.html" for number in range(FILES)]
    more = ["--new-connections"] if options.new_connections else []
    command = [LAMNA, "load", *urls, "-d", str(seconds), "-c", str(options.connections), "-q", "--json", *more]
    before, main_before = cpu_us(server.pid), main_us(server.pid)
    output = subprocess.run(["taskset", "-c", "1", *command], check=True, capture_output=True).stdout
    answered = json.loads(output)["counts"]["answered"]
    return answered, cpu_us(server.pid) - before, main_us(server.pid) - main_before


def measure_pair(first, servers, options):
    """Of each way CPU time for each answer, answers a second, and the share of the first thread."""
    sums = [[0, 0, 0], [0, 0, 0]]
    for number in range(2 * options.slices):
        place = (first + number) % 2
        of_slice = ask(FIRST_PORT + place, servers[place], options, options.seconds / options.slices)
        sums[place] = [total + more for total, more in zip(sums[place], of_slice)]
    return [(cpu / answered, answered / options.seconds, of_main / cpu) for answered, cpu, of_main in sums]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--a", default="--arch amped")
    parser.add_argument("--b", default="--arch auto --profile KEEPING_AMPED")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--slices", type=int, default=8)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--bytes", type=int, default=500)
    parser.add_argument("--new-connections", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        site, profile = f"{work}/site", keeping_amped(f"{work}/profile.toml")
        os.mkdir(site)
        for number in range(FILES):
            with open(f"{site}/{number}.html", "wb") as file:
                file.write(b"x" * options.bytes)
        ways = [way.replace("KEEPING_AMPED", profile) for way in (options.a, options.b)]
        servers = [serve(way, FIRST_PORT + place, site) for place, way in enumerate(ways)]
        try:
            time.sleep(0.5)
            for place, server in enumerate(servers):
                ask(FIRST_PORT + place, server, options, 1)
            pairs = [measure_pair(number % 2, servers, options) for number in range(options.pairs)]
        finally:
            for server in servers:
                server.terminate()
                server.wait()
    differences = [b[0] / a[0] - 1 for a, b in pairs]
    student = STUDENT.get(len(pairs) - 1, 2.0 if len(pairs) > 29 else 2.6)
    margin = student * statistics.stdev(differences) / math.sqrt(len(pairs))
    median = lambda place, figure: statistics.median(pair[place][figure] for pair in pairs)
    result = {
        "a": options.a, "b": options.b, "bytes": options.bytes, "connections": options.connections,
        "new_connections": options.new_connections, "seconds": options.seconds, "kernel": platform.release(),
        "version": subprocess.run([LAMNA, "--version"], capture_output=True, text=True).stdout.strip(),
        "a_cpu_us": round(median(0, 0), 3), "b_cpu_us": round(median(1, 0), 3),
        "a_per_second": round(median(0, 1)), "b_per_second": round(median(1, 1)),
        "a_main": round(median(0, 2), 6), "b_main": round(median(1, 2), 6), "slices": options.slices,
        "b_costs_more": round(statistics.mean(differences), 4), "interval_95": round(margin, 4),
        "pairs": [[round(a[0], 3), round(b[0], 3)] for a, b in pairs],
    }
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "paired.jsonl"), "a") as file:
        file.write(json.dumps(result) + "\n")
    print(f"{options.a}: {result['a_cpu_us']} us, {result['a_per_second']}/s; {options.b}: {result['b_cpu_us']} us, "
          f"{result['b_per_second']}/s; {100 * result['b_costs_more']:+.2f} % +- {100 * result['interval_95']:.2f} %; "
          f"main {100 * result['a_main']:.3f} and {100 * result['b_main']:.3f} %")


if __name__ == "__main__":
    main()
