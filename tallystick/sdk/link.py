"""What frames travel over: the protocol that all four transports keep, and the one inside a process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

import msgspec

from tallystick.sdk.frames import Frame

_LOOK: Final = "Look at `tally status`."
NOT_HEARD: Final = (
    "Look at `tally status` on the machine of the host: a host listens only where it was started with "
    "`tally up --listen ADDRESS:PORT`, or where `listen` stands in its config.toml."
)
"""The next step where nobody answers at a `hub_url`."""


class LinkLost(Exception):
    """The link is gone. What was sent last may have arrived or not.

    `is_stopped`: the host said that it stops, so nobody should start it again on its own account. `remedy`: the next
    step of whoever waited for this link."""

    def __init__(self, why: str = "closed", *, is_stopped: bool = False, remedy: str = _LOOK) -> None:
        super().__init__(why)
        self.is_stopped = is_stopped
        self.remedy = remedy


class Link(Protocol):
    """One connection between two sides, for frames in order. Neither side may use it after it raised `LinkLost`."""

    async def send(self, frame: Frame) -> None:
        """Hand over one frame; returns when the other side may be given more. Raises `LinkLost`."""
        ...

    async def receive(self) -> Frame:
        """The next frame; waits for it. Raises `LinkLost` once the other side is gone."""
        ...

    def close(self) -> None:
        """End it, now. May be called twice."""
        ...


Dial: TypeAlias = Callable[[bool], Awaitable[Link]]
"""Opens a link; told whether it may start a host that is not there. Raises `LinkLost` where nobody answers (it may be
tried again), `ReachError` for a refusal."""


class _Way:
    """Frames in one direction."""

    def __init__(self, bound: int) -> None:
        self.frames: deque[bytes] = deque()
        self.bound = bound
        self.is_lost = False
        self._changed = asyncio.Event()

    def tell(self) -> None:
        """Something changed here: all who wait look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self) -> None:
        """Wait for that."""
        await self._changed.wait()


class MemoryLink:
    """One end of a link inside a process. Frames go through JSON, so that nothing passes which a wire would not."""

    def __init__(self, out: _Way, back: _Way) -> None:
        self._out, self._back = out, back

    @classmethod
    def pair(cls, bound: int = 1000) -> tuple[MemoryLink, MemoryLink]:
        """Two ends that face each other; `bound` is how many frames may be on their way in each direction."""
        one, two = _Way(bound), _Way(bound)
        return cls(one, two), cls(two, one)

    async def send(self, frame: Frame) -> None:
        """See `Link`."""
        line = msgspec.json.encode(frame)
        while len(self._out.frames) >= self._out.bound and not self._out.is_lost:
            await self._out.change()
        if self._out.is_lost:
            raise LinkLost
        self._out.frames.append(line)
        self._out.tell()

    async def receive(self) -> Frame:
        """See `Link`."""
        while not self._back.frames:
            if self._back.is_lost:
                raise LinkLost
            await self._back.change()
        found: Frame = msgspec.json.decode(self._back.frames.popleft())
        self._back.tell()
        return found

    def close(self) -> None:
        """See `Link`. What is on its way can still be read."""
        for way in (self._out, self._back):
            way.is_lost = True
            way.tell()
