# An application that speaks HTTP and listens where SOCKET or HOST and PORT say. It ends what it has begun when it gets SIGTERM.
# Arguments: a word that /word says, and what /arguments says.
import os
import signal
import socket
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler

ends = threading.Event()
begun = 0
lock = threading.Lock()


def answer(path):
    if path == "/word":
        return sys.argv[1]
    if path == "/arguments":
        return " ".join(sys.argv[2:])
    if path == "/place":
        return " ".join("%s=%s" % (name, os.environ[name]) for name in ("HOST", "PORT", "SOCKET") if name in os.environ)
    if path == "/say":
        print("said on standard output", flush=True)
    return "%d %d" % (os.getpid(), os.getpgid(0))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        global begun
        with lock:
            begun += 1
        content = answer(self.path).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(content)))
        self.close_connection = ends.is_set()
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
        with lock:
            begun -= 1

    def log_message(self, *arguments):
        pass


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128


if "SOCKET" in os.environ:
    Server.address_family, place = socket.AF_UNIX, os.environ["SOCKET"]
else:
    place = (os.environ["HOST"], int(os.environ["PORT"]))
if sys.argv[1] == "slow":
    time.sleep(0.3)
server = Server(place, Handler)


def end(*_):
    ends.set()
    threading.Thread(target=server.shutdown).start()


signal.signal(signal.SIGTERM, end)
server.serve_forever(poll_interval=0.02)
server.server_close()
while begun:
    time.sleep(0.005)
