"""`POST /reach/v1/frames`: one frame of a spoke that is posted to. Its token was looked at by the door."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from tallystick.app.calls import CallerFacts
from tallystick.core.errors import Refused, invalid, unsupported
from tallystick.edge.spoke import frames as f
from tallystick.edge.spoke.callback import CallbackLine, Poster
from tallystick.edge.spoke.errors import refusal
from tallystick.edge.spoke.hub import Hub
from tallystick.edge.spoke.reading import FrameRefused, read

Parse = Callable[[bytes, str], dict[str, Any]]
_encode = msgspec.json.Encoder().encode
_JSON: Final = (b"content-type", b"application/json")


class PostedFrames:
    """What is mounted at `/reach/v1/frames`. See `app.calls.Mounted`. A service: it closes what it posts with."""

    def __init__(self, hub: Hub, poster: Poster, parse: Parse, body_bytes: int) -> None:
        self._hub = hub
        self._poster = poster
        self._parse = parse
        self._body_bytes = body_bytes
        self._lines: dict[str, CallbackLine] = {}
        """By spoke."""
        self._visits: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Nothing to begin: spokes come by themselves."""

    async def stop(self) -> None:
        """Post nothing more."""
        for line in self._lines.values():
            line.leave()
        if self._visits:
            await asyncio.wait(self._visits)
        await self._poster.close()

    async def __call__(
        self, facts: CallerFacts, as_name: str, workspace: str, scope: Any, receive: Any, send: Any
    ) -> None:
        """One frame, and in the response what answers it; 202 where nothing does."""
        message = self._parse(await self._body(scope, receive), "frame")
        answer = await self._answer(message, facts, as_name, workspace)
        body = _encode(answer) if answer is not None else b""
        status = 200 if answer is not None else 202
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": status, "headers": [_JSON, length]})
        await send({"type": "http.response.body", "body": body})

    async def _body(self, scope: Any, receive: Any) -> bytes:
        if scope["method"] != "POST":
            raise invalid("This path takes frames by POST.", "Post one frame as JSON.")
        body = bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > self._body_bytes:
                raise invalid(f"The frame is longer than {self._body_bytes} bytes.", "Refer to a file instead.")
            if message["type"] != "http.request" or not message.get("more_body"):
                return bytes(body)

    async def _answer(self, message: dict[str, Any], facts: CallerFacts, as_name: str, workspace: str) -> Any:
        try:
            frame = read(message)
            line = await self._line(frame, facts, as_name, workspace)
        except FrameRefused as refused:
            return f.frame("FAIL", refused.msg_id, refusal(refused, refused.of, refused.delivery))
        except Refused as refused:
            header = message["header"]
            return f.frame("FAIL", header["msg_id"], refusal(refused, header["msg_type"]))
        answer = await line.ask(message)
        if isinstance(frame.body, f.Anchor):
            self._keep(frame.body.spoke_id, line, answer)
        return answer

    async def _line(self, frame: f.Frame, facts: CallerFacts, as_name: str, workspace: str) -> CallbackLine:
        """The line of the spoke that posts, or a new one where it registers."""
        body = frame.body
        if not isinstance(body, f.Anchor):
            bound = as_name if facts.domains is not None else ""
            line = self._lines.get(bound or frame.header.source_spoke)
            if line is None:
                raise unsupported(
                    "Only spokes that registered an endpoint post their frames here.",
                    "Send ANCHOR with an `endpoint` first, or open a WebSocket at /reach/v1.",
                )
            return line
        if not body.endpoint:
            raise invalid("An ANCHOR that is posted must name an `endpoint`.", "Say where frames are posted to.")
        self._poster.check_installed()
        await self._poster.guard.target(body.endpoint)
        before = self._lines.get(body.spoke_id)
        if before is not None and before.url == body.endpoint:
            before.leave()  # who listens there now is who registers
            await before.left.wait()
        line = CallbackLine(facts, self._poster, body.endpoint)
        visit = asyncio.get_running_loop().create_task(self._serve(line, as_name, workspace))
        self._visits.add(visit)
        visit.add_done_callback(self._visits.discard)
        await line.listens.wait()
        return line

    async def _serve(self, line: CallbackLine, as_name: str, workspace: str) -> None:
        try:
            await self._hub.serve(line, as_name, workspace, secret=line.secret)
        finally:
            line.left.set()

    def _keep(self, name: str, line: CallbackLine, answer: Any) -> None:
        """A spoke that was registered posts over this line from now on; one that was not leaves nothing behind."""
        if answer is not None and answer.header.msg_type == "ACK":
            self._lines[name] = line
        else:
            line.leave()
