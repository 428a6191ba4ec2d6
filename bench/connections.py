#!/usr/bin/env python3
"""10,000 connections open, 1 % of them active, on every engine: who holds them, who refuses them, and how.

    cargo build --release && bench/connections.py [--connections 10000] [--engines amped,mp]

Opens the connections, asks for a small file on each once, and then for five seconds on a different hundredth of them
each time. Writes results/engines/connections.md. What an engine cannot hold it must answer with 503 and Retry-After; what
is not answered within 20 seconds counts as unanswered. Bytes are the server's own memory (PSS, of all its processes) for
each connection, beside the kernel's. Both sides need descriptors: ulimit -n.
"""
import argparse
import glob
import os
import random
import resource
import select
import socket
import statistics
import tempfile
import time

import servers
from servers import Server, write

PORT = 18790
REQUEST = b"GET /f500.html HTTP/1.1\r\nHost: localhost\r\n\r\n"
PATIENCE_S, ACTIVE_S, OPENED_AT_ONCE = 20, 5, 500


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


def open_all(port, count):
    """Opens connections, asks once on each, and sorts them by the answer."""
    answers = {"served": [], "refused": [], "rude": 0, "unanswered": 0}
    poll, waiting, opened = select.epoll(), {}, 0
    deadline = time.monotonic() + PATIENCE_S
    while (opened < count or waiting) and time.monotonic() < deadline:
        for _ in range(min(OPENED_AT_ONCE, count - opened) if len(waiting) < 2 * OPENED_AT_ONCE else 0):
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", port))
            waiting[connection.fileno()] = connection
            poll.register(connection, select.EPOLLOUT)
            opened, deadline = opened + 1, time.monotonic() + PATIENCE_S
        for number, event in poll.poll(0.05):
            connection = waiting[number]
            if event & select.EPOLLOUT and not event & select.EPOLLIN:
                connection.send(REQUEST)
                poll.modify(connection, select.EPOLLIN)
                continue
            answer = receive(connection)
            poll.unregister(connection)
            del waiting[number]
            deadline = time.monotonic() + PATIENCE_S
            if answer.startswith(b"HTTP/1.1 200"):
                answers["served"].append(connection)
            elif answer.startswith(b"HTTP/1.1 503") and b"\r\nRetry-After:" in answer:
                answers["refused"].append(connection)
            else:
                answers["rude"] += 1
    answers["unanswered"] = count - opened + len(waiting)
    for connection in waiting.values():
        connection.close()
    return answers


def receive(connection):
    try:
        return connection.recv(65536)
    except OSError:
        return b""


def be_active(connections, share):
    """Latencies in milliseconds of requests on a random part of the connections, again and again."""
    latencies, failed, end = [], 0, time.monotonic() + ACTIVE_S
    while time.monotonic() < end and connections:
        chosen = random.sample(connections, max(1, int(len(connections) * share)))
        poll, sent = select.epoll(), {}
        for connection in chosen:
            connection.send(REQUEST)
            sent[connection.fileno()] = (connection, time.monotonic())
            poll.register(connection, select.EPOLLIN)
        while sent:
            events = poll.poll(PATIENCE_S)
            if not events:
                failed += len(sent)
                break
            for number, _ in events:
                connection, begun = sent.pop(number)
                poll.unregister(connection)
                if receive(connection).startswith(b"HTTP/1.1 200"):
                    latencies.append((time.monotonic() - begun) * 1000)
                else:
                    failed += 1
    return latencies, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=10000)
    parser.add_argument("--engines", help="names, with commas between")
    options = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    wanted = options.engines and options.engines.split(",")
    lines = [f"# {options.connections:,} connections, 1 % active", "", "Made by `bench/connections.py`.", "",
             "| | served | refused with 503 | unanswered or cut off | active: answered | failed | p50 ms | p99 ms | bytes per connection |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    with tempfile.TemporaryDirectory(prefix="lamna-bench-") as work:
        write(f"{work}/f500.html", "x" * 500)
        for name, arguments in servers.ENGINES.items():
            if wanted and name not in wanted:
                continue
            server = Server(name, servers.lamna(arguments)(PORT, work, work, 500), PORT)
            try:
                before = pss_bytes(server)
                answers = open_all(PORT, options.connections)
                held = (pss_bytes(server) - before) / max(len(answers["served"]), 1)
                latencies, failed = be_active(answers["served"], 0.01)
                cuts = statistics.quantiles(latencies, n=100) if len(latencies) > 1 else [0] * 99
                lines.append(f"| {name} | {len(answers['served']):,} | {len(answers['refused']):,} | "
                             f"{answers['unanswered'] + answers['rude']:,} | {len(latencies):,} | {failed} | {cuts[49]:.2f} | {cuts[98]:.2f} | {held:,.0f} |")
                print(lines[-1], flush=True)
                for connection in answers["served"] + answers["refused"]:
                    connection.close()
            finally:
                server.stop()
    if not wanted:
        write(os.path.join(servers.ROOT, "results/engines/connections.md"), "\n".join(lines) + "\n")


main()
