#!/usr/bin/env python3
"""CPU time per request of the whole server with 100 and with 1,000,000 cached files of 500 bytes, as CSV.

    results/caches/entries.py LAMNA SITE [FILES...] > results/caches/entries.csv

SITE gets a million files, a thousand in each directory (4 GB of disk), if it has none. Keys are asked for evenly, or as often
as a Zipf law with exponent 0.8 says, which is what traces of static sites show. Server on processor 0, generator on 1; every
file has been asked for before, most of them several times. `busy_percent` says how much of its processor the server had,
because a server that waits does less with each system call; `stale_percent` for which part of the requests files had to be
looked at, `missing_percent` for which they had to be read.

TURN, if it is set, is a command that each measurement is run under (one that waits until the machine is quiet, say); the
server is started and its cache filled before. OPTIONS are further ones for `lamna serve`.
"""
import json, os, random, shlex, subprocess, sys, tempfile, time

PORT, SECONDS, ROUNDS = 18431, 4, 3
FILES = [100, 1_000_000]


def make(site, count):
    for directory in range((count + 999) // 1000):
        path = f"{site}/d{directory:04}"
        if os.path.isdir(path):
            continue
        os.makedirs(path)
        for file in range(min(1000, count - directory * 1000)):
            with open(f"{path}/f{file:03}.bin", "wb") as out:
                out.write(b"x" * 500)


def paths(count, exponent):
    """A file of paths and weights. The popular ones are all over the directories."""
    order = list(range(count))
    random.Random(1).shuffle(order)
    out = tempfile.NamedTemporaryFile("w", delete=False)
    for rank, number in enumerate(order, 1):
        out.write(f"/d{number // 1000:04}/f{number % 1000:03}.bin {rank ** -exponent:.9f}\n")
    out.close()
    return out.name


def cpu_ns(pid):
    return sum(int(open(f"/proc/{pid}/task/{task}/schedstat").read().split()[0]) for task in os.listdir(f"/proc/{pid}/task"))


def stats(lamna, admin):
    said = subprocess.run([lamna, "ctl", "--admin", f"unix:{admin}", "--json", "stats"], capture_output=True, text=True)
    return json.loads(said.stdout)


def load(lamna, *arguments):
    command = ["taskset", "-c", "1", lamna, "load", f"http://127.0.0.1:{PORT}/", "-c", "32", "--json", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def measure(lamna, pid, admin, count, weights):
    """One line for each order and round. The first second of each is not counted."""
    for round in range(ROUNDS):
        for order, file in weights.items():
            load(lamna, "--paths", file, "-d", "1")
            before, known, begin = cpu_ns(pid), stats(lamna, admin), time.monotonic_ns()
            load(lamna, "--paths", file, "-d", str(SECONDS))
            spent, now, wall = cpu_ns(pid) - before, stats(lamna, admin), time.monotonic_ns() - begin
            lookups = {key: now["lookups"][key] - known["lookups"][key] for key in now["lookups"]}
            requests = sum(lookups.values())
            stale, missing = (100 * lookups[key] / requests for key in ["stale", "misses"])
            print(f"{count},{order},{round},{requests},{spent / requests / 1000:.3f},{100 * spent / wall:.0f},{stale:.2f},{missing:.2f}",
                  flush=True)


def fill_and_measure(lamna, site, count):
    admin = tempfile.mktemp(prefix="lamna-admin-")
    command = ["taskset", "-c", "0", lamna, "serve", site, "--listen", f"127.0.0.1:{PORT}", "--arch", "amped", "--log", "off",
               "--workers", "1", "--cache-bytes", "4GiB", "--admin", f"unix:{admin}", *shlex.split(os.environ.get("OPTIONS", ""))]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    weights = {"zipf": paths(count, 0.8), "even": paths(count, 0)}
    try:
        for _ in range(2):
            load(lamna, "--paths", weights["even"], "-n", str(max(4 * count, 20_000)))
        turn = shlex.split(os.environ.get("TURN", ""))
        again = [sys.executable, __file__, "--measure", lamna, str(server.pid), admin, str(count), json.dumps(weights)]
        subprocess.run([*turn, *again], check=True)
    finally:
        server.terminate()
        server.wait()
        for file in weights.values():
            os.unlink(file)


def main():
    if sys.argv[1] == "--measure":
        lamna, pid, admin, count, weights = sys.argv[2:]
        return measure(lamna, int(pid), admin, int(count), json.loads(weights))
    lamna, site = sys.argv[1:3]
    make(site, max(FILES))
    print("files,order,round,requests,cpu_us,busy_percent,stale_percent,missing_percent", flush=True)
    for count in [int(text) for text in sys.argv[3:]] or FILES:
        fill_and_measure(lamna, site, count)


main()
