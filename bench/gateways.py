#!/usr/bin/env python3
"""What the server is worth in front of an application that is slow, large or faster than its clients.

    cargo build --release && bench/gateways.py slow      # hot files while 500 clients wait 200 ms for each answer of an application
    bench/gateways.py bulk [--gigabytes 10]              # one upload and one download through the proxy: speed, and the server's memory
    bench/gateways.py short                              # CPU time for each short answer, beside the floor: null_proxy.c, which only passes bytes on
    bench/gateways.py readers                            # 200 clients that read 1 KB/s of an answer that comes at full speed
    options: --lamna PATH  --engines amped,mp  --rounds 3  --seconds 4  --json FILE  --offered 20000

slow: 64 connections ask for the file so many times a second (h2load), which the load's processor has to be able to do beside the 500 clients;
"clients elsewhere" is the same with the 500 clients at the application itself: what the load's processor alone does to the latency of files. What the
server adds is the difference to "p99 ms beside".
--offered 0 asks as fast as it is answered (wrk), where the load is as likely the limit as the server. Engines with threads serve as many at once
as they have threads, and mp as it has processes: there, files wait with everybody else when these are taken.

Each prints a table and ends by itself. The server runs on processor 0; the application (application.c) and the load on processor 1. nginx, if it
is installed, is measured in the same run. Memory is anonymous memory of all processes of the server (RssAnon), looked at twenty times a
second: `grows` is its highest beyond what it was before. "others" is how much of a processor anything else on the machine used
meanwhile, as far as that can be told: figures taken beside more than a few percent are not to be quoted.
"""
import argparse
import glob
import json
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import servers
from servers import LOAD_CPU, PRIORITY, TICKS, Server, write, wrk

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("scenario", choices=["slow", "bulk", "short", "readers"])
parser.add_argument("--lamna", default=os.path.join(servers.ROOT, "target/release/lamna"))
parser.add_argument("--engines", help="names, with commas between; `nginx` is one")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--seconds", type=int, default=4)
parser.add_argument("--offered", type=int, default=20000, help="slow: requests for the file a second; 0 for as many as are answered")
parser.add_argument("--clients", type=int, default=500, help="slow: who waits for the application")
parser.add_argument("--readers", type=int, default=200, help="readers: who reads slowly")
parser.add_argument("--gigabytes", type=float, default=10)
parser.add_argument("--json")
options = parser.parse_args()
work = tempfile.mkdtemp(prefix="lamna-bench-")
PIECE = 1 << 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lamna(arguments, port, application):
    config = write(f"{work}/lamna.toml", f"""[[site]]
root = "{work}/root"
route = [{{ match = "/app/*", proxy = "http://127.0.0.1:{application}" }}, {{ match = "/slow", proxy = "http://127.0.0.1:{application}" }},
    {{ match = "/bytes/*", proxy = "http://127.0.0.1:{application}" }}]
""")
    return [options.lamna, "serve", "--config", config, "--listen", f"127.0.0.1:{port}", "--log", "off", *arguments]


def nginx(port, application):
    proxied = "proxy_pass http://application; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_buffering off; proxy_request_buffering off;"
    return ["nginx", "-c", write(f"{work}/nginx.conf", f"""daemon off; worker_processes 1; pid {work}/nginx.pid;
error_log {work}/nginx.err crit; worker_rlimit_nofile 20000; user root;
events {{ worker_connections 16384; multi_accept on; }}
http {{ access_log off; sendfile on; tcp_nopush on; keepalive_timeout 300; keepalive_requests 1000000000; client_max_body_size 0;
upstream application {{ server 127.0.0.1:{application}; keepalive 600; keepalive_requests 1000000000; }}
open_file_cache max=1000 inactive=60s; open_file_cache_valid 60s;
server {{ listen 127.0.0.1:{port} backlog=4096; root {work}/root; location /app/ {{ {proxied} }} location /slow {{ {proxied} }}
location /bytes/ {{ {proxied} }} }} }}""")]


def floor(port, application):
    binary = f"{work}/null_proxy"
    if not os.path.exists(binary):
        subprocess.run(["gcc", "-O2", "-o", binary, os.path.join(servers.ROOT, "bench/null_proxy.c")], check=True)
    return [binary, str(port), str(application)]


def candidates():
    found = {name: lambda port, app, arguments=arguments: lamna(arguments, port, app) for name, arguments in servers.ENGINES.items()}
    if shutil.which("nginx"):
        found["nginx"] = nginx
    if options.scenario == "short":
        found["floor"] = floor
    wanted = options.engines and options.engines.split(",")
    return {name: command for name, command in found.items() if not wanted or name in wanted}


class Application:
    def __enter__(self):
        binary = f"{work}/application"
        if not os.path.exists(binary):
            subprocess.run(["gcc", "-O2", "-o", binary, os.path.join(servers.ROOT, "bench/application.c")], check=True)
        self.port = free_port()
        self.process = subprocess.Popen([*PRIORITY, "taskset", "-c", LOAD_CPU, binary, str(self.port)])
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.2).close()
                return self
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("the application does not start")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Others:
    """How much of the machine anybody else uses: beside the server, the application, and the load."""

    def __init__(self, server, application):
        self.server, self.application = server, application
        self.begun, self.before = time.monotonic(), self.busy()

    def busy(self):
        with open("/proc/stat") as file:
            fields = list(map(int, file.readline().split()[1:8]))
        with open(f"/proc/{self.application.process.pid}/stat") as file:
            answering = sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
        usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        load = sum(usage.ru_utime + usage.ru_stime for usage in usages)
        # All but idle and waiting, interrupts included: they are counted to whoever they interrupt.
        return (sum(fields) - fields[3] - fields[4] - answering) / TICKS - load - self.server.cpu_us() / 1e6

    def share(self):
        """Of one processor, since the beginning."""
        return (self.busy() - self.before) / (time.monotonic() - self.begun)


class Memory:
    """How much anonymous memory a server has at most from now on."""

    def __init__(self, server):
        self.server, self.over = server, threading.Event()
        self.before = self.highest = self.bytes()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def bytes(self):
        total = 0
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                fields = open(path).read().rpartition(")")[2].split()
                if int(fields[3]) == self.server.process.pid:
                    status = open(os.path.dirname(path) + "/status").read()
                    total += int(status.split("\nRssAnon:")[1].split()[0]) * 1024
            except (OSError, IndexError):
                pass  # it has just ended
        return total

    def look(self):
        while not self.over.wait(0.05):
            self.highest = max(self.highest, self.bytes())

    def grows(self):
        self.over.set()
        self.thread.join()
        return max(self.highest, self.bytes()) - self.before


def percentile(values, part):
    return sorted(values)[min(int(len(values) * part), len(values) - 1)] if values else float("nan")


def files(port, seconds):
    """Requests a second for the file that were answered, and the 99th percentile of their latency in milliseconds."""
    if not options.offered:
        found = wrk(port, "/f500.html", 64, seconds)
        return {"rate": found["requests_per_second"], "p99": found["p99_ms"] or float("nan"), "errors": found["errors"] + found["refused"]}
    log = f"{work}/latencies"
    if os.path.exists(log):
        os.remove(log)
    command = [*PRIORITY, "taskset", "-c", LOAD_CPU, "h2load", "--h1", "-c64", f"--rps={options.offered / 64}", "-D", str(seconds), f"--log-file={log}",
               f"http://127.0.0.1:{port}/f500.html"]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=seconds + 30)
    # When it began, its status (-1: it failed), and how long it took, in microseconds.
    lines = [line.split() for line in open(log)] if os.path.exists(log) else []
    took = [int(line[2]) / 1000 for line in lines if line[1] == "200"]
    return {"rate": len(took) / seconds, "p99": percentile(took, 0.99), "errors": len(lines) - len(took)}


def slow(server, application):
    files(server.port, 1)
    others = Others(server, application)
    cpu, begun = server.cpu_us(), time.monotonic()
    alone = files(server.port, options.seconds)
    busy_alone = (server.cpu_us() - cpu) / 1e4 / (time.monotonic() - begun)

    def beside_clients(port):
        waiting = wrk(port, "/slow", options.clients, options.seconds + 4, "--timeout", "10s", start=True)
        time.sleep(1.5)
        cpu, begun = server.cpu_us(), time.monotonic()
        beside = files(server.port, options.seconds)
        busy = (server.cpu_us() - cpu) / 1e4 / (time.monotonic() - begun)
        return beside, busy, servers.parse_wrk(waiting.communicate()[0])

    elsewhere, _, _ = beside_clients(application.port)
    beside, busy, slow_ones = beside_clients(server.port)
    # Per request for a file, and what the others cost beyond that.
    file_us = 1e4 * busy_alone / max(alone["rate"], 1)
    slow_us = (1e4 * busy - file_us * beside["rate"]) / max(slow_ones["requests_per_second"], 1)
    return {"alone": alone["rate"], "beside": beside["rate"], "kept": 100 * beside["rate"] / max(alone["rate"], 1), "p99_alone_ms": alone["p99"],
            "p99_elsewhere_ms": elsewhere["p99"], "p99_ms": beside["p99"], "file_us": file_us, "slow_us": slow_us, "busy_alone": busy_alone, "busy": busy, "slow": slow_ones["requests_per_second"],
            "slow_p99_ms": slow_ones["p99_ms"] or float("nan"), "errors": beside["errors"] + slow_ones["errors"] + slow_ones["refused"],
            "others": 100 * others.share()}


def head_of(connection):
    head = b""
    while b"\r\n\r\n" not in head:
        received = connection.recv(65536)
        if not received:
            raise RuntimeError(f"the server has ended the connection behind {head!r}")
        head += received
    return head.split(b"\r\n\r\n", 1)


def bulk(server, application):
    total = int(options.gigabytes * 1e9)
    found = {}
    others = Others(server, application)

    def upload(connection):
        piece = memoryview(bytes(PIECE))
        connection.sendall(b"POST /app/x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % total)
        left = total
        while left:
            left -= connection.send(piece[:min(left, PIECE)])
        head, content = head_of(connection)
        if not head.startswith(b"HTTP/1.1 200") or int(content) != total:
            raise RuntimeError(f"{head!r} {content!r}")

    def download(connection):
        buffer = bytearray(PIECE)
        connection.sendall(b"GET /bytes/%d HTTP/1.1\r\nHost: a\r\n\r\n" % total)
        head, content = head_of(connection)
        received = len(content)
        while received < total:
            bytes_ = connection.recv_into(buffer)
            if not bytes_:
                raise RuntimeError(f"{received} of {total} bytes: {head!r}")
            received += bytes_

    for name, act in {"up": upload, "down": download}.items():
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.settimeout(60)
            memory, cpu, begun = Memory(server), server.cpu_us(), time.monotonic()
            try:
                act(connection)
            finally:
                grows = memory.grows()
            seconds = time.monotonic() - begun
            found |= {f"{name}_mb_s": total / 1e6 / seconds, f"{name}_grows_kib": grows / 1024, f"{name}_cpu_s": (server.cpu_us() - cpu) / 1e6}
    return found | {"others": 100 * others.share()}


def short(server, application):
    wrk(server.port, "/app/x", 32, 1)
    others = Others(server, application)
    cpu = server.cpu_us()
    found = wrk(server.port, "/app/x", 32, options.seconds)
    return {"us": (server.cpu_us() - cpu) / max(found["requests"], 1), "rate": found["requests_per_second"], "p99_ms": found["p99_ms"] or float("nan"),
            "errors": found["errors"] + found["refused"], "others": 100 * others.share()}


def latencies(port, seconds):
    """Milliseconds of requests for a file and for a small answer of the application, in turn, 100 a second each on a connection of its own."""
    found = {"/f500.html": [], "/app/x": []}
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(10)
        begun = time.monotonic()
        asked = 0
        while time.monotonic() - begun < seconds:
            time.sleep(max(0, begun + asked / 200 - time.monotonic()))
            path = list(found)[asked % 2]
            asked += 1
            sent = time.monotonic()
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            head, content = head_of(connection)
            received = len(content)
            while received < 500:
                received += len(connection.recv(65536))
            found[path].append((time.monotonic() - sent) * 1000)
    return found


def readers(server, application):
    """Each reads 100 bytes ten times a second, with a small receive buffer."""
    others = Others(server, application)
    before = latencies(server.port, options.seconds)
    memory = Memory(server)
    connections, over, read = [], threading.Event(), [0]
    for _ in range(options.readers):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(b"GET /bytes/1000000000000 HTTP/1.1\r\nHost: a\r\n\r\n")
        connection.setblocking(False)
        connections.append(connection)

    def read_slowly():
        while not over.wait(0.1):
            for connection in connections:
                try:
                    read[0] += len(connection.recv(100))
                except BlockingIOError:
                    pass

    reader = threading.Thread(target=read_slowly)
    reader.start()
    time.sleep(2)
    cpu, begun = server.cpu_us(), time.monotonic()
    beside = latencies(server.port, 3 * options.seconds)
    busy = (server.cpu_us() - cpu) / 1e6 / (time.monotonic() - begun)
    over.set()
    reader.join()
    grows = memory.grows()
    for connection in connections:
        connection.close()
    found = {"grows_kib": grows / 1024, "kib_each": grows / 1024 / options.readers, "read": read[0] / options.readers,
             "server_cpu": 100 * busy, "others": 100 * others.share()}
    for name, path in {"file": "/f500.html", "app": "/app/x"}.items():
        found |= {f"{name}_p99_alone_ms": percentile(before[path], 0.99), f"{name}_p50_ms": percentile(beside[path], 0.5),
                  f"{name}_p99_ms": percentile(beside[path], 0.99)}
    return found


COLUMNS = {
    "slow": {"alone": "files/s alone", "beside": "files/s beside", "kept": "kept %", "p99_alone_ms": "p99 ms alone",
             "p99_elsewhere_ms": "clients elsewhere", "p99_ms": "p99 ms beside", "file_us": "us a file", "slow_us": "us a slow one", "busy_alone": "server busy % alone", "busy": "beside", "slow": "slow/s", "slow_p99_ms": "slow p99 ms", "errors": "errors", "others": "others %"},
    "bulk": {"up_mb_s": "up MB/s", "up_grows_kib": "grows KiB", "up_cpu_s": "CPU s", "down_mb_s": "down MB/s", "down_grows_kib": "grows KiB",
             "down_cpu_s": "CPU s", "others": "others %"},
    "short": {"us": "CPU us an answer", "rate": "answers/s", "p99_ms": "p99 ms", "errors": "errors", "others": "others %"},
    "readers": {"grows_kib": "grows KiB", "kib_each": "KiB each", "read": "bytes read", "server_cpu": "server CPU %",
                "file_p99_alone_ms": "file p99 alone", "file_p50_ms": "file p50", "file_p99_ms": "file p99 ms", "app_p99_alone_ms": "app p99 alone",
                "app_p50_ms": "app p50", "app_p99_ms": "app p99 ms", "others": "others %"},
}


def main():
    os.mkdir(f"{work}/root")
    write(f"{work}/root/f500.html", "x" * 500)
    subprocess.run(["chmod", "-R", "a+rX", work], check=True)
    os.sched_setaffinity(0, {int(LOAD_CPU)})
    measure = {"slow": slow, "bulk": bulk, "short": short, "readers": readers}[options.scenario]
    rounds = 1 if options.scenario == "bulk" else options.rounds
    rows = {name: [] for name in candidates()}
    with Application() as application:
        for _ in range(rounds):
            for name, command in candidates().items():
                port = free_port()
                server = Server(name, command(port, application.port), port)
                try:
                    rows[name].append(measure(server, application))
                    print(name, {key: round(value, 2) for key, value in rows[name][-1].items()}, file=sys.stderr, flush=True)
                except (OSError, RuntimeError) as problem:
                    print(f"{name}: {problem}", file=sys.stderr)
                finally:
                    server.stop()
    columns = COLUMNS[options.scenario]
    print("| " + " | ".join(["server", *columns.values()]) + " |")
    print("| --- " + "| ---: " * len(columns) + "|")
    middle = {name: {key: statistics.median(one[key] for one in found) for key in columns} for name, found in rows.items() if found}
    for name, found in middle.items():
        print("| " + " | ".join([name, *(f"{found[key]:,.2f}" if found[key] < 100 else f"{found[key]:,.0f}" for key in columns)]) + " |")
    if options.json:
        write(options.json, json.dumps(middle, indent=1) + "\n")


signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
try:
    main()
finally:
    shutil.rmtree(work, ignore_errors=True)
