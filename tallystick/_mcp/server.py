"""The server of one client: one loop over `poll`, lines in, lines out."""

from __future__ import annotations

import os
import select
import time

from tallystick import wire
from tallystick._mcp.call import Call, unknown
from tallystick._mcp.host import RETURN, Host
from tallystick._mcp.lines import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

GRACE = 2.0
"""Seconds that calls still have when the client closes the input."""
COLD = 15.0
"""The same while a host is still being started."""
LOOK_SECONDS = 2.0
"""Between two looks whether the client that started this still runs."""
PIPE = 4096
"""What can be written without blocking once the descriptor is ready."""
WATCHED = 256
"""Resources that one client can watch: as many as the host takes in one request."""
ROOM = 64 * 1024
"""Bytes of a request that are this server's own: identity, environment."""


class Server:
    """The server of one client."""

    def __init__(self, around: dict[str, Any], input_fd: int = 0, output_fd: int = 1, *, channel: bool = False) -> None:
        self.around = wire.encode({"op": "mcp", **around})[1:-1]
        """What every request of this server says: who it is, and where."""
        self.channel = channel
        """Whether the client or its person said that it is to be told in the middle of its work."""
        self.input_fd, self.output_fd = input_fd, output_fd
        self.lines = Lines(wire.LINE_BYTES - ROOM)
        self.output: list[tuple[bytes, Callable[[], None] | None]] = []
        """What the client is still to be given, and what follows once it has been."""
        self.calls: dict[int, Call] = {}
        self.last = 0
        self.key = f"mcp:{os.urandom(8).hex()}"
        self.subscribed: set[str] = set()
        self.watch = 0
        """The number of the call that brings changes; 0 without one."""
        self.host = Host()
        self.parent = 0
        """Who had started it when the first message came: launchers are gone by then. 0 before."""
        self.ends_at = 0.0
        """When this ends at the latest; 0 while the input is open."""

    # --- the loop ---

    def run(self) -> int:
        """Serve until the client closes the input; 0."""
        while not self.is_done():
            self.turn()
        return 0

    def is_done(self) -> bool:
        """Whether the client left, and has what it is owed or does not take it in time."""
        if not self.ends_at:
            return False
        waits = any(call.patience() for call in self.calls.values())
        return time.monotonic() >= self.ends_at or not (waits or self.output)

    def turn(self) -> None:
        """Wait for something, and deal with it."""
        poll = select.poll()
        if not self.ends_at:
            poll.register(self.input_fd, select.POLLIN)
        if self.output:
            poll.register(self.output_fd, select.POLLOUT)
        poll.register(self.host.news, select.POLLIN)
        if self.host.sock is not None:
            poll.register(self.host.sock, select.POLLIN | (select.POLLOUT if self.host.queue else 0))
        # The host first: what it said, or that it is gone, comes before what the client wants next.
        for number, events in sorted(poll.poll(self.timeout()), key=lambda item: item[0] == self.input_fd):
            self.ready(number, events)
        self.look_at_time()

    def timeout(self) -> float | None:
        """Milliseconds until something is due by the clock."""
        due = [self.ends_at] if self.ends_at else [time.monotonic() + LOOK_SECONDS] if self.parent else []
        due += [self.host.look_at] if self.host.look_at else []
        due += [call.since + call.patience() for call in self.calls.values() if call.patience()]
        return max(0.0, min(due) - time.monotonic()) * 1000 + 1 if due else None

    def ready(self, number: int, events: int) -> None:
        """One descriptor is ready."""
        if number == self.input_fd:
            self.read()
        elif number == self.output_fd:
            self.write(events)
        elif number == self.host.news:
            self.host.news_came()
            self.connected()
        elif self.host.sock is not None and number == self.host.sock.fileno():
            for message in self.host.exchange(events):
                self.hear(message)
            if self.host.sock is None:
                self.lost()

    def look_at_time(self) -> None:
        """Whatever is due by the clock."""
        now = time.monotonic()
        if self.parent and not self.ends_at and os.getppid() != self.parent:
            self.end()  # the client died, and something else still holds our input: an agent that is not there
        if self.host.look_at and now >= self.host.look_at:
            self.host.seek(start=self.needs_host() and now >= self.host.lost_at + RETURN and not self.host.stopped)
        for number, call in list(self.calls.items()):
            if call.patience() and now - call.since > call.patience():
                self.give_up(number, call)

    # --- the client's side ---

    def read(self) -> None:
        """What the client wrote."""
        try:
            data = os.read(self.input_fd, 262144)
        except OSError:
            data = b""
        if not data:
            self.end()
        for line in self.lines.feed(data) if data else self.lines.rest():
            if line is None:
                self.fail(None, -32600, f"The message is longer than {self.lines.limit} bytes.")
            elif line.strip():
                self.take(line.strip())

    def end(self) -> None:
        """The client closed the input: nothing is waited for any longer, the rest gets a moment."""
        is_cold = self.host.sock is None and bool(self.calls)
        self.ends_at = time.monotonic() + (COLD if is_cold else GRACE)
        for number, call in list(self.calls.items()):
            waits = call.method == "tools/call" and call.params().get("name") == "wait"
            if waits or not call.patience():
                self.cancel(number, call)

    def take(self, line: bytes) -> None:
        """One message of the client."""
        try:
            message = wire.decode(line)
        except wire.WireError:
            self.fail(None, -32700, "The line is no JSON object; messages are sent one by one.")
            return
        if message.get("method") == "notifications/cancelled":
            self.cancelled(message)
        elif "id" in message and "method" in message:
            if type(message["id"]) not in (str, int) or not isinstance(message["method"], str):
                self.fail(None, -32600, "The message is no JSON-RPC request.")
                return
            self.parent = self.parent or os.getppid()
            if self.is_one_too_many(message):
                self.fail(message["id"], -32602, f"At most {WATCHED} resources can be watched at once.")
                return
            self.last += 1
            self.calls[self.last] = Call(message, line.decode("utf-8"), f"{self.key}-{self.last}")
            self.forward(self.last)
        elif "id" not in message and "method" not in message:
            self.fail(None, -32600, "The message is no JSON-RPC message.")

    def is_one_too_many(self, message: dict[str, Any]) -> bool:
        """Whether it asks to watch more than the host would bring news of: those that are watched would be lost too."""
        if message["method"] != "resources/subscribe":
            return False
        wanted = {call.params().get("uri") for call in self.calls.values() if call.method == "resources/subscribe"}
        params = message.get("params")
        uri = params.get("uri") if isinstance(params, dict) else None
        known = self.subscribed | {other for other in wanted if isinstance(other, str)}
        return isinstance(uri, str) and uri not in known and len(known) >= WATCHED

    def cancelled(self, message: dict[str, Any]) -> None:
        """The client does not want an answer any more."""
        params = message.get("params")
        wanted = params.get("requestId") if isinstance(params, dict) else None
        for number, call in list(self.calls.items()):
            if call.method and type(call.id) is type(wanted) and call.id == wanted and call.method != "initialize":
                self.cancel(number, call)

    def cancel(self, number: int, call: Call) -> None:
        """Nothing of a call is told the client from now on."""
        call.canceled = True
        if call.sent:
            self.host.send(wire.encode({"id": number, "interrupt": True}))
        else:
            del self.calls[number]

    def give(self, line: str, then: Callable[[], None] | None = None) -> None:
        """A line for the client."""
        self.output.append((line.encode("utf-8", "backslashreplace") + b"\n", then))

    def write(self, events: int) -> None:
        """As much as the client takes without making this wait."""
        if events & (select.POLLERR | select.POLLNVAL) or (events & select.POLLHUP and not events & select.POLLOUT):
            raise BrokenPipeError
        data, then = self.output[0]
        left = data[os.write(self.output_fd, data[:PIPE]) :] if data else b""
        if left:
            self.output[0] = (left, then)
            return
        del self.output[0]
        if then is not None:
            then()

    def fail(self, request: Any, number: int, message: str, data: Any = None) -> None:
        """An error of the protocol."""
        error = {"code": number, "message": message} | ({} if data is None else {"data": data})
        self.give(wire.encode({"jsonrpc": "2.0", "id": request, "error": error}))

    def refuse(self, call: Call, error: wire.WireError) -> None:
        """A call cannot be answered: a tool's error that the model reads, or one of the protocol."""
        if call.canceled or not call.method:
            return
        said = {"code": error.code, "message": error.message, "remedy": error.remedy}
        if call.method != "tools/call":
            number = {"invalid": -32600, "unsupported": -32601}.get(error.code, -32603)
            self.fail(call.id, number, f"{error.message} {error.remedy}".strip(), said)
            return
        result: dict[str, Any] = {
            "content": [{"type": "text", "text": wire.printable(f"{error.message}\n→ {error.remedy}")}],
            "structuredContent": {"error": said},
            "isError": True,
        }
        if call.is_modern():
            result["resultType"] = "complete"
        self.give(wire.encode({"jsonrpc": "2.0", "id": call.id, "result": result}))

    # --- the host's side ---

    def needs_host(self) -> bool:
        """Whether the client waits for something."""
        return any(call.patience() for call in self.calls.values())

    def forward(self, number: int) -> None:
        """Send a call, now or when there is a host. What the client was given before counts as seen first: who reads a
        result and then decides on it must find that it was read."""
        call = self.calls[number]
        if self.host.sock is None:
            self.host.seek(start=not call.again or not self.host.lost_at)
            return
        if any(other.answered for other in self.calls.values()):
            return
        call.sent, call.since = True, time.monotonic()
        fields = f'"key":{wire.encode(call.key)},"again":{wire.encode(call.again)}'
        fields += f',"begun_at":{call.begun_at},"channel":{wire.encode(self.channel)},"message":'
        self.host.send(f'{{"id":{number},{self.around},{fields}{wire.quoted(call.text)}}}', call)
        if not self.watch:
            self.renew_watch()

    def renew_watch(self, *, again: bool = False) -> None:
        """Have the host tell changes of what is subscribed to; also the sign that this client is there."""
        old, self.last = self.watch, self.last + 1
        self.watch = self.last
        self.calls[self.watch] = call = Call({})
        call.sent = True
        fields = f'"watch":{wire.encode(sorted(self.subscribed))},"again":{wire.encode(again)}'
        fields += f',"channel":{wire.encode(self.channel)}'
        self.host.send(f'{{"id":{self.watch},{self.around},{fields}}}')
        if old in self.calls:
            self.cancel(old, self.calls[old])

    def connected(self) -> None:
        """A connection was made, or could not be."""
        if self.host.error is not None:
            error, self.host.error = self.host.error, None
            for number, call in list(self.calls.items()):
                if not call.sent and call.method:
                    del self.calls[number]
                    self.refuse(call, error)
            return
        if self.host.sock is None:
            return
        self.watch = 0
        self.renew_watch(again=bool(self.host.lost_at))
        self.host.lost_at = 0.0
        self.forward_rest()

    def forward_rest(self) -> None:
        """Send what still has to be sent, in its order."""
        for number in sorted(self.calls):
            if not self.calls[number].sent:
                self.forward(number)

    def hear(self, message: dict[str, Any]) -> None:
        """One line of the host."""
        number = message.get("id")
        if number is None and "error" in message:
            self.host.stopped = True  # it takes its leave
        call = self.calls.get(number) if isinstance(number, int) else None
        if call is None or number is None:
            return
        if "out" in message:
            self.out(call, str(message["out"]))
        elif message.get("want") == "flush":
            self.give_then(lambda: self.host.send(wire.encode({"id": number, "flushed": True})))
        elif "want" in message or "ask" in message:
            nothing = {"eof": True} if "want" in message else {"reply": None}
            self.host.send(wire.encode({"id": number, **nothing}))
        elif "result" in message or "error" in message:
            self.ended(number, call, message)

    def ended(self, number: int, call: Call, message: dict[str, Any]) -> None:
        """The host is done with a call. One that it breaks off stays: if it stops, the next host gets it."""
        error = wire.refusal(message["error"]) if "error" in message else None
        if error is not None and error.code == "unavailable" and not call.answered and not call.canceled:
            call.broken, call.since = error, time.monotonic()
            return
        del self.calls[number]
        if number == self.watch:
            self.watch = 0
        if error is not None and not call.answered:
            self.refuse(call, error)
        elif isinstance(message.get("result"), str):
            self.out(call, message["result"] + "\n")
        if call.answered:
            self.forward_rest()

    def give_then(self, then: Callable[[], None]) -> None:
        """Do something once everything so far was written."""
        self.output.append((b"", then))

    def out(self, call: Call, text: str) -> None:
        """Output of a call: lines for the client."""
        *lines, rest = text.split("\n")
        for line in lines:
            whole = "".join([*call.parts, line])
            call.parts = []
            if not call.canceled:
                self.note(call, whole)
                self.give(whole)
        if rest:
            call.parts.append(rest)

    def note(self, call: Call, line: str) -> None:
        """What an answer says about the session is kept for the next host."""
        if not line.startswith('{"jsonrpc":"2.0","id":'):
            return
        call.answered = True
        if call.method in ("initialize", "server/discover") and '"claude/channel":' in line and not self.channel:
            self.channel = True
            self.renew_watch()
        if call.method not in ("resources/subscribe", "resources/unsubscribe"):
            return
        uri = call.params().get("uri")
        if "error" in wire.decode(line.encode()) or not isinstance(uri, str):
            return
        before = set(self.subscribed)
        (self.subscribed.add if call.method == "resources/subscribe" else self.subscribed.discard)(uri)
        if self.subscribed != before:
            self.renew_watch()

    # --- a host that went away ---

    def lost(self) -> None:
        """The connection ended: what may be sent again waits for the next host, the rest is told as it is."""
        self.watch = 0
        for call in self.host.unsent_calls():
            call.sent = False
        for number, call in list(self.calls.items()):
            if not call.method or call.canceled or call.answered:
                del self.calls[number]
            elif call.sent and not call.may_repeat():
                del self.calls[number]
                self.refuse(call, unknown(str(call.params().get("name"))))
            else:
                call.again, call.sent, call.broken, call.parts = call.sent or call.again, False, None, []
        if not self.ends_at:
            self.host.look_soon()

    def give_up(self, number: int, call: Call) -> None:
        """The host does not answer."""
        del self.calls[number]
        if call.sent:
            self.host.send(wire.encode({"id": number, "interrupt": True}))
        if call.broken is not None:
            self.refuse(call, call.broken)
        elif call.sent and not call.may_repeat():
            self.refuse(call, unknown(str(call.params().get("name"))))
        else:
            self.refuse(call, wire.WireError("unavailable", "The host does not answer.", "Try again in a moment."))
