"""The connection to the host, and the making of it: the one thing that may take long, so a thread does it."""

from __future__ import annotations

import _thread
import os
import select
import time

from tallystick import wire
from tallystick._mcp.lines import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tallystick._mcp.call import Call

RETURN = 5.0
"""Seconds that a host has to come back by itself before this starts another for calls that wait."""
PAUSE = 0.25
"""Between two looks for a host that went away just now."""
LONG_PAUSE = 5.0
"""Between two looks for one that has been away for longer."""


class Host:
    """The connection to the host, and the making of it."""

    def __init__(self) -> None:
        self.sock: Any = None
        self.queue: list[tuple[bytes, Call | None]] = []
        """What is still to be sent, and for which call."""
        self.error: wire.WireError | None = None
        self.look_at = 0.0
        """When to look for a host again."""
        self.lost_at = 0.0
        """When the last one went away; 0 while there is one."""
        self.stopped = False
        """Whether it stopped in order: then nobody wants another one started."""
        self.news, self._tell = os.pipe()
        self._seeking = False
        self._start = False
        self._made: Any = None
        self._lines = Lines(wire.ANSWER_BYTES)

    def seek(self, *, start: bool) -> None:
        """Connect in a thread, starting a host if wanted; `news` tells when it has come to an end."""
        self.look_at = 0.0
        self._start = self._start or start
        if not self._seeking and self.sock is None:
            self._seeking = True
            _thread.start_new_thread(self._connect, (self._start,))
            self._start = False

    def _connect(self, start: bool) -> None:
        try:
            self._made = wire.connect(start=start, client="mcp")
        except wire.WireError as error:
            self._made = error
        except BaseException as error:  # noqa: BLE001 - a thread has nobody to tell but the loop
            self._made = wire.WireError("internal", f"The host could not be reached: {error}.", "Run `tally doctor`.")
        os.write(self._tell, b".")

    def news_came(self) -> None:
        """What came of seeking."""
        os.read(self.news, 1)
        self._seeking = False
        made, self._made = self._made, None
        if isinstance(made, wire.WireError):
            self._failed(made)
            return
        self.sock, self.queue, self._lines = made.sock, [], Lines(wire.ANSWER_BYTES)
        self.sock.setblocking(False)
        self.stopped = False

    def _failed(self, error: wire.WireError) -> None:
        if self._start:  # meanwhile somebody wants one that is started
            self.seek(start=True)
            return
        away = time.monotonic() - self.lost_at if self.lost_at else 0.0
        if self.lost_at:
            self.look_at = time.monotonic() + (PAUSE if away < 2 * RETURN else LONG_PAUSE)
        if not self.lost_at or away >= (RETURN if self.stopped else 2 * RETURN):
            self.error = error

    def send(self, line: str, call: Call | None = None) -> None:
        """Queue one line, for a call."""
        if self.sock is not None:
            self.queue.append((line.encode("utf-8") + b"\n", call))

    def unsent_calls(self) -> list[Call]:
        """The calls that the last host has not had whole: it cannot have done any of them."""
        return [call for _, call in self.queue if call is not None]

    def exchange(self, events: int) -> list[dict[str, Any]]:
        """Send what can be sent, receive what is there. Without a socket afterwards: the connection is lost."""
        try:
            if events & select.POLLOUT and self.queue:
                self._send()
            if not events & ~select.POLLOUT:
                return []
            data = self.sock.recv(262144)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            data = b""
        if not data:
            self.close()
            return []
        return [wire.decode(line) for line in self._lines.feed(data) if line]

    def _send(self) -> None:
        data, call = self.queue[0]
        left = data[self.sock.send(data) :]
        if left:
            self.queue[0] = (left, call)
        else:
            del self.queue[0]

    def close(self) -> None:
        """The connection is over."""
        self.sock.close()
        self.sock = None
        self.lost_at = time.monotonic()

    def look_soon(self) -> None:
        """Look for the next host in a moment."""
        self.look_at = time.monotonic() + PAUSE
