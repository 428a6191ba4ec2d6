"""Web servers to be measured, and how they are started, watched and stopped.

Servers run on processor 0 in a session of their own, the load on processor 1; for root at a high priority, so that other
work on the machine disturbs them less. What a server costs is the CPU time of
every process of its session and of those that have ended: /proc/PID/stat counts the threads of a process that have ended,
and the children it has waited for. Everything started here is stopped here; traffic stays on 127.0.0.1.
"""
import glob
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SERVER_CPU, LOAD_CPU = "0", "1"
PRIORITY = ["nice", "-n", "-15"] if os.geteuid() == 0 else []
TICKS = os.sysconf("SC_CLK_TCK")
ENGINES = {
    "sped": ["--arch", "sped"],
    "amped": ["--arch", "amped"],
    "amped, helper processes": ["--arch", "amped", "--helpers", "processes"],
    "co-amped": ["--arch", "co-amped"],
    "proactor": ["--arch", "proactor"],
    "pipelined": ["--arch", "pipelined"],
    "thread-pool": ["--arch", "thread-pool"],
    "thread-per-session": ["--arch", "thread-per-session"],
    "thread-per-request": ["--arch", "thread-per-request"],
    "mp": ["--arch", "mp"],
}


def write(path, text):
    with open(path, "w") as file:
        file.write(text)
    return path


def lamna(arguments):
    """Lamna with these arguments."""
    binary = os.path.join(ROOT, "target/release/lamna")
    return lambda port, docroot, _work, _bytes: [
        binary, "serve", docroot, "--listen", f"127.0.0.1:{port}", "--log", "off", *arguments]


def nginx(port, docroot, work, _bytes):
    """Tuned: descriptors cached, header and content in one go, no log."""
    return ["nginx", "-c", write(f"{work}/nginx.conf", f"""daemon off; worker_processes 1; pid {work}/nginx.pid;
error_log {work}/nginx.err crit; worker_rlimit_nofile 20000;
events {{ worker_connections 16384; multi_accept on; }}
http {{ access_log off; sendfile on; tcp_nopush on; keepalive_timeout 300; keepalive_requests 1000000000;
types {{ text/html html; }} open_file_cache max=100000 inactive=60s; open_file_cache_valid 60s;
server {{ listen 127.0.0.1:{port} backlog=4096; root {docroot}; }} }}""")]


def h2o(port, docroot, work, _bytes):
    return ["h2o", "-c", write(f"{work}/h2o.conf", f"""num-threads: 1
user: root
max-connections: 16384
http1-request-timeout: 300
hosts: {{ default: {{ listen: {{ host: 127.0.0.1, port: {port} }}, paths: {{ /: {{ file.dir: {docroot} }} }} }} }}
""")]


def apache(port, docroot, work, _bytes):
    """The event MPM, without log."""
    modules = "/usr/lib/apache2/modules"
    load = "".join(f"LoadModule {name}_module {modules}/mod_{name}.so\n" for name in ["mpm_event", "authz_core", "mime", "dir"])
    return ["apache2", "-DFOREGROUND", "-f", write(f"{work}/apache.conf", f"""{load}ServerRoot {work}
PidFile {work}/apache.pid
Listen 127.0.0.1:{port}
TypesConfig /etc/mime.types
ServerName localhost
User www-data
Group www-data
DocumentRoot {docroot}
ErrorLog {work}/apache.err
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 300
EnableSendfile On
StartServers 1
ServerLimit 4
ThreadsPerChild 64
MaxRequestWorkers 256
<Directory {docroot}>
Require all granted
</Directory>
""")]


def null(port, _docroot, work, content_bytes):
    """The floor: bench/null_server.c."""
    binary = f"{work}/null_server"
    if not os.path.exists(binary):
        subprocess.run(["gcc", "-O2", "-o", binary, os.path.join(ROOT, "bench/null_server.c")], check=True)
    return [binary, str(port), str(content_bytes)]


def installed():
    """Commands of all servers that can run here, by name."""
    peers = {"null": ("gcc", null), "h2o": ("h2o", h2o), "nginx": ("nginx", nginx), "Apache, event": ("apache2", apache)}
    found = {name: lamna(arguments) for name, arguments in ENGINES.items()}
    found.update({name: command for name, (program, command) in peers.items() if shutil.which(program)})
    return found


class Server:
    """A server that runs."""

    def __init__(self, name, command, port, before=lambda: None, wrapper=()):
        self.name, self.port, self.wrapped = name, port, bool(wrapper)
        words = [*wrapper, *PRIORITY, "taskset", "-c", SERVER_CPU, *command]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=before)
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"{name} does not start: {' '.join(words)}")

    def cpu_us(self):
        """CPU time so far, of ended threads and processes as well, in microseconds."""
        return sum(sum(int(fields[at]) for at in (11, 12, 13, 14)) for fields in self.stats()) * 1_000_000 / TICKS

    def stats(self):
        """Fields of /proc/PID/stat from the third on, for all processes of the session."""
        found = []
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path) as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            if int(fields[3]) == self.process.pid:
                found.append(fields)
        return found

    def children(self):
        """Of what it runs under, which is to write its counts when the server has ended."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            return [int(process) for process in file.read().split()]

    def stop(self):
        """Stops it, with all that it has started."""
        if self.process.poll() is None:
            for process in self.children() if self.wrapped else [self.process.pid]:
                os.kill(process, signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


class Others:
    """How much of the machine anybody else uses: figures taken meanwhile are not to be trusted."""

    def __init__(self, server):
        self.server, self.begun = server, time.monotonic()
        self.before = self.busy()

    def busy(self):
        """CPU seconds that nobody measured here has used."""
        with open("/proc/stat") as file:
            user, nice, system = map(int, file.readline().split()[1:4])
        usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        ours = sum(usage.ru_utime + usage.ru_stime for usage in usages) + self.server.cpu_us() / 1_000_000
        return (user + nice + system) / TICKS - ours

    def share(self):
        """Of one processor, since the beginning."""
        return (self.busy() - self.before) / (time.monotonic() - self.begun)


def wrk(port, path, connections, seconds, *more, start=False):
    """Runs wrk, or only starts it."""
    command = [*PRIORITY, "taskset", "-c", LOAD_CPU, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", *more,
               f"http://127.0.0.1:{port}{path}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return process if start else parse_wrk(process.communicate()[0])


def parse_wrk(text):
    """What wrk has to say: requests, requests a second, latencies in milliseconds, errors."""
    milliseconds = {"us": 0.001, "ms": 1, "s": 1000, "m": 60000}
    latency = {percent: float(value) * milliseconds[unit]
               for percent, value, unit in re.findall(r"^ +(\d+)(?:\.\d+)?% +([\d.]+)(us|ms|s|m)$", text, re.M)}
    found = re.search(r"(\d+) requests in", text)
    rate = re.search(r"Requests/sec: +([\d.]+)", text)
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    return {
        "requests": int(found.group(1)) if found else 0,
        "requests_per_second": float(rate.group(1)) if rate else 0.0,
        "p50_ms": latency.get("50"), "p99_ms": latency.get("99"),
        "errors": sum(map(int, errors.groups())) if errors else 0, "refused": int(bad.group(1)) if bad else 0,
    }
