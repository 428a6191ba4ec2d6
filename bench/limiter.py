#!/usr/bin/env python3
"""What limits of requests cost where a million client networks ask: memory, and the share of the processor.

    cargo build --release && bench/limiter.py [--rounds 5] [--seconds 8]

wrk asks for a small file from the cache, each time for another one of 1,000,000 addresses, which a trusted proxy names. Two servers of the
same program, one with the default `request_limit` and one with none, are asked in turns. The cost is the difference of their CPU times
for each request, of the median rounds; the memory is what the kernel has given of the table.
"""
import argparse
import os
import re
import statistics
import subprocess
import tempfile

import servers
from servers import LOAD_CPU, PRIORITY, Others, Server, parse_wrk, write

PORTS = {"with limits": 18792, "without": 18793}
NETWORKS = 1_000_000
SCRIPT = f"""local n = 0
request = function()
  n = (n + 1) % {NETWORKS}
  local client = string.format("%d.%d.%d.%d", 20 + math.floor(n / 65536), math.floor(n / 256) % 256, n % 256, 1)
  return "GET /f500.html HTTP/1.1\\r\\nHost: localhost\\r\\nX-Forwarded-For: " .. client .. "\\r\\n\\r\\n"
end
"""
TABLE_KIB = 16 * 1024


def table_kib(server):
    """What is there of the table: the shared mapping of its size."""
    with open(f"/proc/{server.process.pid}/smaps") as file:
        text = file.read()
    sizes = re.findall(r"^Size: +(\d+) kB\n(?:.*\n)*?Rss: +(\d+) kB", text, re.M)
    return max((int(rss) for size, rss in sizes if int(size) == TABLE_KIB), default=0)


def load(port, work, seconds):
    command = [*PRIORITY, "taskset", "-c", LOAD_CPU, "wrk", "-t1", "-c16", f"-d{seconds}s", "--latency", "-s", f"{work}/load.lua",
               f"http://127.0.0.1:{port}/f500.html"]
    return parse_wrk(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=8)
    options = parser.parse_args()
    running, costs = {}, {name: [] for name in PORTS}
    with tempfile.TemporaryDirectory(prefix="lamna-bench-") as work:
        os.mkdir(f"{work}/site")
        write(f"{work}/site/f500.html", "x" * 500)
        write(f"{work}/load.lua", SCRIPT)
        try:
            for name, port in PORTS.items():
                limit = "" if name == "with limits" else 'request_limit = "off"\n'
                write(f"{work}/{port}.toml", f'listen = ["127.0.0.1:{port}"]\narch = "sped"\nworkers = 1\nlog = "off"\nadmin = "off"\n'
                      f'trusted_proxies = ["127.0.0.0/8"]\n{limit}[[site]]\nroot = "{work}/site"\n')
                binary = os.path.join(servers.ROOT, "target/release/lamna")
                running[name] = Server(name, [binary, "serve", "--config", f"{work}/{port}.toml"], port)
            asked = 0
            while asked < NETWORKS:
                asked += load(PORTS["with limits"], work, options.seconds)["requests"]
            others = Others(running["with limits"])
            for _ in range(options.rounds):
                for name, server in running.items():
                    before = server.cpu_us()
                    told = load(PORTS[name], work, options.seconds)
                    costs[name].append((server.cpu_us() - before) / told["requests"])
                    assert not told["refused"] and not told["errors"], told
            least, most = statistics.median(costs["without"]), statistics.median(costs["with limits"])
            print(f"CPU for each request: {most:.3f} us with limits {[f'{one:.2f}' for one in costs['with limits']]}, "
                  f"{least:.3f} us without {[f'{one:.2f}' for one in costs['without']]}")
            print(f"share of the limits: {100 * (most - least) / most:.1f} %")
            print(f"memory of the table with {NETWORKS:,} networks: {table_kib(running['with limits']) / 1024:.1f} MiB")
            print(f"others used {others.share():.2f} of a processor, the other server among them")
        finally:
            for server in running.values():
                server.stop()


main()
