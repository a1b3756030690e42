"""How the hub speaks with one connected program, whatever the frames travel over.

The socket's own calls are such lines (`app.calls.Call`); so are a WebSocket, an address that is posted to, and the end
of a link inside a process. May live here: the protocol, and the line over a link inside a process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from tallystick.app.calls import CallerFacts


class Line(Protocol):
    """One program at the other end."""

    @property
    def facts(self) -> CallerFacts:
        """Who it is."""
        ...

    def listen(self, take: Callable[[Any], None]) -> None:
        """Its frames go to `take`, in order. It must not wait, and raises nothing."""
        ...

    def hold(self, is_held: bool) -> None:
        """Take nothing more of it for now (back-pressure), or take it again."""
        ...

    async def frame(self, frame: Any) -> None:
        """Send one frame; waits while the other end does not read. Raises `ConnectionError` where it left."""
        ...

    async def interrupted(self) -> None:
        """Returns when it left."""
        ...


class Link(Protocol):
    """The end of a link as a program holds it: frames are plain values."""

    async def send(self, frame: dict[str, Any]) -> None:
        """Hand over one frame; waits while the other end does not read. Raises where it is gone."""
        ...

    async def receive(self) -> dict[str, Any]:
        """The next frame; waits for it. Raises where the other end is gone."""
        ...

    def close(self) -> None:
        """End it, now."""
        ...


class LinkLine:
    """A line over a link inside this process. `facts` are those of the process itself."""

    def __init__(self, link: Link, facts: CallerFacts) -> None:
        self.facts = facts
        self._link = link
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._reading: asyncio.Task[None] | None = None
        self._gone = asyncio.Event()

    def listen(self, take: Callable[[Any], None]) -> None:
        """See `Line`."""
        self._reading = asyncio.get_running_loop().create_task(self._read(take))

    async def _read(self, take: Callable[[Any], None]) -> None:
        try:
            while True:
                await self._may_read.wait()
                take(await self._link.receive())
        except Exception:  # noqa: BLE001 - whatever a link raises at its end, it is the end
            self._gone.set()

    def hold(self, is_held: bool) -> None:
        """See `Line`."""
        (self._may_read.clear if is_held else self._may_read.set)()

    async def frame(self, frame: Any) -> None:
        """See `Line`."""
        try:
            await self._link.send(msgspec.json.decode(msgspec.json.encode(frame)))
        except Exception as error:  # noqa: BLE001 - whatever a link raises at its end, it is the end
            self._gone.set()
            raise ConnectionError(str(error)) from None

    async def interrupted(self) -> None:
        """See `Line`."""
        await self._gone.wait()

    def close(self) -> None:
        """End it."""
        if self._reading is not None:
            self._reading.cancel()
        self._link.close()
        self._gone.set()
