#!/usr/bin/env python3
"""10,000 clients that send or read one byte a second, on every engine: what the others notice, and what it costs.

    cargo build --release && bench/slow_clients.py [--clients 10000] [--seconds 15] [--engines amped,mp]

A third of the slow clients sends a request head, a third sends the content of a request, and a third reads the answer, one byte a second
each, from 20 addresses of 127.0.0.0/8. Whom the server closes comes back at once. Meanwhile others ask for a small file, 400 times a
second, half of them on connections that they keep and half on new ones. Both sides need descriptors: ulimit -n. Bytes are the
server's own memory (PSS, of all its processes) for each slow connection that it holds; the kernel's for sockets stand beside them.
Writes results/engines/slow-clients.md.
"""
import argparse
import glob
import json
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import servers
from servers import LOAD_CPU, PRIORITY, Server, write

PORT = 18791
KINDS = ("heads", "contents", "readers")
ADDRESSES = [f"127.0.0.{last}" for last in range(2, 22)]
# In so many parts of a second the slow ones move a byte each, so that they do not come in one crowd.
TICKS = 100
PATIENCE_S, OPENED_AT_ONCE = 5, 100
REQUEST = b"GET /f500.html HTTP/1.1\r\nHost: localhost\r\n\r\n"
BEGINNINGS = {
    "heads": b"GET /f500.html HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    "contents": b"GET /f500.html HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500000\r\n\r\n",
    "readers": b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


class Slow:
    """Slow clients, each of which does something once a second."""

    def __init__(self, count):
        self.clients, self.count, self.refused, self.closed = [], count, 0, 0

    def begin(self, number):
        kind = KINDS[number % len(KINDS)]
        connection = socket.socket()
        connection.setblocking(False)
        if kind == "readers":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.bind((ADDRESSES[number % len(ADDRESSES)], 0))
        connection.connect_ex(("127.0.0.1", PORT))
        return [kind, connection, False]

    def open_all(self):
        """Opens all of them, so many at a time, within their patience."""
        deadline = time.monotonic() + 30
        while len(self.clients) < self.count and time.monotonic() < deadline:
            for _ in range(min(OPENED_AT_ONCE, self.count - len(self.clients))):
                self.clients.append(self.begin(len(self.clients)))
            time.sleep(0.02)
            for number in range(max(0, len(self.clients) - 2 * OPENED_AT_ONCE), len(self.clients)):
                self.move(number)

    def move(self, number):
        """One byte of one of them."""
        kind, connection, begun = self.clients[number]
        try:
            if not begun:
                connection.send(BEGINNINGS[kind])
                self.clients[number][2] = True
            elif kind == "readers":
                if not connection.recv(1):
                    raise ConnectionResetError
            else:
                connection.send(b"x")
                # An answer is a refusal, or the end.
                if connection.recv(4096)[:12] == b"HTTP/1.1 503":
                    self.refused += 1
                raise ConnectionResetError
        except BlockingIOError:
            return
        except OSError:
            self.closed += 1
            connection.close()
            self.clients[number] = self.begin(number)

    def keep_on(self, process):
        """Until a process has ended."""
        tick, begun = 0, time.monotonic()
        while process.poll() is None:
            for number in range(tick % TICKS, len(self.clients), TICKS):
                self.move(number)
            tick += 1
            time.sleep(max(0, begun + tick / TICKS - time.monotonic()))

    def close(self):
        for _, connection, _ in self.clients:
            connection.close()


def probe(seconds):
    """Latencies of others, in milliseconds, as JSON."""
    def connect():
        connection = socket.create_connection(("127.0.0.1", PORT), PATIENCE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    kept, told = [None] * 8, {"latencies": [], "refused": 0, "failed": 0}
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        place, is_new, begun = number % len(kept), number % 2, time.monotonic()
        try:
            connection = connect() if is_new or kept[place] is None else kept[place]
            connection.sendall(REQUEST)
            answer = connection.recv(65536)
            if answer.startswith(b"HTTP/1.1 200"):
                told["latencies"].append((time.monotonic() - begun) * 1000)
            else:
                told["refused" if answer.startswith(b"HTTP/1.1 503") else "failed"] += 1
            if is_new:
                connection.close()
            else:
                kept[place] = connection if answer.startswith(b"HTTP/1.1 200") else None
        except OSError:
            told["failed"] += 1
            kept[place] = None if not is_new else kept[place]
        number += 1
        time.sleep(random.expovariate(400))
    # Few bytes, so that they wait in the pipe until somebody reads.
    told["latencies"] = [len(told["latencies"]), *cuts(told["latencies"])]
    print(json.dumps(told))


def pss_bytes(server):
    total = 0
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            fields = open(path).read().rpartition(")")[2].split()
            if int(fields[3]) == server.process.pid:
                rollup = open(os.path.dirname(path) + "/smaps_rollup").read()
                total += int(rollup.split("\nPss:")[1].split()[0]) * 1024
        except (OSError, IndexError):
            pass  # it has just ended
    return total


def socket_bytes():
    """What the kernel holds for TCP, of both sides."""
    with open("/proc/net/sockstat") as file:
        line = next(line for line in file if line.startswith("TCP:"))
    return int(line.split("mem ")[1].split()[0]) * 4096


def held(port):
    """Established connections of slow clients, as the server sees them."""
    count, local = 0, f":{port:04X}"
    with open("/proc/net/tcp") as file:
        for line in file:
            fields = line.split()
            # Not from 127.0.0.1, which is where the others come from.
            if fields[1].endswith(local) and fields[3] == "01" and not fields[2].startswith("0100007F"):
                count += 1
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=10000)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--engines", help="names, with commas between")
    parser.add_argument("--probe", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        return probe(options.seconds)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    os.sched_setaffinity(0, {int(LOAD_CPU)})
    wanted = options.engines and options.engines.split(",")
    lines = [f"# {options.clients:,} clients of one byte a second", "", "Made by `bench/slow_clients.py`.", "",
             "| | slow: held | closed, came back | others: answered | 503 | failed | p50 ms | p99 ms | p99 alone | MiB | bytes per slow one | MiB of sockets |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    with tempfile.TemporaryDirectory(prefix="lamna-bench-") as work:
        write(f"{work}/f500.html", "x" * 500)
        write(f"{work}/large.bin", "x" * (16 << 20))
        for name, arguments in servers.ENGINES.items():
            if wanted and name not in wanted:
                continue
            server = Server(name, servers.lamna(arguments)(PORT, work, work, 500), PORT)
            slow = Slow(options.clients)
            try:
                _, *alone = json.loads(start_probe(3).communicate()[0])["latencies"]
                before, sockets_before = pss_bytes(server), socket_bytes()
                slow.open_all()
                slow.closed = slow.refused = 0
                process = start_probe(options.seconds)
                slow.keep_on(process)
                told = json.loads(process.communicate()[0])
                count, memory, of_sockets = held(PORT), pss_bytes(server), socket_bytes() - sockets_before
                answered, *of_others = told["latencies"]
                lines.append(f"| {name} | {count:,} | {slow.closed:,} | {answered:,} | {told['refused']} | {told['failed']} | "
                             f"{of_others[49]:.2f} | {of_others[98]:.2f} | {alone[98]:.2f} | {memory / (1 << 20):.1f} | "
                             f"{(memory - before) / max(count, 1):,.0f} | {of_sockets / (1 << 20):.1f} |")
                print(lines[-1], flush=True)
            finally:
                slow.close()
                server.stop()
                time.sleep(1)
    if not wanted:
        write(os.path.join(servers.ROOT, "results/engines/slow-clients.md"), "\n".join(lines) + "\n")


def cuts(latencies):
    return statistics.quantiles(latencies, n=100) if len(latencies) > 1 else [0] * 99


def start_probe(seconds):
    command = [*PRIORITY, sys.executable, __file__, "--probe", "--seconds", str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


main()
