#!/usr/bin/env python3
"""CPU time per request, or memory, of a server with a feature and without it, as CSV.

    results/features/features.py LAMNA LOAD DIRECTORY [WITHOUT] > results/features/LOAD.csv

LAMNA is a build with `leave_out.patch`, whose server reads in `LAMNA_LEAVE_OUT` what it leaves out: 1 the region of the
allocator, 2 what it sets of glibc's, 4 lookup prefetch, 8 the memory that others hold on to. WITHOUT is a build that leaves
something out when it is compiled; then both builds run, with nothing else left out. The load is wrk or h2load.
DIRECTORY gets the files. Server on processor 0, load on processor 1. The variants take turns in each of `ROUNDS` rounds, in the reverse
order in every second one. CPU is utime and stime of /proc/PID/stat, of all threads; memory is Pss of smaps_rollup.
"""
import os, random, re, socket, ssl, subprocess, sys, tempfile, time
from pathlib import Path

ROUNDS, SECONDS, PORT = int(os.environ.get("ROUNDS", "8")), int(os.environ.get("SECONDS", "3")), 18500
MANY = 250_000
TICKS = os.sysconf("SC_CLK_TCK")
LAMNA, LOAD, ROOT = sys.argv[1:4]
WITHOUT = sys.argv[4] if len(sys.argv) > 4 else None


def files(name, count, size):
    site = Path(ROOT) / name
    for number in range(count):
        path = site / f"d{number // 1000:04}" / f"f{number % 1000:03}.bin"
        if number % 1000 == 0:
            if path.parent.exists() and (number + 1000 > count or path.parent.with_name(f"d{number // 1000 + 1:04}").exists()):
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(os.urandom(64) * (size // 64) + b"x" * (size % 64))
    return site


def target(number):
    return f"/d{number // 1000:04}/f{number % 1000:03}.bin"


def paths(count, exponent, drawn=0):
    """A script for wrk that asks for files as often as a Zipf law says, or for all in turn in a random order."""
    order = list(range(count))
    random.Random(1).shuffle(order)
    if exponent:
        weights = [rank ** -exponent for rank in range(1, count + 1)]
        order = random.Random(2).choices(order, weights, k=drawn or count)
    names = tempfile.NamedTemporaryFile("w", delete=False)
    names.writelines(target(number) + "\n" for number in order)
    names.close()
    script = tempfile.NamedTemporaryFile("w", suffix=".lua", delete=False)
    script.write(f"""local requests, at = {{}}, 0
function init()
  for path in io.lines("{names.name}") do requests[#requests + 1] = wrk.format("GET", path) end
  math.randomseed(os.time())
  at = math.random(#requests)
end
function request()
  at = at % #requests + 1
  return requests[at]
end
""")
    script.close()
    return script.name


def cpu_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def tree_cpu_s(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return cpu_s(pid) + sum(tree_cpu_s(int(child)) for child in children)


def pss_kib(pid):
    own = int(re.search(r"^Pss: +(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1])
    return own + sum(pss_kib(int(child)) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


class Server:
    def __init__(self, at, program, site, leaves_out=0, arguments=(), lines="", tls=False):
        self.port = PORT + at
        config = tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False)
        certificate = ""
        if tls:
            pair = Path(ROOT) / "pair"
            if not pair.with_suffix(".pem").exists():
                subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9",
                                "-subj", "/CN=localhost", "-keyout", f"{pair}.key", "-out", f"{pair}.pem"], check=True, capture_output=True)
            certificate = f'certificate = "{pair}.pem"\nkey = "{pair}.key"\n'
        config.write(f'listen = ["127.0.0.1:{self.port}"]\nlog = "off"\nworkers = 1\nadmin = "off"\n{lines}\n'
                     f'[[site]]\nroot = "{site}"\n{certificate}')
        config.close()
        environment = dict(os.environ, LAMNA_LEAVE_OUT=str(leaves_out))
        self.process = subprocess.Popen(["taskset", "-c", "0", program, "serve", "--config", config.name, *arguments],
                                        env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.pid = self.process.pid
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                break
            except OSError:
                time.sleep(0.1)

    def end(self):
        self.process.terminate()
        self.process.wait()


def load_of(script, connections=32, seconds=SECONDS):
    def load(server):
        command = ["taskset", "-c", "1", "wrk", "-t", "1", "-c", str(connections), "-d", f"{seconds}s", "-s", script]
        said = subprocess.run([*command, f"http://127.0.0.1:{server.port}"], capture_output=True, text=True, check=True).stdout
        if "Non-2xx" in said:
            sys.exit(said)
        return int(re.search(r"(\d+) requests in", said)[1])
    return load


def h2load(server, *arguments):
    command = ["taskset", "-c", "1", "h2load", "--h1", *arguments, f"https://127.0.0.1:{server.port}/d0000/f000.bin"]
    said = subprocess.run(command, capture_output=True, text=True).stdout
    return int(re.search(r"(\d+) succeeded", said)[1])


def rounds(servers, load, seconds=cpu_s):
    print("variant,round,requests,cpu_us", flush=True)
    for round in range(ROUNDS):
        for name, server in list(servers.items())[:: -1 if round % 2 else 1]:
            before = seconds(server.pid)
            requests = load(server)
            spent = seconds(server.pid) - before
            print(f"{name},{round},{requests},{spent * 1e6 / requests:.4f}", flush=True)


def variants(leaves_out, make):
    if WITHOUT:
        return {"with": make(0, LAMNA, 0), "without": make(1, WITHOUT, 0)}
    return {name: make(at, LAMNA, bits) for at, (name, bits) in enumerate(leaves_out.items())}


ALLOCATORS = {"with": 0, "glibc-set": 1, "glibc": 3}


def cached(leaves_out, arguments=()):
    site = files("few", 100, 500)
    servers = variants(leaves_out, lambda at, program, bits: Server(at, program, site, bits, ["--arch", "amped", *arguments]))
    load = load_of(paths(100, 0.8, 10_000))
    for server in servers.values():
        load(server)
    rounds(servers, load)
    return servers


def main():
    servers = {}
    if LOAD == "cached":
        servers = cached({"with": 0, "without": int(os.environ.get("BITS", "0"))})
    elif LOAD == "account":
        site = files("few", 100, 500)
        servers = {"off": Server(0, LAMNA, site, 0, ["--arch", "amped"]),
                   "kept": Server(1, LAMNA, site, 0, ["--arch", "amped"], "account = true")}
        rounds(servers, load_of(paths(100, 0.8, 10_000)))
    elif LOAD in ("many", "many-even"):
        site = files("million", MANY, 500)
        servers = variants({"with": 0, "without": 4}, lambda at, program, bits: Server(
            at, program, site, bits, ["--arch", "amped"], 'cache_bytes = "3GiB"'))
        load, all_in_turn = load_of(paths(MANY, 0.8 if LOAD == "many" else 0)), paths(MANY, 0)
        for server in servers.values():
            # Everything is in the cache, and was asked for more than once.
            answered = 0
            while answered < 4 * MANY:
                answered += load_of(all_in_turn, seconds=10)(server)
        rounds(servers, load)
    elif LOAD == "misses":
        site = files("middle", 2000, 65536)
        servers = variants(ALLOCATORS, lambda at, program, bits: Server(
            at, program, site, bits, ["--arch", os.environ.get("ARCH", "amped")], 'cache_bytes = "32MiB"\ncache_pages = "keep"'))
        load = load_of(paths(2000, 0))
        for server in servers.values():
            load(server)
        rounds(servers, load)
    elif LOAD == "tls":
        site = files("few", 100, 500)
        servers = variants(ALLOCATORS, lambda at, program, bits: Server(at, program, site, bits, ["--arch", "amped"], tls=True))
        load = lambda server: h2load(server, "-c", "500", "-D", str(SECONDS), "-t", "1")
        rounds(servers, load)
    elif LOAD == "burst":
        # Memory when much has been read by many threads and let go of again.
        site, load = files("large", 1200, 200_000), load_of(paths(1200, 0), 200, 2)
        print("variant,arch,round,burst_kib,after_kib", flush=True)
        for round in range(ROUNDS):
            for name, bits in ALLOCATORS.items():
                for arch in ("amped", "thread-pool"):
                    server = Server(0, LAMNA, site, bits, ["--arch", arch], 'cache_bytes = "32MiB"\ncache_pages = "keep"')
                    load(server)
                    burst = pss_kib(server.pid)
                    time.sleep(1)
                    print(f"{name},{arch},{round},{burst},{pss_kib(server.pid)}", flush=True)
                    server.end()
    elif LOAD == "slow":
        # Memory when clients do not take what they have asked for.
        site = files("large", 1200, 200_000)
        print("variant,round,pss_kib", flush=True)
        for round in range(ROUNDS):
            for name, bits in {"with": 0, "without": 8}.items():
                server = Server(0, LAMNA, site, bits, ["--arch", "amped"], 'cache_bytes = "32MiB"\ncache_pages = "keep"')
                waiting = []
                for number in range(1200):
                    connection = socket.socket()
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    connection.connect(("127.0.0.1", server.port))
                    connection.sendall(f"GET {target(number)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                    waiting.append(connection)
                time.sleep(2)
                print(f"{name},{round},{pss_kib(server.pid)}", flush=True)
                for connection in waiting:
                    connection.close()
                server.end()
    elif LOAD == "idle":
        site = files("few", 100, 500)
        print("arch,round,connections,bytes", flush=True)
        for round in range(ROUNDS):
            for arch in ("amped", "thread-pool", "thread-per-request", "thread-per-session"):
                server = Server(0, LAMNA, site, 0, ["--arch", arch], "threads_max = 16384\nconnection_limit = 0")
                before = pss_kib(server.pid)
                waiting = []
                for number in range(int(os.environ.get("CONNECTIONS", "10000"))):
                    connection = socket.create_connection(("127.0.0.1", server.port), 5)
                    connection.sendall(b"GET /d0000/f000.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    if connection.recv(4096).startswith(b"HTTP/1.1 200"):
                        waiting.append(connection)
                time.sleep(1)
                print(f"{arch},{round},{len(waiting)},{(pss_kib(server.pid) - before) * 1024 / max(1, len(waiting)):.0f}", flush=True)
                for connection in waiting:
                    connection.close()
                server.end()
    elif LOAD == "headroom":
        # Files that fit into a limit of memory, and not into the cache's half of it. Needs root, and control groups of version 1.
        site = files("fitting", 1400, 65536)
        load = load_of(paths(1400, 0.8, 100_000), 100)
        print("variant,round,requests,cpu_us,read_kib_per_s", flush=True)
        for name, pages in (("with", "auto"), ("without", "release")):
            group = Path(f"/sys/fs/cgroup/memory/lamna-features-{name}")
            group.mkdir(exist_ok=True)
            (group / "memory.limit_in_bytes").write_text(str(128 << 20))
            own = Path("/sys/fs/cgroup/memory") / Path("/proc/self/cgroup").read_text().split("memory:/")[1].split()[0]
            (group / "cgroup.procs").write_text(str(os.getpid()))
            servers[name] = Server(len(servers), LAMNA, site, 0, ["--arch", "amped"], f'cache_pages = "{pages}"')
            (own / "cgroup.procs").write_text(str(os.getpid()))
            load(servers[name]), load(servers[name])
        disk_kib = lambda pid: int(re.search(r"^read_bytes: (\d+)", Path(f"/proc/{pid}/io").read_text(), re.M)[1]) / 1024
        for round in range(ROUNDS):
            for name, server in list(servers.items())[:: -1 if round % 2 else 1]:
                before, read = cpu_s(server.pid), disk_kib(server.pid)
                requests = load(server)
                cpu_us = (cpu_s(server.pid) - before) * 1e6 / requests
                print(f"{name},{round},{requests},{cpu_us:.4f},{(disk_kib(server.pid) - read) / SECONDS:.0f}", flush=True)
    elif LOAD == "helpers":
        # Each file once, from the disk.
        site = files("middle", 2000, 65536)
        servers = {kind: Server(at, LAMNA, site, 0, ["--arch", "amped"], f'helpers = "{kind}"\ncache_bytes = "1MiB"')
                   for at, kind in enumerate(("threads", "processes"))}
        load_warm = load_of(paths(2000, 0), seconds=1)

        def load(server):
            for path in site.rglob("*.bin"):
                descriptor = os.open(path, os.O_RDONLY)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(descriptor)
            return load_warm(server)

        os.sync()
        rounds(servers, load, tree_cpu_s)
    else:
        sys.exit(__doc__)
    for server in servers.values():
        server.end()


if __name__ == "__main__":
    main()
