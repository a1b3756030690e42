"""What a message rests on, as its handler gets it: named, and read when it is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeAlias

from tallystick.sdk.errors import ReachRefused
from tallystick.sdk.frames import Referred

Fetch: TypeAlias = Callable[["Reference"], Awaitable[bytes]]
"""Reads one through the host, and verifies it."""


class Reference(str):
    """A reference of a message: its text, which may be sent on with another message, and what the host knows of it.

    - `kind`: `git` (a file, lines of one, or a commit's list of files), `blob` (bytes that the host keeps), or
      `external`: outside, neither read nor checked by the host.
    - `name`: the path or file name that it had; empty for a commit and for what is outside.
    - `sha256`, `size` (bytes): of its content when it was sent; empty and None where nobody looked (`external`), and
      `size` also for lines.
    - `place`: which of the references of the message it is, from 0.

    Spokes alone make them.
    """

    __slots__ = ("_fetch", "_loop", "kind", "name", "place", "sha256", "size")

    kind: str
    name: str
    sha256: str
    size: int | None
    place: int
    _fetch: Fetch
    _loop: asyncio.AbstractEventLoop

    def __new__(cls, told: Referred, place: int, fetch: Fetch) -> Self:
        """From what SAIL says of it, on the loop of the spoke."""
        found = super().__new__(cls, told.text)
        found.kind, found.name, found.sha256, found.size = told.kind, told.name, told.sha256, told.size
        found.place = place
        found._fetch, found._loop = fetch, asyncio.get_running_loop()
        return found

    async def resolve(self) -> bytes:
        """Its content as it was when the message was sent, read through the host while the message is in hand; size and
        digest are compared here once more. Raises `ReachRefused`: `unsupported` for what is outside, `conflict` where
        the content is another, `not_found` where it is gone or the message is not in hand any more, `invalid` where it
        is larger than the host hands out, `unavailable` where the host's copy is damaged or nobody answers for two
        minutes."""
        if self.kind == "external":
            raise ReachRefused(
                "unsupported",
                f"{self[:200]!r} is outside: the host neither keeps nor checks it.",
                "Read it yourself, and trust it as far as you trust that place.",
            )
        return await self._fetch(self)

    def read(self) -> bytes:
        """`resolve` for a handler that runs in a thread: the same, without `await`."""
        return asyncio.run_coroutine_threadsafe(self.resolve(), self._loop).result()


def as_text(value: Any) -> str:
    """A reference that came with one message goes on in another, or in a result, as its text. For `enc_hook`."""
    if isinstance(value, Reference):
        return str(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
