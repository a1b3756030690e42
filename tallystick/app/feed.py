"""Tells whoever waits that something was committed. Carries no data: they look at the source again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping


class Feed:
    """Waking by stream and in general. Only after a commit, only on the host's loop."""

    def __init__(self) -> None:
        self.position = 0
        self._by_stream: dict[str, dict[asyncio.Future[None], int]] = {}
        self._all: set[asyncio.Future[None]] = set()

    def committed(self, position: int, versions: Mapping[str, int]) -> None:
        """Wake those who wait for these streams, which have these versions now."""
        self.position = position
        waiters, self._all = self._all, set()
        for stream in versions.keys() & self._by_stream.keys():
            version = versions[stream]
            waiters.update([waiter for waiter, beyond in self._by_stream[stream].items() if version > beyond])
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def next_of(self, stream: str, beyond: int = 0) -> asyncio.Future[None]:
        """Done at the next commit to that stream, or when its version is beyond. Take it before you look, then wait."""
        waiters = self._by_stream.setdefault(stream, {})
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters[future] = beyond

        def leave(_: asyncio.Future[None]) -> None:
            del waiters[future]
            if not waiters and self._by_stream.get(stream) is waiters:
                del self._by_stream[stream]

        future.add_done_callback(leave)
        return future

    def next(self) -> asyncio.Future[None]:
        """Done at the next commit."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._all.add(future)
        future.add_done_callback(self._all.discard)
        return future
