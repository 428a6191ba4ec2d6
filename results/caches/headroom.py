#!/usr/bin/env python3
"""What becomes of a site that fits into a limit of memory and not into the cache's part of it, by `cache_pages`, as CSV.

    results/caches/headroom.py LAMNA DIRECTORY > results/caches/headroom.csv

4,191 files, 95 MB, asked for with a Zipf exponent of 0.8 by 200 connections, in a control group of 128 MiB (version 1; needs root): six
seconds until all is where it stays, then four seconds that count. DIRECTORY must not be on a file system that is in memory anyway.
"""
import os, re, subprocess, sys, tempfile, time
from pathlib import Path

WORKLOAD, DATA_SET, LIMIT_BYTES, PORT = "zipf:9129,0.8,218103808", "90MiB", 128 << 20, 18443
WARM_UP_S, MEASURED_S, ROUNDS, CLIENTS = 6, 4, 3, 200
GROUPS = [Path(f"/sys/fs/cgroup/{controller}/lamna-headroom") for controller in ("memory", "blkio")]


def cool(site):
    for path in filter(Path.is_file, site.rglob("*")):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def disk_reads():
    lines = (GROUPS[1] / "blkio.throttle.io_serviced").read_text().splitlines()
    return sum(int(line.split()[-1]) for line in lines if " Read " in line)


def processor_s(process):
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def enter():
    os.sched_setaffinity(0, {0})
    for group in GROUPS:
        (group / "cgroup.procs").write_text(str(os.getpid()))


def load(lamna, seconds):
    command = [lamna, "replay", WORKLOAD, f"http://127.0.0.1:{PORT}", "--data-set", DATA_SET, "--speed", "max", "--loop"]
    command += ["-c", str(CLIENTS), "-d", str(seconds), "--processors", "1", "-q"]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    return said.stdout + said.stderr


def measure(lamna, site, arch, pages, round):
    cool(site)
    for group in GROUPS:
        group.mkdir(exist_ok=True)
    (GROUPS[0] / "memory.limit_in_bytes").write_text(str(LIMIT_BYTES))
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write(f'arch = "{arch}"\nworkers = 1\nlog = "off"\nlisten = ["127.0.0.1:{PORT}"]\n'
                     f'cache_pages = "{pages}"\n[[site]]\nroot = "{site}"\n')
        config.flush()
        server = subprocess.Popen([lamna, "serve", "--config", config.name], stderr=subprocess.DEVNULL, preexec_fn=enter)
        time.sleep(0.5)
        load(lamna, WARM_UP_S)
        before = (disk_reads(), processor_s(server.pid))
        said = load(lamna, MEASURED_S)
        reads, cpu_s = disk_reads() - before[0], processor_s(server.pid) - before[1]
        used = (GROUPS[0] / "memory.usage_in_bytes").read_text().strip()
        answers = int(re.search(r"Answers +(\d+) to", said)[1])
        p99_ms = re.search(r"p99 ([\d.]+) ms", said)[1]
        print(f"{arch},{pages},{round},{answers / MEASURED_S:.0f},{cpu_s * 1e6 / answers:.2f},{p99_ms},{reads},{used}", flush=True)
        server.terminate()
        server.wait()
    for group in GROUPS:
        group.rmdir()


def main():
    lamna, directory = sys.argv[1:3]
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        site = Path(folder) / "site"
        subprocess.run([lamna, "lab", "site", WORKLOAD, site, "--data-set", DATA_SET], check=True, capture_output=True)
        print("arch,cache_pages,round,requests_per_s,cpu_us,p99_ms,disk_reads,used_bytes")
        for round in range(ROUNDS):
            for arch in ["sped", "amped", "proactor", "thread-pool"]:
                for pages in ["release", "auto"]:
                    measure(lamna, site, arch, pages, round)


main()
