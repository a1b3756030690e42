"""A host that listens, and clients that speak HTTP to it, well and badly."""

import json
import socket
import sys
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx

from tests.support.hosts import ROOT, SECONDS, Home


class Site(Home):
    """`with Site() as site`: a home; `up` starts its host."""

    def up(self, *more, settings='person_verbs = "terminal"\n'):
        """A host at a free port."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        (self.path / "config.toml").write_text(settings)
        words = ("up", "--listen", "127.0.0.1:0", *more)
        self.child = self.spawn(sys.executable, "-m", "tallystick", *words, cwd=ROOT)
        line = self.child.stdout.readline().decode()
        assert "listens at" in line, (line, self.child.stderr.read())
        self.url = line.rpartition(" ")[2].strip().rstrip(".")
        self.port = urlsplit(self.url).port
        self.token = (self.path / "token").read_text().strip()
        return self

    @property
    def authority(self):
        """What a Host header says."""
        return urlsplit(self.url).netloc

    def client(self, **options):
        """An HTTP client with the person's token."""
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=SECONDS, trust_env=False, **options)

    def raw(self):
        """A connection."""
        return RawHttp(self.port)

    def head(self, line="POST /v1/whoami HTTP/1.1", **changed):
        """A request's head as bytes; a header is a text, several, or None for none."""
        headers = {
            "host": self.authority,
            "authorization": f"Bearer {self.token}",
            "content-type": "application/json",
            "content-length": "2",
            **{name.replace("_", "-"): value for name, value in changed.items()},
        }
        lines = [line]
        for name, value in headers.items():
            values = [] if value is None else [value] if isinstance(value, str) else value
            lines += [f"{name}: {item}" for item in values]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


class RawHttp:
    """A client that may misbehave."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), SECONDS)
        self.file = self.sock.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def answer(self):
        """(status, headers, body as JSON) of the next answer."""
        status = int(self.file.readline().split()[1])
        headers = {}
        while line := self.file.readline().strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = self.file.read(int(headers.get("content-length", 0)))
        return status, headers, json.loads(body) if body else None

    def ended(self, begin=b""):
        """Whether the host closed it and sends nothing more but what begins so."""
        try:
            rest = self.file.read()
        except ConnectionResetError:
            return True
        return rest == b"" or (bool(begin) and rest.startswith(begin))


@contextmanager
def stream(client, **query):
    """An open event stream: (its cursor at the beginning, an iterator of (cursor, event))."""
    last = query.pop("last", None)
    headers = {"last-event-id": last} if last else {}
    with client.stream("GET", "/v1/events", params=query, headers=headers) as response:
        assert response.status_code == 200, response.read()
        found = _events(response.iter_lines())
        kind, cursor, _ = next(found)
        assert kind == "open"
        yield cursor, ((at, event) for _, at, event in found)


def _events(lines):
    fields = {}
    for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and fields:
            yield fields.get("event", "message"), fields["id"], json.loads(fields["data"])
            fields = {}


def verb(client, name, args=None, **around):
    """(status, answer) of one verb."""
    around = {"as" if key == "as_" else key: value for key, value in around.items()}
    response = client.post(f"/v1/{name}", json={**around, "args": args or {}})
    return response.status_code, response.json()


def done(client, name, args=None, **around):
    """The result of a verb that must succeed."""
    status, answer = verb(client, name, args, **around)
    assert status == 200, answer
    return answer
