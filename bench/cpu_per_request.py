#!/usr/bin/env python3
"""CPU time per request of Lamna beside other servers, in one run.

    bench/cpu_per_request.py [--bytes 500] [--close | --pipeline 16] [--rounds 5] [--seconds 2] [--json FILE]

Servers run on processor 0 and wrk on processor 1, in turn, round after round, so that a drift of the machine meets all of
them. The figure is user and system time of the server's processes and threads divided by the requests that wrk counted;
the median over the rounds. Needs wrk; nginx, h2o and lighttpd take part if they are installed (on Debian:
apt-get install wrk nginx-light h2o lighttpd). Build Lamna with `cargo build --release` before. Traffic stays on
127.0.0.1; everything started here is stopped here.
"""
import argparse
import glob
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PORT = 18600
PIPELINE = """init = function() local r = {} for i = 1, %d do r[i] = wrk.format() end batch = table.concat(r) end
request = function() return batch end
"""


def lamna(port, docroot, _work):
    binary = os.path.join(ROOT, "target/release/lamna")
    return [binary, "serve", docroot, "--listen", f"127.0.0.1:{port}", "--workers", "1", "--log", "off"]


def nginx(port, docroot, work):
    """Tuned: descriptors cached, headers and content in one go, no log."""
    text = f"""daemon off; worker_processes 1; pid {work}/nginx.pid; error_log {work}/nginx.err crit;
events {{ worker_connections 8192; multi_accept on; }}
http {{ access_log off; sendfile on; tcp_nopush on; keepalive_timeout 300; keepalive_requests 1000000000;
types {{ text/html html; }} open_file_cache max=10000 inactive=60s; open_file_cache_valid 60s;
server {{ listen 127.0.0.1:{port} backlog=4096; root {docroot}; }} }}"""
    return ["nginx", "-c", write(f"{work}/nginx.conf", text)]


def h2o(port, docroot, work):
    text = f"""num-threads: 1
user: root
http1-request-timeout: 300
hosts: {{ default: {{ listen: {{ host: 127.0.0.1, port: {port} }}, paths: {{ /: {{ file.dir: {docroot} }} }} }} }}
"""
    return ["h2o", "-c", write(f"{work}/h2o.conf", text)]


def lighttpd(port, docroot, work):
    text = f"""server.document-root = "{docroot}"
server.port = {port}
server.bind = "127.0.0.1"
server.max-keep-alive-requests = 65535
server.max-keep-alive-idle = 300
mimetype.assign = ( ".html" => "text/html" )
"""
    return ["lighttpd", "-D", "-f", write(f"{work}/lighttpd.conf", text)]


def write(path, text):
    with open(path, "w") as file:
        file.write(text)
    return path


def start(command):
    """Starts a server on processor 0 in a group of its own."""
    return subprocess.Popen(["taskset", "-c", "0", *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, start_new_session=True)


def stop(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def is_up(process, port):
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return True
        except OSError:
            if process.poll() is not None:
                return False
            time.sleep(0.05)
    return False


def cpu_us(group):
    """CPU time of all threads of all processes of the group, in microseconds."""
    total = 0
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(stat) as file:
                fields = file.read().rpartition(")")[2].split()
            if int(fields[2]) != group:
                continue
            for path in glob.glob(os.path.dirname(stat) + "/task/*/schedstat"):
                with open(path) as file:
                    total += int(file.read().split()[0])
        except (OSError, IndexError):
            pass  # it has just ended
    return total / 1000


def load(url, options, seconds, script):
    command = ["taskset", "-c", "1", "wrk", "-t1", f"-c{options.connections}", f"-d{seconds}s"]
    if options.close:
        command += ["-H", "Connection: close"]
    if script:
        command += ["-s", script]
    text = subprocess.run([*command, url], capture_output=True, text=True, check=True).stdout
    errors = sum(int(n) for line in re.findall(r"Socket errors:(.*)|Non-2xx(.*)", text) for n in re.findall(r"\d+", "".join(line)))
    return int(re.search(r"(\d+) requests in", text).group(1)), errors


def measure(options, work, servers):
    docroot = os.path.join(work, "docroot")
    os.makedirs(docroot)
    os.chmod(work, 0o755)
    write(f"{docroot}/file.html", "x" * options.bytes)
    script = write(f"{work}/pipeline.lua", PIPELINE % options.pipeline) if options.pipeline > 1 else None
    running, samples = {}, {}
    try:
        for index, (name, command) in enumerate(servers.items()):
            process = start(command(PORT + index, docroot, work))
            running[name] = (process, f"http://127.0.0.1:{PORT + index}/file.html")
            if not is_up(process, PORT + index):
                sys.exit(f"{name} does not start")
            load(running[name][1], options, 1, script)
        for _ in range(options.rounds):
            for name, (process, url) in running.items():
                before = cpu_us(process.pid)
                requests, errors = load(url, options, options.seconds, script)
                sample = ((cpu_us(process.pid) - before) / max(requests, 1), requests / options.seconds, errors)
                samples.setdefault(name, []).append(sample)
    finally:
        for process, _ in running.values():
            stop(process)
    return {name: {"cpu_us": statistics.median(s[0] for s in rows), "requests_per_second": statistics.median(s[1] for s in rows),
                   "errors": sum(s[2] for s in rows)} for name, rows in samples.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=500)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--close", action="store_true", help="a new connection for each request")
    parser.add_argument("--pipeline", type=int, default=1, help="requests sent at once")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--json", help="write the figures to this file as well")
    options = parser.parse_args()
    candidates = {"lamna": lamna, "nginx": nginx, "h2o": h2o, "lighttpd": lighttpd}
    servers = {name: command for name, command in candidates.items() if name == "lamna" or shutil.which(name)}
    with tempfile.TemporaryDirectory(prefix="lamna-bench-") as work:
        rows = measure(options, work, servers)
    own = rows["lamna"]["cpu_us"]
    print(f"{'server':10} {'CPU us/request':>15} {'requests/s':>11} {'errors':>7} {'lamna / it':>11}")
    for name, row in sorted(rows.items(), key=lambda item: item[1]["cpu_us"]):
        print(f"{name:10} {row['cpu_us']:15.2f} {row['requests_per_second']:11.0f} {row['errors']:7d} {own / row['cpu_us']:11.2f}")
    if options.json:
        write(options.json, json.dumps({"options": vars(options), "servers": rows}, indent=1) + "\n")


main()
