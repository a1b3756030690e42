"""Clients of the MCP door: a raw one that sees every line of `tally mcp`, and the official SDK's on both transports."""

import json
import queue
import sys
import threading
from contextlib import asynccontextmanager, contextmanager

from tests.support.hosts import RUN_TALLY, SECONDS, Home

VERSION = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
ERAS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", VERSION)


class Agent:
    """`tally mcp` as a client starts it; its lines are read as they come."""

    def __init__(self, home, *words, version="2025-06-18", env=None, cwd=None, capabilities=None):
        child = home.spawn_tally("mcp", *words, env=env, stdin=-1, cwd=cwd or home.place)
        self._begin(child, version, capabilities)

    @classmethod
    def over(cls, child, version="2025-06-18"):
        """One that was started otherwise."""
        agent = cls.__new__(cls)
        agent._begin(child, version)
        return agent

    def _begin(self, child, version, capabilities=None):
        self.child = child
        self.version = version
        self.last = 0
        self.answers = {}
        self.lines = queue.Queue()
        self.notifications = []
        self.stray = []
        self.raw = []
        threading.Thread(target=self._read, daemon=True).start()
        if version != VERSION:
            told = {"capabilities": capabilities or {}, "clientInfo": CLIENT}
            self.hello = self.ask("initialize", protocolVersion=version, **told)
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _read(self):
        for line in self.child.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def bytes(self, data):
        self.child.stdin.write(data)
        self.child.stdin.flush()

    def send(self, message):
        self.bytes(json.dumps(message, ensure_ascii=False).encode() + b"\n")

    def begin(self, method, **params):
        """Send a request; its id."""
        self.last += 1
        if self.version == VERSION:
            params = {"_meta": ENVELOPE, **params}
        self.send({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})
        return self.last

    def next(self, seconds=SECONDS):
        """The next message, filed where it belongs; None at the end of the output."""
        line = self.lines.get(timeout=seconds)
        if line is None:
            return None
        self.raw.append(line)
        message = json.loads(line)
        if "method" in message:
            self.notifications.append(message)
        elif message.get("id") is None:
            self.stray.append(message)
        else:
            self.answers[message["id"]] = message
        return message

    def answer(self, number, seconds=2 * SECONDS):
        """The answer to a request."""
        while number not in self.answers:
            assert self.next(seconds) is not None, "the server ended"
        return self.answers[number]

    def ask(self, method, **params):
        """The result of a request, which must succeed."""
        answer = self.answer(self.begin(method, **params))
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method, **params):
        """The error of a request, which must fail."""
        answer = self.answer(self.begin(method, **params))
        assert "error" in answer, answer
        return answer["error"]

    def call(self, name, **arguments):
        """Begin a call of a tool; its id."""
        return self.begin("tools/call", name=name, arguments=arguments)

    def tool(self, name, **arguments):
        """What a tool answers, which must succeed."""
        result = self.ask("tools/call", name=name, arguments=arguments)
        assert result["isError"] is False, result
        return result["structuredContent"]

    def refused(self, name, **arguments):
        """How a tool refuses: code, message, remedy."""
        result = self.ask("tools/call", name=name, arguments=arguments)
        assert result["isError"] is True, result
        return result["structuredContent"]["error"]

    def told(self, method):
        """The next notification of that method."""
        while not (found := [m for m in self.notifications if m["method"] == method]):
            assert self.next() is not None, "the server ended"
        self.notifications.remove(found[0])
        return found[0]["params"]

    def close(self):
        """Close its input; how it ended."""
        self.child.stdin.close()
        self.child.stdin = None
        return self.child.wait(SECONDS)


CLIENT = {"name": "test", "version": "1"}


class HttpAgent:
    """A plain client of `/mcp`, with the same ways to ask."""

    def __init__(self, site, name, version="2025-06-18"):
        self.client = site.client()
        self.path = f"/mcp?as={name}"
        self.version = version
        self.headers = {"accept": "application/json, text/event-stream"}
        self.last = 0
        if version != VERSION:
            self.hello = self.ask("initialize", protocolVersion=version, capabilities={}, clientInfo=CLIENT)
            self.headers["mcp-protocol-version"] = version
            self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _post(self, message):
        more = {}
        if self.version == VERSION:
            params = message["params"]
            name = params.get("name", params.get("uri"))
            more = {"mcp-protocol-version": VERSION, "mcp-method": message["method"]}
            more |= {"mcp-name": str(name)} if name else {}
        response = self.client.post(self.path, json=message, headers={**self.headers, **more})
        if "mcp-session-id" in response.headers:
            self.headers["mcp-session-id"] = response.headers["mcp-session-id"]
        return response

    def answer(self, method, params):
        self.last += 1
        if self.version == VERSION:
            params = {"_meta": ENVELOPE, **params}
        response = self._post({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})
        if response.headers["content-type"].startswith("application/json"):
            return response.json()
        lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
        (found,) = [m for m in map(json.loads, filter(None, lines)) if m.get("id") == self.last]
        return found

    def ask(self, method, **params):
        """The result of a request, which must succeed."""
        answer = self.answer(method, params)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method, **params):
        """The error of a request, which must fail."""
        answer = self.answer(method, params)
        assert "error" in answer, answer
        return answer["error"]

    def close(self):
        self.client.close()


@contextmanager
def town(*names):
    """A home with agents that are mailboxes."""
    with Home() as home:
        for name in names:
            code, _, err = home.tally("join", name, cwd=home.place)
            assert code == 0, err
        yield home


def canonical(value):
    """JSON in one spelling."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


ERA_FIELDS = ("resultType", "ttlMs", "cacheScope", "_meta")


def without_era(result):
    """A result without what only one era has."""
    return {key: value for key, value in result.items() if key not in ERA_FIELDS}


@asynccontextmanager
async def sdk_stdio(home, name, mode="auto", **options):
    """The SDK's client on `tally mcp`."""
    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(
        command=sys.executable,
        args=["-c", RUN_TALLY, "mcp", "--as", name],
        env=home.environment(),
        cwd=str(home.place),
    )
    async with Client(server, mode=mode, read_timeout_seconds=SECONDS, **options) as client:
        yield client


@asynccontextmanager
async def sdk_http(site, name, mode="auto", **options):
    """The SDK's client on `/mcp`."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {"authorization": f"Bearer {site.token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=SECONDS, trust_env=False) as http:
        transport = streamable_http_client(f"{site.url}/mcp?as={name}", http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=SECONDS, **options) as client:
            yield client
