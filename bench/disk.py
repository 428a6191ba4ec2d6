#!/usr/bin/env python3
"""One hot file over TLS and HTTP/2 while other clients read cold files from a slow disk: what of the hot rate is kept.

    cargo build --release && sudo bench/disk.py [--lamna PATH] [--protocols http,tls,h2] [--peers nginx] [--rounds 3]

8 connections ask for a file of 500 bytes; 16 others ask for files of 15 KB that are not in memory, on a disk that is held to --iops reads a second
(root and the cgroup v1 blkio controller). The server runs on processor 0, the load on processor 1. Where the load is what limits, the rate
says how much of the load's processor the cold clients take: so the table has the server's CPU time per hot request alone and beside, and how busy
the server was. Ends by itself; traffic stays on 127.0.0.1.
"""
import argparse
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import servers
from servers import LOAD_CPU, PRIORITY, Server, write

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--lamna", default=os.path.join(servers.ROOT, "target/release/lamna"))
parser.add_argument("--arguments", default="", help="further arguments of it, with spaces between")
parser.add_argument("--protocols", default="http,tls,h2")
parser.add_argument("--peers", default="nginx")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--seconds", type=int, default=5)
parser.add_argument("--iops", type=int, default=200)
parser.add_argument("--cold-files", type=int, default=6000)
parser.add_argument("--docroot", default=os.path.join(tempfile.gettempdir(), "lamna-disk-docroot"), help="on the disk; kept for the next time")
options = parser.parse_args()
work = tempfile.mkdtemp(prefix="lamna-bench-")
BLKIO = "/sys/fs/cgroup/blkio/lamna-bench-slow"
HOT, COLD = 8, 16


def prepare():
    if os.geteuid() != 0 or not os.path.isdir("/sys/fs/cgroup/blkio"):
        sys.exit("needs root and the cgroup v1 blkio controller")
    cold = f"{options.docroot}/cold"
    os.makedirs(cold, exist_ok=True)
    for number in range(options.cold_files):
        if not os.path.exists(f"{cold}/{number}.html"):
            write(f"{cold}/{number}.html", os.urandom(7500).hex())
    write(f"{options.docroot}/f500.html", "x" * 500)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", f"{work}/key.pem", "-out", f"{work}/cert.pem"],
                   check=True, capture_output=True)
    subprocess.run(["chmod", "-R", "a+rX", options.docroot, work], check=True)
    os.makedirs(BLKIO, exist_ok=True)
    device = os.stat(options.docroot).st_dev
    write(f"{BLKIO}/blkio.throttle.read_iops_device", f"{os.major(device)}:{os.minor(device)} {options.iops}")


def lamna(port, secured):
    tls = ["--certificate", f"{work}/cert.pem", "--key", f"{work}/key.pem"] if secured else []
    return [options.lamna, "serve", options.docroot, "--listen", f"127.0.0.1:{port}", "--log", "off", "--workers", "1", *tls, *options.arguments.split()]


def nginx(port, secured):
    tls = f"ssl http2; ssl_certificate {work}/cert.pem; ssl_certificate_key {work}/key.pem; ssl_protocols TLSv1.3" if secured else ""
    return ["nginx", "-c", write(f"{work}/nginx.conf", f"""daemon off; worker_processes 1; pid {work}/nginx.pid; error_log {work}/nginx.err crit;
events {{ worker_connections 1024; }}
http {{ access_log off; sendfile on; aio threads; tcp_nopush on; keepalive_requests 1000000000; types {{ text/html html; }}
open_file_cache max=100000 inactive=60s; open_file_cache_valid 60s;
server {{ listen 127.0.0.1:{port} {tls}; root {options.docroot}; }} }}""")]


def load(protocol, port, connections, seconds, paths):
    """A process of h2load: HTTP/1.1 or HTTP/2, one request at a time on each connection."""
    origin = f"{'http' if protocol == 'http' else 'https'}://127.0.0.1:{port}"
    file = tempfile.mkstemp(dir=work)[1]
    write(file, "\n".join(origin + path for path in paths) + "\n")
    kind = [] if protocol == "h2" else ["--h1"]
    command = [*PRIORITY, "taskset", "-c", LOAD_CPU, "h2load", *kind, "-c", str(connections), "-m1", "-D", str(seconds), "-i", file]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def count(process):
    """Requests that were answered with success."""
    found = re.search(r"status codes: (\d+) 2xx", process.communicate()[0])
    return int(found.group(1)) if found else 0


def hot(server, protocol, seconds):
    before, begun = server.cpu_us(), time.monotonic()
    answered = count(load(protocol, server.port, HOT, seconds, ["/f500.html"]))
    elapsed, cpu = time.monotonic() - begun, server.cpu_us() - before
    return {"rate": answered / elapsed, "cpu_us": cpu / max(answered, 1), "busy": cpu / 1e4 / elapsed}


def measure(name, command, protocol):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    into_slow = lambda: write(f"{BLKIO}/cgroup.procs", str(os.getpid()))
    server = Server(name, command(port, protocol != "http"), port, before=into_slow)
    try:
        hot(server, protocol, 1)
        alone = hot(server, protocol, options.seconds)
        subprocess.run(["sync"], check=True)
        write("/proc/sys/vm/drop_caches", "3")
        hot(server, protocol, 1)
        paths = [f"/cold/{number}.html" for number in range(options.cold_files)]
        cold = [load(protocol, port, 1, options.seconds + 3, random.sample(paths, len(paths))) for _ in range(COLD)]
        time.sleep(1.5)
        beside = hot(server, protocol, options.seconds)
        colds = sum(map(count, cold)) / (options.seconds + 3)
    finally:
        server.stop()
    return {"alone": alone["rate"], "beside": beside["rate"], "kept": 100 * beside["rate"] / max(alone["rate"], 1), "cpu_alone": alone["cpu_us"],
            "cpu_beside": beside["cpu_us"], "busy_alone": alone["busy"], "busy": beside["busy"], "cold": colds}


def main():
    prepare()
    os.sched_setaffinity(0, {int(LOAD_CPU)})
    peers = {"lamna": lamna} | ({"nginx": nginx} if "nginx" in options.peers.split(",") and shutil.which("nginx") else {})
    columns = {"alone": "hot/s alone", "beside": "hot/s beside", "kept": "kept %", "cpu_alone": "us alone", "cpu_beside": "us beside",
               "busy_alone": "busy % alone", "busy": "busy % beside", "cold": "cold/s"}
    print("| server, protocol | " + " | ".join(columns.values()) + " |")
    print("| --- " + "| ---: " * len(columns) + "|")
    rows = {}
    for _ in range(options.rounds):
        for protocol in options.protocols.split(","):
            for name, command in peers.items():
                rows.setdefault(f"{name}, {protocol}", []).append(measure(name, command, protocol))
    for name, found in rows.items():
        middle = {key: statistics.median(one[key] for one in found) for key in columns}
        print(f"| {name} | " + " | ".join(f"{middle[key]:,.1f}" for key in columns) + " |")


signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
try:
    main()
finally:
    shutil.rmtree(work, ignore_errors=True)
