"""The link to the host of this machine: one long call `reach` over its Unix socket, frames in both directions."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import Any, cast

import msgspec

from tallystick import wire
from tallystick.sdk.errors import ReachError, reach_error
from tallystick.sdk.frames import Frame
from tallystick.sdk.link import Dial, Link, LinkLost

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode

_CALL = 1
"""The number of the one call on this connection."""

_PIECE = 65536
"""So many bytes wait at most for the end of a turn of the loop."""


def unix_dial(sender: str = "", workspace: str = "") -> Dial:
    """Opens links to the local host, and starts one where there is none (unless this is a session that a host made).

    `sender` is who speaks (empty: whom the environment names, else the person), `workspace` the place (empty: that of
    the working directory)."""

    async def dial(may_start: bool) -> Link:
        sock = await _connected(may_start)
        loop = asyncio.get_running_loop()
        _, lines = await loop.create_unix_connection(lambda: UnixLink(sender, workspace), sock=sock)
        return lines

    return dial


async def _connected(may_start: bool) -> socket.socket:
    """A connection whose handshake is done. It waits in a thread: the loop goes on while a host starts."""
    asking = asyncio.get_running_loop().run_in_executor(None, _connect, may_start)
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError:
        asking.add_done_callback(_close_unused)
        raise
    except wire.Unreachable as error:
        raise LinkLost(str(error)) from None
    except wire.WireError as error:
        if error.code == "unavailable":
            raise LinkLost(str(error)) from None
        raise reach_error(error.code, error.message, error.remedy) from None


def _connect(may_start: bool) -> socket.socket:
    connection = wire.connect(start=may_start, client="sdk")
    sock = socket.socket(fileno=connection.sock.detach())
    sock.setblocking(False)
    return sock


def _close_unused(asking: asyncio.Future[socket.socket]) -> None:
    if not asking.cancelled() and asking.exception() is None:
        asking.result().close()


class UnixLink(asyncio.Protocol):
    """Implements `Link`. Callbacks, no streams: every message of a spoke passes here several times."""

    def __init__(self, sender: str, workspace: str) -> None:
        self._opening = {
            "id": _CALL,
            "op": "reach",
            "as": sender,
            "cwd": wire.directory(),
            "env": wire.caller_environment(),
            "workspace": workspace,
        }
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._together = bytearray()
        """What is sent at the end of this turn of the loop, in one piece."""
        self._frames: deque[Frame] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._can_write: asyncio.Future[None] | None = None
        self._end: Exception | None = None

    # --- the transport's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the call at once."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(_encode(self._opening) + b"\n")

    def data_received(self, data: bytes) -> None:
        """Whole lines are read, the rest waits for the next bytes."""
        *lines, self._rest = (self._rest + data).split(b"\n") if self._rest else data.split(b"\n")
        for line in lines:
            self._hear(line)
        if len(self._rest) > wire.ANSWER_BYTES:
            self._lose(LinkLost("The host sent a line that does not end."))
        _release(self._reader)

    def connection_lost(self, exc: Exception | None) -> None:
        """The host is gone, or we closed."""
        self._lose(LinkLost(str(exc or "The host closed the connection.")))

    def pause_writing(self) -> None:
        """The host does not read."""
        self._can_write = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """It reads again."""
        waiting, self._can_write = self._can_write, None
        _release(waiting)

    def _hear(self, line: bytes) -> None:
        try:
            message = _decode(line)
        except (msgspec.MsgspecError, RecursionError):
            self._lose(LinkLost("The host sent a line that is no JSON object."))
            return
        found = message.get("frame")
        if isinstance(found, dict):
            self._frames.append(found)
        elif "error" in message:
            self._lose(_refusal(message["error"]))
        elif "result" in message:
            self._lose(LinkLost("The host ended the call.", is_stopped=True))  # in order: it stops, or we came twice

    def _lose(self, why: Exception) -> None:
        self._end = self._end or why
        if self._transport:
            self._write()
            self._transport.close()
        self.resume_writing()
        _release(self._reader)

    # --- Link ---

    async def send(self, frame: Frame) -> None:
        """See `Link`."""
        if self._end or self._transport is None:
            raise LinkLost(str(self._end or "closed"))
        if not self._together:
            asyncio.get_running_loop().call_soon(self._write)
        self._together += b'{"id":1,"frame":' + _encode(frame) + b"}\n"
        if len(self._together) >= _PIECE:
            self._write()
        while self._can_write:
            await asyncio.shield(self._can_write)

    def _write(self) -> None:
        if self._together and self._transport:
            self._transport.write(bytes(self._together))
        self._together.clear()

    async def receive(self) -> Frame:
        """See `Link`. Raises `ReachError` where the host refused the call itself."""
        while not self._frames:
            if self._end:
                raise self._end
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return self._frames.popleft()

    def close(self) -> None:
        """See `Link`."""
        self._lose(LinkLost("closed"))


def _release(waiting: asyncio.Future[None] | None) -> None:
    if waiting and not waiting.done():
        waiting.set_result(None)


def _refusal(error: Any) -> ReachError | LinkLost:
    told = wire.refusal(error)
    if told.code == "unavailable":
        return LinkLost(str(told), is_stopped=True)
    return reach_error(told.code, told.message, told.remedy)
