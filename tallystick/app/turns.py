"""What the hooks of clients tell of turns: who is in one, who waits to be woken. In memory only: a session that is not
heard of is taken for idle, and whatever waited has to come again.

A waiting hook ("armed") carries one message: it is answered once, and its client starts it anew at the end of a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tallystick.core.directory import Directory


class Turns:
    """Turns and waiting hooks by session."""

    def __init__(self, directory: Callable[[], Directory]) -> None:
        self._directory = directory
        self._running: set[str] = set()
        self._planning: set[str] = set()
        self._armed: dict[str, asyncio.Future[str]] = {}
        self._ends: dict[str, list[asyncio.Future[None]]] = {}
        self.changed: Callable[[str], None] = lambda _session: None
        """Told of every session whose turn began or ended, or that can or cannot be woken any more."""

    def began(self, session: str) -> None:
        """A turn of that session has begun."""
        self._running.add(session)
        self.changed(session)

    def ended(self, session: str) -> None:
        """The turn of that session is over."""
        self._running.discard(session)
        for waiting in self._ends.pop(session, []):
            if not waiting.done():
                waiting.set_result(None)
        self.changed(session)

    def is_running(self, session: str) -> bool:
        """Whether it is in a turn, as far as was told."""
        return session in self._running

    def plans(self, session: str, *, now: bool) -> None:
        """Whether its person plans there: nothing is started meanwhile."""
        if now:
            self._planning.add(session)
        else:
            self._planning.discard(session)

    def is_planning(self, session: str) -> bool:
        """Whether its person plans there, as far as was told."""
        return session in self._planning

    def is_armed(self, session: str) -> bool:
        """Whether a hook of it waits to be answered."""
        return session in self._armed

    def forget(self, session: str) -> None:
        """The session is over: nobody waits in it any more."""
        self._running.discard(session)
        self._planning.discard(session)
        armed = self._armed.pop(session, None)
        if armed is not None and not armed.done():
            armed.set_result("")
        for waiting in self._ends.pop(session, []):
            waiting.cancel()

    def next_end(self, session: str) -> asyncio.Future[None]:
        """Done when the next turn of that session ends; cancelled when the session does. Take it before you wake."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends.setdefault(session, []).append(future)
        future.add_done_callback(lambda _: self._drop(session, future))
        return future

    def _drop(self, session: str, future: asyncio.Future[None]) -> None:
        left = [waiting for waiting in self._ends.get(session, []) if waiting is not future]
        if left:
            self._ends[session] = left
        else:
            self._ends.pop(session, None)

    async def wait(self, session: str, seconds: float, gone: Callable[[], Awaitable[None]]) -> str:
        """A hook waits: the text to wake its session with, or nothing once its time is over, it went away (`gone`
        returns), another hook of the same session came, or the session ended."""
        earlier = self._armed.pop(session, None)
        if earlier is not None and not earlier.done():
            earlier.set_result("")
        mine: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._armed[session] = mine
        self.changed(session)
        leaving: asyncio.Future[None] = asyncio.ensure_future(gone())
        try:
            either: set[asyncio.Future[Any]] = {mine, leaving}
            await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return mine.result() if mine.done() else ""
        finally:
            leaving.cancel()
            mine.cancel()
            if self._armed.get(session) is mine:
                del self._armed[session]
                known = self._directory().sessions.get(session)
                if known is not None and not known.ended:
                    self.changed(session)

    def hand(self, session: str, text: str) -> bool:
        """Answer the hook that waits; False if none does. Whether its client honours the answer is another question."""
        armed = self._armed.pop(session, None)
        if armed is None or armed.done():
            return False
        armed.set_result(text)
        return True
