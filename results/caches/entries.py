#!/usr/bin/env python3
"""CPU time per request of the whole server with 100 and with 1,000,000 cached files of 500 bytes, as CSV.

    results/caches/entries.py LAMNA SITE > results/caches/entries.csv

SITE gets a million files, a thousand in each directory (4 GB of disk), if it has none. Keys are asked for evenly, or as often
as a Zipf law with exponent 0.8 says, which is what traces of static sites show. Server on processor 0, generator on 1; every
file has been asked for twice before. `stale` is the part of the requests for which the files had to be looked at, because
nobody had asked for the entry for ten seconds, or it was not watched yet.
"""
import json, os, random, subprocess, sys, tempfile, time

PORT, SECONDS, ROUNDS = 18431, 3, 3


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
    return json.loads(said.stdout) if said.returncode == 0 else None


def load(lamna, arguments):
    command = ["taskset", "-c", "1", lamna, "load", f"http://127.0.0.1:{PORT}/", "-c", "32", "--json", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def measure(lamna, site, count):
    admin = tempfile.mktemp(prefix="lamna-admin-")
    command = ["taskset", "-c", "0", lamna, "serve", site, "--listen", f"127.0.0.1:{PORT}", "--arch", "amped", "--log", "off",
               "--workers", "1", "--cache-bytes", "4GiB", "--admin", f"unix:{admin}"]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    even, zipf = paths(count, 0), paths(count, 0.8)
    every = paths(count, 0)
    try:
        for _ in range(2):
            load(lamna, ["--paths", every, "-n", str(max(3 * count, 20_000))])
        for round in range(ROUNDS):
            for order, weights in [("zipf", zipf), ("even", even)]:
                before, known = cpu_ns(server.pid), stats(lamna, admin)
                load(lamna, ["--paths", weights, "-d", str(SECONDS)])
                after, now = cpu_ns(server.pid), stats(lamna, admin)
                lookups = {key: now["lookups"][key] - known["lookups"][key] for key in now["lookups"]}
                requests = sum(lookups.values())
                stale = 100 * lookups["stale"] / requests
                missing = 100 * lookups["misses"] / requests
                print(f"{count},{order},{round},{requests},{(after - before) / requests / 1000:.3f},{stale:.2f},{missing:.2f}",
                      flush=True)
    finally:
        server.terminate()
        server.wait()
        for file in (even, zipf, every):
            os.unlink(file)


def main():
    lamna, site = sys.argv[1:3]
    make(site, 1_000_000)
    print("files,order,round,requests,cpu_us,stale_percent,missing_percent")
    for count in [int(text) for text in sys.argv[3:]] or [100, 1_000_000]:
        measure(lamna, site, count)


main()
