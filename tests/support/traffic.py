"""Many messages through a hub on a real log in a file, while days go by on its clock."""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import apsw

from tallystick.app.ports import Began, Envelope, Receipt
from tallystick.core.offers import Offer
from tallystick.store.sqlite import SqliteStore
from tests.support.hub import FakeSpokes, Hub

CALLERS = 256
HOUR = 3600.0
AN_HOUR = 2000
"""Messages."""
PAYLOAD = '{"body":"' + "x" * 200 + '"}'


class Unsynced(apsw.VFS):
    """The usual VFS; nothing is made durable, because what is measured here is not on the disk."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "", exclude={"xSetSystemCall", "xGetSystemCall", "xNextSystemCall"})

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _File(name, flags)


class _File(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:
        pass


class Forgetful(FakeSpokes):
    """A spoke that answers, and remembers nothing of it."""

    async def send(self, envelope: Envelope, began: Began) -> Receipt:
        return await self.done(envelope, began)

    async def settled(self, delivery_id: str) -> None:
        pass


class Traffic(Hub):
    """`async with Traffic(folder) as traffic`: a hub with four spokes that share the work."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.vfs = Unsynced("unsynced")
        super().__init__(folder, SqliteStore.open(folder / "tally.db", vfs="unsynced"), **limits)
        self.spokes.__class__ = Forgetful

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        for name in ("one", "two", "three", "four"):
            await self.spoke(name, Offer("Count", concurrency=CALLERS // 4))
        return self

    async def __aexit__(self, *given: object) -> None:
        await super().__aexit__(*given)
        await self.store.close()
        self.vfs.unregister()

    async def messages(self, count: int) -> None:
        """So many, by callers that each wait for the answer before they send the next; an hour goes by now and then."""
        for done in range(0, count, AN_HOUR):
            left = iter(range(min(AN_HOUR, count - done)))
            await asyncio.gather(*(self._caller(left) for _ in range(CALLERS)))
            await self.pass_time(HOUR)
            for session in self.spokes.session_of.values():
                self.presence.heard(session)

    async def _caller(self, left: Iterator[int]) -> None:
        for _ in left:
            told = await self.reaches_(payload=PAYLOAD)
            assert told.what == "result"

    def left(self) -> int:
        """What is still in hand or waits."""
        return self.routing.waiting("Count") + sum(self.routing._running.values()) + len(self.heads.pending)


def memory() -> float:
    """The most MB that this process ever held; the kernel's number, so nothing escapes it."""
    gc.collect()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1000)
