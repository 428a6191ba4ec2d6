# An application that speaks FastCGI on the socket that is its descriptor 0. It serves one request at a time, as php-cgi does.
# Arguments: a file in which requests for /both are noted, and a word that /word says.
import os
import socket
import struct
import sys
import time

listener = socket.socket(fileno=0)


def exactly(connection, count):
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def length_of(data, at):
    if data[at] < 128:
        return data[at], at + 1
    return struct.unpack_from(">I", data, at)[0] & 0x7FFFFFFF, at + 4


def request_of(connection):
    parameters = b""
    while True:
        _, kind, _, length, padding = struct.unpack(">BBHHBx", exactly(connection, 8))
        content = exactly(connection, length + padding)[:length]
        parameters += content if kind == 4 else b""
        if kind == 5 and not length:
            break
    found, at = {}, 0
    while at < len(parameters):
        name, at = length_of(parameters, at)
        value, at = length_of(parameters, at)
        found[parameters[at:at + name].decode()] = parameters[at + name:at + name + value].decode()
        at += name + value
    return found


def descriptors():
    names = [int(name) for name in os.listdir("/proc/self/fd")]
    kinds = []
    for name in sorted(names):
        try:
            kinds.append(os.readlink("/proc/self/fd/%d" % name).split(":")[0])
        except OSError:
            pass  # The one that listed them.
    return " ".join(kinds)


def both():
    with open(sys.argv[1], "a") as noted:
        noted.write("%d\n" % os.getpid())
    while len(set(open(sys.argv[1]).read().split())) < 2:
        time.sleep(0.005)
    return "both"


def answer(path):
    if path == "/descriptors":
        return descriptors()
    if path == "/both":
        return both()
    if path == "/word":
        return sys.argv[2]
    if path == "/variables":
        return " ".join(name for name in os.environ if name.startswith(("LAMNA_", "LISTEN_", "NOTIFY_")))
    if path == "/say":
        print("said on standard output", flush=True)
        print("said on standard error", file=sys.stderr, flush=True)
    return "%d %d" % (os.getpid(), os.getpgid(0))


while True:
    connection, _ = listener.accept()
    with connection:
        try:
            content = answer(request_of(connection)["PATH_INFO"])
            content = ("Content-Type: text/plain\r\n\r\n" + content).encode()
            connection.sendall(struct.pack(">BBHHBx", 1, 6, 1, len(content), 0) + content)
            connection.sendall(struct.pack(">BBHHBx8x", 1, 3, 1, 8, 0))
        except (EOFError, OSError):
            pass
