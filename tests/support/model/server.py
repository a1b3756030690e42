"""The scripted model: one HTTP server of the standard library, on a free port of loopback, for all dialects.

    with Model() as model:
        model.rules.append(Rule("look at your inbox", [{"mcp": "tally.inbox"}, {"text": "Read."}]))
        ... a client with model.url as its base address ...
        asked = model.wait_for(lambda request: "look at your inbox" in request.seen.text)
        model.wait_for(lambda request: request.dialect and request.outcome == "sent", since=asked.number)

What it answers: `script`. Every request is in `model.requests`, from the moment its body has been read; `outcome` says
how it ended: `sent`, or `closed` when the client went away first.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import select
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.support.model.conversation import Conversation, Malformed, read
from tests.support.model.dialects import Event, line, streamed, whole
from tests.support.model.script import Answer, Rule, choose

SECONDS = 120
"""The bound of every wait, generous for a machine that does much at a time."""
MODELS = ("fake-model", "claude-sonnet-4-5", "claude-haiku-4-5", "gemini-2.5-flash")
_PATHS = {
    "chat": re.compile(r"/chat/completions$"),
    "responses": re.compile(r"/responses$"),
    "messages": re.compile(r"/messages(?P<count>/count_tokens)?$"),
    "gemini": re.compile(
        r"/models/(?P<model>[^/:]+):(?:generateContent|(?P<stream>streamGenerateContent)|(?P<count>countTokens))$"
    ),
}
_COUNTED = {"messages": "input_tokens", "gemini": "totalTokens"}


@dataclass
class Request:
    """One request as it came."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    """Names in small letters."""
    raw: bytes
    body: Any = None
    dialect: str = ""
    """Empty for what asks nothing of a model."""
    counting: bool = False
    stream: bool = False
    model: str = ""
    seen: Conversation = field(default_factory=Conversation)
    answer: Answer | None = None
    outcome: str = ""
    wrong: str = ""
    """Why it was not understood."""

    @property
    def asks(self) -> bool:
        """Whether it is a turn of the conversation: no count, no title, no other side call."""
        return bool(self.answer) and not self.answer.side


class Model:
    """The server; a context manager."""

    def __init__(self, *rules: Rule) -> None:
        self.rules: list[Rule] = list(rules)
        self.requests: list[Request] = []
        self._changed = threading.Condition()
        self._gates: dict[str, tuple[int, int]] = {}
        self._opened: set[str] = set()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.model = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Its address, without a path: clients add `/v1` where they need it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for name in [*self._gates]:
            self.open(name)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(SECONDS)
        self._server.hang_up()
        for reading, _writing in self._gates.values():
            os.close(reading)

    # --- what a test looks at -----------------------------------------------------------------------------------------

    @property
    def turns(self) -> list[Request]:
        """The requests that ran a step, or would have."""
        return [request for request in self.requests if request.asks]

    def wait_for(self, predicate: Callable[[Request], object], seconds: float = SECONDS, since: int = 0) -> Request:
        """The first request from number `since` on for which the predicate holds, once there is one."""
        found: list[Request] = []

        def look() -> bool:
            found[:] = [request for request in self.requests[since:] if predicate(request)][:1]
            return bool(found)

        if not self.wait_until(look, seconds):
            raise AssertionError(f"no such request within {seconds} s; there were:\n{self.told()}")
        return found[0]

    def wait_until(self, condition: Callable[[], object], seconds: float = SECONDS) -> bool:
        """Whether the condition held in time; it is looked at whenever a request comes or ends."""
        with self._changed:
            return bool(self._changed.wait_for(condition, seconds))

    def open(self, gate: str) -> None:
        """Let through what waits at this gate, and all that comes there later."""
        reading_writing = self._gate(gate)
        with self._changed:
            if gate not in self._opened:
                self._opened.add(gate)
                os.close(reading_writing[1])

    def told(self) -> str:
        """The log for a person: a line for each request."""
        lines = []
        for request in self.requests:
            answer = request.answer
            said = f"{answer.tool} {answer.args}" if answer and answer.tool else answer.text if answer else ""
            last = request.seen.items[-1] if request.seen.items else None
            came = f"{last.kind}: {last.text[-100:]!r}" if last else ""
            lines.append(f"{request.number} {request.method} {request.path} {came} -> {said[:200]} {request.outcome}")
        return "\n".join(lines)

    # --- what the server does -----------------------------------------------------------------------------------------

    def note(self, request: Request) -> None:
        """A request has been read."""
        with self._changed:
            request.number = len(self.requests)
            self.requests.append(request)
            self._changed.notify_all()

    def ended(self, request: Request, outcome: str) -> None:
        """A request has been answered, or its client is gone."""
        with self._changed:
            request.outcome = outcome
            self._changed.notify_all()

    def _gate(self, name: str) -> tuple[int, int]:
        with self._changed:
            if name not in self._gates:
                self._gates[name] = os.pipe()
            return self._gates[name]

    def wait_at(self, gate: str, delay: float, client: socket.socket) -> None:
        """Until the gate opens or the delay is over; `ConnectionError` when the client goes away meanwhile."""
        watch = select.poll()  # `select` takes no descriptor above 1023, and a process of many tests has some
        for descriptor in (client.fileno(), *([self._gate(gate)[0]] if gate else [])):
            watch.register(descriptor, select.POLLIN)
        ready = [descriptor for descriptor, _ in watch.poll(None if gate else delay * 1000)]
        if client.fileno() in ready and client.recv(1, socket.MSG_PEEK) == b"":
            raise ConnectionAbortedError


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    model: Model

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self._live: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._live.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._live.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End the connections that clients keep open."""
        for client in [*self._live]:
            try:
                client.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *args: Any) -> None:
        """Nothing on the terminal: requests are in the log."""

    def do_HEAD(self) -> None:
        request = self._come()
        self._send(200, None)
        self.server.model.ended(request, "sent")

    def do_CONNECT(self) -> None:
        """Somebody took this for a proxy: it is noted, and refused."""
        request = self._come()
        self._send(403, {"error": {"message": "nothing but loopback"}})
        self.server.model.ended(request, "sent")

    def do_GET(self) -> None:
        request = self._come()
        if request.path.endswith("/models"):
            ids = [{"id": name, "object": "model", "type": "model", "owned_by": "test"} for name in MODELS]
            self._send(200, {"object": "list", "data": ids, "models": [], "has_more": False})
        else:
            self._nothing(request)
        self.server.model.ended(request, "sent")

    def do_POST(self) -> None:
        request = self._come()
        try:
            if self._understand(request):
                self._answer(request)
        except (ConnectionError, TimeoutError):
            self.close_connection = True
            self.server.model.ended(request, "closed")
        else:
            self.server.model.ended(request, "sent")

    def _come(self) -> Request:
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = self.path.partition("?")[0]
        request = Request(0, self.command, path, headers, self._body(headers))
        for dialect, pattern in _PATHS.items():
            match = pattern.search(path) if self.command == "POST" else None
            if match:
                words = match.groupdict()
                request.dialect, request.counting = dialect, bool(words.get("count"))
                request.stream, request.model = bool(words.get("stream")), words.get("model", "")
        if request.dialect:
            try:
                request.body = json.loads(request.raw)
                request.seen = read(request.dialect, _unwrapped(request.body))
                request.stream = request.stream or bool(request.body.get("stream"))
                request.model = request.model or str(request.body.get("model", ""))
                if not request.counting:
                    request.answer = choose(request.seen, self.server.model.rules)
            except (Malformed, ValueError) as error:
                request.wrong = f"malformed: {error}"
        self.server.model.note(request)
        return request

    def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            raw = b"".join(self._chunks())
        else:
            raw = self.rfile.read(int(headers.get("content-length", 0)))
        coding = headers.get("content-encoding", "")
        try:
            return gzip.decompress(raw) if coding == "gzip" else zlib.decompress(raw) if coding == "deflate" else raw
        except (OSError, EOFError, zlib.error):
            return raw

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().partition(b";")[0] or b"0", 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            continue

    def _understand(self, request: Request) -> bool:
        """Whether there is something to answer; else it has been said what is wrong."""
        if request.wrong:
            error = {"type": "invalid_request_error", "message": request.wrong, "code": 400}
            self._send(400, {"type": "error", "error": error})
        elif not request.dialect:
            self._nothing(request)
        elif request.counting:
            self._send(200, {_COUNTED[request.dialect]: tokens_read(request)})
        else:
            return True
        return False

    def _nothing(self, request: Request) -> None:
        self._send(404, {"error": {"message": f"nothing at {request.path}", "type": "not_found_error"}})

    def _answer(self, request: Request) -> None:
        answer = request.answer
        assert answer is not None
        if answer.gate or answer.delay:
            self.server.model.wait_at(answer.gate, answer.delay, self.connection)
        if answer.status != 200:
            error = {"type": "api_error", "message": "scripted failure", "code": answer.status}
            self._send(answer.status, answer.error or {"type": "error", "error": error})
            return
        words = (request.dialect, answer, request.model or MODELS[0], f"{request.number:06d}", tokens_read(request))
        if not request.stream:
            self._send(200, whole(*words))
            return
        self._stream(request.dialect, [*streamed(*words)], answer)

    def _stream(self, dialect: str, events: list[Event], answer: Answer) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("cache-control", "no-cache")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(events):
            if answer.cut and number * 2 >= len(events):
                raise ConnectionAbortedError
            if answer.drip and number:
                self.server.model.wait_at("", answer.drip, self.connection)
            data = line(dialect, event)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, status: int, body: Any) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _unwrapped(body: Any) -> Any:
    """The request that a count is about (Gemini may wrap it)."""
    return body.get("generateContentRequest", body) if isinstance(body, dict) else body


def tokens_read(request: Request) -> int:
    """What it counts of a request."""
    return max(1, len(request.raw) // 4)
