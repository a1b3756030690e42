"""Tells whoever waits that something was committed. Carries no data: they look at the source again."""

from __future__ import annotations

import asyncio


class Feed:
    """Waking by stream and in general. Only after a commit, only on the host's loop."""

    def __init__(self) -> None:
        self.position = 0
        self._by_stream: dict[str, set[asyncio.Future[None]]] = {}
        self._all: set[asyncio.Future[None]] = set()

    def committed(self, position: int, streams: set[str]) -> None:
        """Wake those who wait for these streams."""
        self.position = position
        waiters = self._all
        self._all = set()
        for stream in streams & self._by_stream.keys():
            waiters |= self._by_stream.pop(stream)
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def next_of(self, stream: str) -> asyncio.Future[None]:
        """Done at the next commit to that stream. Take it before you look, then wait."""
        return self._add(self._by_stream.setdefault(stream, set()))

    def next(self) -> asyncio.Future[None]:
        """Done at the next commit."""
        return self._add(self._all)

    def _add(self, waiters: set[asyncio.Future[None]]) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.add(future)
        future.add_done_callback(waiters.discard)
        return future
