#!/usr/bin/env python3
"""What a flood of TLS handshakes does to connections that are there already.

    bench/handshakes.py --target 'lamna=target/release/lamna serve {docroot} --listen 127.0.0.1:{port} --certificate {cert} --key {key} --log off --workers 1'

64 kept connections ask for 500 bytes in turn, 400 times a second, by a schedule (a late answer delays no question): first alone, then while
h2load opens 2,000 connections a second, each with a full handshake and one request. nginx with the same certificate is measured
beside it. The server has processor 0, the load processor 1; for root server and questions at a high priority, so that other work on the machine
disturbs them less. All traffic goes to 127.0.0.1, and every phase has an end.
Needs nginx, h2load and openssl.
"""
import argparse, os, re, selectors, shlex, socket, ssl, subprocess, sys, tempfile, time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--target", action="append", default=[], help="NAME=COMMAND with {port}, {docroot}, {cert} and {key}")
parser.add_argument("--seconds", type=int, default=8)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--rate", type=int, default=2000, help="handshakes a second")
arguments = parser.parse_args()
KEPT, QUESTIONS_PER_SECOND = 64, 400
PRIORITY, FLOOD_NICER = (-15, 15) if os.geteuid() == 0 else (0, 19)
work = tempfile.mkdtemp(prefix="handshakes-")
docroot = f"{work}/root"
os.mkdir(docroot)
open(f"{docroot}/f", "w").write("x" * 500)
cert, key = f"{work}/cert.pem", f"{work}/key.pem"
subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)
subprocess.run(["chmod", "-R", "a+rX", work], check=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def nginx(port):
    conf = f"""daemon off; worker_processes 1; error_log {work}/nginx.err; pid {work}/nginx.pid;
events {{ worker_connections 20000; }}
http {{ access_log off; keepalive_requests 100000000;
server {{ listen 127.0.0.1:{port} ssl backlog=4096; ssl_certificate {cert}; ssl_certificate_key {key}; ssl_protocols TLSv1.3; root {docroot}; }} }}
"""
    open(f"{work}/nginx.conf", "w").write(conf)
    return ["nginx", "-c", f"{work}/nginx.conf"]


def connect(port):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    s = context.wrap_socket(socket.create_connection(("127.0.0.1", port)))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def latencies(kept, seconds):
    """Milliseconds from when each question was due to its answer."""
    selector, due, found = selectors.DefaultSelector(), {}, []
    for s in kept:
        s.setblocking(False)
        selector.register(s, selectors.EVENT_READ)
    free, begun, asked = list(kept), time.monotonic(), 0
    # What was asked is waited for, or the next phase would meet its answer.
    while (now := time.monotonic() - begun) < seconds or due and now < seconds + 20:
        while now < seconds and asked < now * QUESTIONS_PER_SECOND and free:
            s = free.pop(0)
            due[s] = [begun + asked / QUESTIONS_PER_SECOND, 0]
            s.send(b"GET /f HTTP/1.1\r\nHost: localhost\r\n\r\n")
            asked += 1
        for event, _ in selector.select(0.001):
            s = event.fileobj
            try:
                while data := s.recv(65536):
                    due[s][1] += data.count(b"x" * 500)
            except ssl.SSLWantReadError:
                pass
            if s in due and due[s][1]:
                found.append((time.monotonic() - due.pop(s)[0]) * 1000)
                free.append(s)
    selector.close()
    return sorted(found)


def at(found, part):
    return found[int(len(found) * part)]


def measure(name, command, port):
    process = subprocess.Popen(["taskset", "-c", "0", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                connect(port).close()
                break
            except OSError:
                time.sleep(0.05)
        kept = [connect(port) for _ in range(KEPT)]
        latencies(kept, 1)
        alone = latencies(kept, arguments.seconds)
        count = arguments.rate * (arguments.seconds + 2)
        flood = subprocess.Popen(["nice", "-n", str(FLOOD_NICER), "h2load", "--h1", "-n", str(count), "-c", str(count), "-r", str(arguments.rate // 100),
                                  "--rate-period=10ms", f"https://127.0.0.1:{port}/f"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        time.sleep(1)
        flooded = latencies(kept, arguments.seconds)
        try:
            out = flood.communicate(timeout=20)[0]
        except subprocess.TimeoutExpired:
            flood.kill()
            out = flood.communicate()[0]
        done = re.search(r"requests: .*?(\d+) succeeded", out)
        rate = re.search(r"finished in ([\d.]+)s, ([\d.]+) req/s", out)
        return {"alone": at(alone, 0.99), "flooded": at(flooded, 0.99), "median": at(flooded, 0.5), "handshakes": float(rate.group(2)) if rate else 0,
                "done": f"{done.group(1) if done else '?'} of {count}"}
    finally:
        process.terminate()
        process.wait()


os.sched_setaffinity(0, {1})
os.nice(PRIORITY)
targets = {name: command for name, command in (one.split("=", 1) for one in arguments.target)}
rows = {name: [] for name in ["nginx", *targets]}
for _ in range(arguments.rounds):
    for name in rows:
        port = free_port()
        command = nginx(port) if name == "nginx" else shlex.split(targets[name].format(port=port, docroot=docroot, cert=cert, key=key))
        rows[name].append(measure(name, command, port))
print(f"{'server':10} {'p99 alone ms':>13} {'p99 flooded ms':>15} {'grows by ms':>12} {'p50 flooded':>12} {'handshakes/s':>13} done")
for name, found in rows.items():
    middle = sorted(found, key=lambda one: one["flooded"] - one["alone"])[len(found) // 2]
    print(f"{name:10} {middle['alone']:13.2f} {middle['flooded']:15.2f} {middle['flooded'] - middle['alone']:12.2f} {middle['median']:12.2f} "
          f"{middle['handshakes']:13.0f} {middle['done']}")
