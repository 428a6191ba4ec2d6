#!/usr/bin/env python3
"""What learning from requests costs: CPU time per request with hints and without, of the same binary.

    bench/hints.py --lamna target/release/lamna --rounds 12 --seconds 4

One worker of amped on processor 0, wrk on processor 1, a file of 500 bytes, 16 connections, `Referer` with each request. Two servers, one
with `hints = true` and one without, are loaded in turn, so that a drift of the machine's speed meets both. The figure is the ratio of
the medians of CPU time per request (user and system, all threads, the learner's included), with the quartiles of the ratios of pairs of
rounds, and the same of two servers without hints, which shows what of it is noise. Traffic goes to 127.0.0.1 only.
"""
import argparse, json, os, re, shutil, socket, statistics, subprocess, tempfile, time

parser = argparse.ArgumentParser()
parser.add_argument("--lamna", default="target/release/lamna")
parser.add_argument("--rounds", type=int, default=12)
parser.add_argument("--seconds", type=int, default=4)
arguments = parser.parse_args()
work = tempfile.mkdtemp(prefix="hints-")
os.mkdir(f"{work}/site")
for name, content in [("index.html", "x" * 500), ("file.css", "x" * 500)]:
    with open(f"{work}/site/{name}", "w") as f:
        f.write(content)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(name, lines):
    config, port = f"{work}/{name}.toml", free_port()
    with open(config, "w") as f:
        f.write(f'arch = "amped"\nworkers = 1\nlog = "off"\n{lines}\n[[site]]\nroot = "site"\n')
    environment = dict(os.environ, XDG_STATE_HOME=f"{work}/state", LAMNA_RUNTIME_DIR=f"{work}/run-{name}")
    process = subprocess.Popen(["taskset", "-c", "0", arguments.lamna, "serve", "--config", config, "--listen", f"127.0.0.1:{port}"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.05)
    return process, port, environment


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(server, seconds):
    process, port, _ = server
    before = cpu_seconds(process)
    out = subprocess.run(["taskset", "-c", "1", "wrk", "-t1", "-c16", f"-d{seconds}s", "-H", f"Referer: http://127.0.0.1:{port}/",
                          f"http://127.0.0.1:{port}/file.css"], capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in out, out
    requests = int(re.search(r"(\d+) requests in", out).group(1))
    return (cpu_seconds(process) - before) / requests * 1e6


def figures(server):
    told = subprocess.run([arguments.lamna, "ctl", "stats", "--json"], env=server[2], capture_output=True, text=True).stdout
    return json.loads(told)["hints"]


servers = {name: start(name, lines) for name, lines in [("off", ""), ("on", "hints = true"), ("off again", "")]}
try:
    for server in servers.values():
        load(server, 1)
    rounds = {name: [] for name in servers}
    for number in range(arguments.rounds):
        for name in (list(servers) if number % 2 else list(servers)[::-1]):
            rounds[name].append(load(servers[name], arguments.seconds))
    base = rounds["off"]
    for name, values in rounds.items():
        ratios = sorted(value / other for value, other in zip(values, base))
        quartiles = statistics.quantiles(ratios, n=4)
        print(f"{name:10} {statistics.median(values):7.3f} us a request, ratio of medians {statistics.median(values) / statistics.median(base):.4f}, "
              f"of pairs {quartiles[0]:.4f} {quartiles[1]:.4f} {quartiles[2]:.4f}")
    print("hints:", figures(servers["on"]))
finally:
    for process, _, _ in servers.values():
        process.terminate()
        process.wait()
    shutil.rmtree(work)
