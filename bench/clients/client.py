"""As client.go, by httpx."""
import pathlib, ssl, sys

import httpx

base, ca, version, into = sys.argv[1:]
with httpx.Client(http2=version == "2", verify=ssl.create_default_context(cafile=ca)) as client:
    for path in sys.stdin.read().split():
        answer = client.get(base + path)
        assert answer.status_code == 200 and answer.http_version == ("HTTP/2" if version == "2" else "HTTP/1.1"), (path, answer, answer.http_version)
        pathlib.Path(into + path).write_bytes(answer.content)
