#!/usr/bin/env python3
"""CPU time per request of the whole server with 100 and with 1,000,000 cached files of 500 bytes, as CSV.

    results/caches/entries.py LAMNA SITE > results/caches/entries.csv

SITE gets a million files, a thousand in each directory (4 GB of disk), if it has none. Keys are asked for evenly, or as often
as a Zipf law with exponent 0.8 says, which is what traces of static sites show. Server on processor 0, generator on 1; every
file has been asked for before, most of them several times. `user_percent` is the part of the time that was spent outside of the
kernel, by the ticks of its clock; `busy_percent` how much of its processor the server had, because one that waits has fewer
requests for each system call; `stale_percent` and `missing_percent` the parts of the requests for which files had to be looked
at, and read.

TURN, if it is set, is a command that the measurement is run under (one that waits until the machine is quiet, say); the
servers are started and their caches filled before. OPTIONS are further ones for `lamna serve`.
"""
import json, os, random, shlex, subprocess, sys, tempfile, time

PORT, SECONDS, ROUNDS = 18431, 3, 3
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
    """A file of paths and weights. The popular ones are all over the directories. It has as many lines however many paths there are,
    because the generator shares the third cache with the server, and with fewer lines has more time."""
    order = list(range(count))
    random.Random(1).shuffle(order)
    times = max(FILES) // count
    out = tempfile.NamedTemporaryFile("w", delete=False)
    for rank, number in enumerate(order, 1):
        out.write(f"/d{number // 1000:04}/f{number % 1000:03}.bin {rank ** -exponent / times:.12f}\n" * times)
    out.close()
    return out.name


def cpu_ns(pid):
    return sum(int(open(f"/proc/{pid}/task/{task}/schedstat").read().split()[0]) for task in os.listdir(f"/proc/{pid}/task"))


def user_ticks(pid):
    """Of the processor's time what was spent outside of the kernel, and all of it, in ticks."""
    user, system = open(f"/proc/{pid}/stat").read().rsplit(")")[1].split()[11:13]
    return int(user), int(user) + int(system)


def stats(lamna, admin):
    said = subprocess.run([lamna, "ctl", "--admin", f"unix:{admin}", "--json", "stats"], capture_output=True, text=True)
    return json.loads(said.stdout)


def load(lamna, url, *arguments):
    command = ["taskset", "-c", "1", lamna, "load", url, "-c", "32", "--json", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def measure(lamna, servers):
    """One line for each number of files, order and round. The first second of each is not counted."""
    print("files,order,round,requests,cpu_us,user_percent,busy_percent,stale_percent,missing_percent", flush=True)
    for round in range(ROUNDS):
        for server in servers:
            pid, admin, url = server["pid"], server["admin"], server["url"]
            for order, file in server["weights"].items():
                load(lamna, url, "--paths", file, "-d", "1")
                before, known, begin = cpu_ns(pid), stats(lamna, admin), time.monotonic_ns()
                ticks = user_ticks(pid)
                load(lamna, url, "--paths", file, "-d", str(SECONDS))
                spent, now, wall = cpu_ns(pid) - before, stats(lamna, admin), time.monotonic_ns() - begin
                user, all = (now - then for now, then in zip(user_ticks(pid), ticks))
                lookups = {key: now["lookups"][key] - known["lookups"][key] for key in now["lookups"]}
                requests = sum(lookups.values())
                stale, missing = (100 * lookups[key] / requests for key in ["stale", "misses"])
                print(f"{server['files']},{order},{round},{requests},{spent / requests / 1000:.3f},{100 * user / all:.1f},{100 * spent / wall:.0f},"
                      f"{stale:.2f},{missing:.2f}", flush=True)


def start(lamna, site, files, port):
    """A server that has most of `files` files cached, watched and compared, and how to ask it for them."""
    admin = tempfile.mktemp(prefix="lamna-admin-")
    command = ["taskset", "-c", "0", lamna, "serve", site, "--listen", f"127.0.0.1:{port}", "--arch", "amped", "--log", "off",
               "--workers", "1", "--cache-bytes", "4GiB", "--admin", f"unix:{admin}", *shlex.split(os.environ.get("OPTIONS", ""))]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    server = {"pid": process.pid, "admin": admin, "url": f"http://127.0.0.1:{port}/", "files": files,
              "weights": {"zipf": paths(files, 0.8), "even": paths(files, 0)}}
    load(lamna, server["url"], "--paths", server["weights"]["even"], "-n", str(max(8 * files, 20_000)))
    return process, server


def main():
    if sys.argv[1] == "--measure":
        return measure(sys.argv[2], json.loads(sys.argv[3]))
    lamna, site = sys.argv[1:3]
    make(site, max(FILES))
    started = [start(lamna, site, files, PORT + number) for number, files in enumerate(FILES)]
    try:
        servers = [server for _, server in started]
        turn = shlex.split(os.environ.get("TURN", ""))
        subprocess.run([*turn, sys.executable, __file__, "--measure", lamna, json.dumps(servers)], check=True)
    finally:
        for process, server in started:
            process.terminate()
            process.wait()
            for file in server["weights"].values():
                os.unlink(file)


main()
