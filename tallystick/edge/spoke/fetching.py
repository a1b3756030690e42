"""What a message rests on: named to its spoke, and read for it while the message is in its hands.

The desk reads and verifies; here content is cut into parts that fit a frame. Between two parts it is kept, so that a
large one is read once. One is read at a time, so that memory stays bounded whatever spokes ask for.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from tallystick.core.errors import invalid
from tallystick.core.model import BlobReference, ExternalReference, Reference, as_typed
from tallystick.edge.spoke import frames as f

if TYPE_CHECKING:
    from tallystick.app.desk.interface import Desk
    from tallystick.edge.spoke.visit import Visit

KEPT: Final = 4
"""Contents that are kept between two of their parts."""


class Contents:
    """Reads references through the desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._kept: OrderedDict[tuple[str, int], tuple[bytes, str]] = OrderedDict()
        self._turn = asyncio.Lock()

    async def part(self, session: str, task_id: str, asked: f.Fetch) -> f.Ack:
        """One part of a reference of a task that the session holds."""
        key = asked.delivery, asked.index
        async with self._turn:
            kept = self._kept.pop(key, None)
            if kept is None:
                whole = await self._desk.fetch_held(session, task_id, asked.index)
                kept = whole, await asyncio.to_thread(_sha256, whole)
            whole, digest = kept
            if asked.offset > len(whole):
                raise invalid(f"It has {len(whole)} bytes, and nothing at {asked.offset}.", "Begin at 0.")
            end = asked.offset + f.PART_BYTES
            if end < len(whole):
                self._keep(key, kept)
        part = whole[asked.offset : end]
        return f.Ack(
            of="FETCH", delivery=asked.delivery, bytes=part, size=len(whole), sha256=digest, more=end < len(whole)
        )

    def _keep(self, key: tuple[str, int], content: tuple[bytes, str]) -> None:
        self._kept[key] = content
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def forget(self, delivery: str) -> None:
        """It is over: nothing of it is asked for any more."""
        for key in [key for key in self._kept if key[0] == delivery]:
            del self._kept[key]


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def fetch(visit: Visit, frame: f.Frame) -> f.Ack:
    """FETCH: a part of what a message in hand rests on."""
    body = frame.body
    assert isinstance(body, f.Fetch)  # noqa: S101 - the table of frames says so
    session = visit.moored().session
    task_id = await visit.hub.held(session, body.delivery)
    return await visit.hub.contents.part(session, task_id, body)


def referred(found: Reference) -> f.Referred:
    """A reference as its spoke is told of it."""
    text = as_typed(found)
    if isinstance(found, ExternalReference):
        return f.Referred(kind="external", text=text)
    if isinstance(found, BlobReference):
        return f.Referred(kind="blob", text=text, name=found.name, sha256=found.sha256, size=found.size)
    if found.lines is not None:
        return f.Referred(kind="git", text=text, name=found.path, sha256=found.lines_sha256)
    return f.Referred(kind="git", text=text, name=found.path, sha256=found.sha256, size=found.size)
