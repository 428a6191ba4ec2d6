#!/usr/bin/env python3
"""Hot files beside uploads to a slow disk: what of the hot rate is kept.

    cargo build --release && sudo bench/uploads.py [--lamna PATH] [--engines amped,proactor] [--rounds 3]

wrk asks for a file of 500 bytes over 8 connections: first alone, then while --uploads clients put files one after the other. The root is a file
system in memory, mounted so that each write(2) waits for its device, and the device takes --bytes-per-second of them. So who writes waits.
The server has processor 0, the load processor 1. Where the load is what limits, the rate says how much of the load's processor the uploading
clients take: so the table has the server's CPU time per hot request alone and beside, and how busy the server was. Root, loop devices and the cgroup v1 blkio controller are needed. Ends by itself; what was
mounted is taken away; traffic stays on 127.0.0.1.
"""
import argparse
import os
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
from servers import LOAD_CPU, Server, wrk, write

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--lamna", default=os.path.join(servers.ROOT, "target/release/lamna"))
parser.add_argument("--engines", default="sped,amped,co-amped,proactor,pipelined,thread-pool")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--seconds", type=int, default=5)
parser.add_argument("--uploads", type=int, default=100)
parser.add_argument("--bytes-per-second", type=int, default=4 << 20)
options = parser.parse_args()
work = tempfile.mkdtemp(prefix="lamna-bench-", dir="/dev/shm")
docroot = f"{work}/root"
BLKIO = "/sys/fs/cgroup/blkio/lamna-bench-uploads"
UPLOAD_BYTES = 256 << 10


def prepare():
    """Mounts the slow disk; what it is called."""
    with open(f"{work}/disk", "wb") as file:
        file.truncate(512 << 20)
    os.mkdir(docroot)
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", f"{work}/disk"], check=True)
    device = subprocess.run(["losetup", "--find", "--show", f"{work}/disk"], check=True, capture_output=True, text=True).stdout.strip()
    subprocess.run(["mount", "-o", "sync,noatime", device, docroot], check=True)
    write(f"{docroot}/f500.html", "x" * 500)
    os.chmod(docroot, 0o777)
    os.makedirs(BLKIO, exist_ok=True)
    number = os.stat(device).st_rdev
    write(f"{BLKIO}/blkio.throttle.write_bps_device", f"{os.major(number)}:{os.minor(number)} {options.bytes_per_second}")
    return device


def release(device):
    subprocess.run(["umount", "--lazy", docroot], check=False)
    subprocess.run(["losetup", "--detach", device], check=False)
    shutil.rmtree(work, ignore_errors=True)


def lamna(engine):
    return lambda port: [options.lamna, "serve", docroot, "--upload", "--listen", f"127.0.0.1:{port}", "--log", "off", "--workers", "1", "--arch", engine]


class Uploads:
    """Clients that put files one after the other until they are told to end."""

    def __init__(self, port, count):
        self.port, self.ended, self.bytes, self.stored, self.others = port, False, 0, 0, 0
        self.threads = [threading.Thread(target=self.put, args=(number,)) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def put(self, number):
        turn = 0
        while not self.ended:
            turn += 1
            try:
                with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
                    connection.settimeout(0.5)
                    self.put_on(connection, f"/u{number}-{turn % 2}")
            except OSError:
                self.others += 1
                time.sleep(0.2)

    def put_on(self, connection, path):
        head = f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {UPLOAD_BYTES}\r\nConnection: close\r\n\r\n".encode()
        left = memoryview(head + bytes(UPLOAD_BYTES))
        while left and not self.ended:
            try:
                taken = connection.send(left)
                self.bytes, left = self.bytes + taken, left[taken:]
            except TimeoutError:
                continue
        while not self.ended:
            try:
                answer = connection.recv(4096)
                self.stored += answer[9:12] in (b"201", b"204", b"200")
                return
            except TimeoutError:
                continue

    def end(self):
        self.ended = True
        for thread in self.threads:
            thread.join()


def hot(server, seconds):
    before, begun = server.cpu_us(), time.monotonic()
    found = wrk(server.port, "/f500.html", 8, seconds)
    elapsed, cpu = time.monotonic() - begun, server.cpu_us() - before
    return found | {"cpu_us": cpu / max(found["requests"], 1), "busy": cpu / 1e4 / elapsed}


def measure(name, command):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    into_slow = lambda: write(f"{BLKIO}/cgroup.procs", str(os.getpid()))
    server = Server(name, command(port), port, before=into_slow)
    uploads = None
    try:
        hot(server, 1)
        alone = hot(server, options.seconds)
        uploads = Uploads(port, options.uploads)
        time.sleep(3)
        stored, begun = uploads.stored, time.monotonic()
        beside = hot(server, options.seconds)
        rate = (uploads.stored - stored) / (time.monotonic() - begun)
    finally:
        if uploads:
            uploads.end()
        server.stop()
    return {"alone": alone["requests_per_second"], "beside": beside["requests_per_second"],
            "kept": 100 * beside["requests_per_second"] / max(alone["requests_per_second"], 1),
            "cpu_alone": alone["cpu_us"], "cpu_beside": beside["cpu_us"],
            "busy_alone": alone["busy"], "busy": beside["busy"], "p99_alone": alone["p99_ms"], "p99": beside["p99_ms"], "stored": rate, "errors": uploads.others}


def main():
    os.sched_setaffinity(0, {int(LOAD_CPU)})
    commands = {engine: lamna(engine) for engine in options.engines.split(",")}
    columns = {"alone": "hot/s alone", "beside": "hot/s beside", "kept": "kept %", "cpu_alone": "us alone", "cpu_beside": "us beside", "busy_alone": "busy % alone",
               "busy": "busy % beside", "p99_alone": "p99 ms alone", "p99": "p99 ms beside",
               "stored": "files stored/s", "errors": "uploads refused"}
    print("| server | " + " | ".join(columns.values()) + " |")
    print("| --- " + "| ---: " * len(columns) + "|")
    rows = {}
    for _ in range(options.rounds):
        for name, command in commands.items():
            rows.setdefault(name, []).append(measure(name, command))
    for name, found in rows.items():
        middle = {key: statistics.median(one[key] for one in found) for key in columns}
        print(f"| {name} | " + " | ".join(f"{middle[key]:,.1f}" for key in columns) + " |", flush=True)


if os.geteuid() != 0 or not os.path.isdir("/sys/fs/cgroup/blkio"):
    sys.exit("needs root and the cgroup v1 blkio controller")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was mounted is taken away
slow = prepare()
try:
    main()
finally:
    release(slow)
