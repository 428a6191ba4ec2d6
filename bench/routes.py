#!/usr/bin/env python3
"""What a thousand routes with regular expressions cost a file that is in the cache.

    cargo build --release && bench/routes.py [--rounds 40] [--seconds 1] [--engine amped] [--pipeline 16]

wrk asks for a file of 500 bytes over 8 connections. Servers of the same program with different routes are asked in turns, and the turn begins with
another one each time. The cost is the CPU time of a server for each request, beside that of the server without routes in the same round: the median
of these ratios, with the quartiles. What others do on the machine meets all servers alike. The server runs on processor 0, the load on processor 1.

    none        no routes
    paths       1,000 routes with a regular expression for the path; three of them fit the file
    conditions  the same, and each asks for a header field as well; none of them fits the path of the file
    asked       the same, of which ten fit the path of the file: each is asked whether the request fulfils it
"""
import argparse
import glob
import os
import statistics
import subprocess
import tempfile

import servers
from servers import Others, Server, wrk, write

ROUTES = 1000
PORTS = {"none": 18840, "paths": 18841, "conditions": 18842, "asked": 18843}


def route(number, name):
    """A route with a regular expression: for paths of its own, or for that of the file."""
    hot = {"none": 0, "paths": 3, "conditions": 0, "asked": 10}[name]
    regex = f"^/(hot|warm{number})/[a-z]+[0-9]{{3}}[.]html$" if number < hot else f"^/section{number}/[a-z0-9-]+/([0-9]+)[.](html|json)$"
    field = f', header = {{ X-Kind = {{ regex = "^k[{number % 10}-9]+$" }} }}' if name in ("conditions", "asked") else ""
    # Those that fit the file take away what is not there: all servers send the same bytes.
    value = "false" if number < hot else f'"{number}"'
    return f"[[site.route]]\nmatch = {{ regex = '{regex}'{field} }}\nheaders = {{ X-Route-{number} = {value} }}\n"


def configuration(name, port, root, engine):
    routes = "" if name == "none" else "".join(route(number, name) for number in range(ROUTES))
    return (f'listen = ["127.0.0.1:{port}"]\narch = "{engine}"\nworkers = 1\nlog = "off"\nadmin = "off"\n'
            f'[[site]]\nroot = "{root}"\n{routes}')


def cpu_ns(server):
    """CPU time of the threads that there are, to the nanosecond: rounds are too short for ticks."""
    total = 0
    for path in glob.glob(f"/proc/{server.process.pid}/task/*/schedstat"):
        with open(path) as file:
            total += int(file.read().split()[0])
    return total


SCRIPT = """local text
init = function() local all = {} for i = 1, %d do all[i] = wrk.format("GET") end text = table.concat(all) end
request = function() return text end
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamna", default=os.path.join(servers.ROOT, "target/release/lamna"))
    parser.add_argument("--engine", default="amped")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--pipeline", type=int, default=1, help="requests that each connection sends at once: with more of them system calls hide less")
    options = parser.parse_args()
    running, costs = {}, {name: [] for name in PORTS}
    with tempfile.TemporaryDirectory(prefix="lamna-bench-") as work:
        os.makedirs(f"{work}/site/hot")
        write(f"{work}/site/hot/file500.html", "x" * 500)
        subprocess.run(["chmod", "-R", "a+rX", work], check=True)
        try:
            more = ["-s", write(f"{work}/load.lua", SCRIPT % options.pipeline)] if options.pipeline > 1 else []
            for name, port in PORTS.items():
                write(f"{work}/{name}.toml", configuration(name, port, f"{work}/site", options.engine))
                running[name] = Server(name, [options.lamna, "serve", "--config", f"{work}/{name}.toml"], port)
                wrk(port, "/hot/file500.html", 8, 1, *more)
            others, names = Others(running["none"]), list(PORTS)
            for number in range(options.rounds):
                first = number % len(names)
                for name in names[first:] + names[:first]:
                    before = cpu_ns(running[name])
                    told = wrk(PORTS[name], "/hot/file500.html", 8, options.seconds, *more)
                    assert told["requests"] and not told["refused"] and not told["errors"], told
                    costs[name].append((cpu_ns(running[name]) - before) / told["requests"])
            for name in names:
                ratios = [cost / base for cost, base in zip(costs[name], costs["none"])]
                low, middle, high = statistics.quantiles(ratios, n=4)
                print(f"{name:10}  {statistics.median(costs[name]):7.0f} ns a request   ratio {middle:.3f} ({low:.3f} to {high:.3f})")
            print(f"{options.engine}, {options.pipeline} at once, {options.rounds} rounds of {options.seconds} s; "
                  f"others, the three other servers among them, used {others.share():.2f} of a processor")
        finally:
            for server in running.values():
                server.stop()


main()
