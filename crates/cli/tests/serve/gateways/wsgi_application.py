# A WSGI application on the server of Python's library: a form, an answer that is made while it is sent, and content that is counted.
import hashlib
import os
from urllib.parse import parse_qs
from wsgiref.simple_server import make_server


def application(environ, start):
    path = environ["PATH_INFO"]
    if path == "/rows":
        count = int(parse_qs(environ["QUERY_STRING"])["count"][0])
        start("200 OK", [("Content-Type", "text/plain")])
        return (b"row %d\n" % number for number in range(count))
    if path == "/digest" and environ["REQUEST_METHOD"] == "POST":
        left, digest = int(environ["CONTENT_LENGTH"]), hashlib.sha256()
        while left:
            piece = environ["wsgi.input"].read(min(left, 65536))
            digest.update(piece)
            left -= len(piece)
        start("200 OK", [("Content-Type", "text/plain")])
        return [digest.hexdigest().encode()]
    if path == "/fails":
        raise RuntimeError("the application has failed")
    start("404 Not Found", [("Content-Type", "text/plain")])
    return [b"nothing is here"]


make_server(os.environ["HOST"], int(os.environ["PORT"]), application).serve_forever()
