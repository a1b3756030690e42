"""Outcomes that a program has in its hands are no news in anybody's inbox: noted in batches, not one event each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tallystick.app.desk.interface import Desk, Guest
from tallystick.core.errors import Refused

BATCH_SECONDS: Final = 1.0
BATCH: Final = 500
"""Outcomes of one event."""

Outcome = tuple[str, int]
"""A task, and its version when it ended."""


class Seen:
    """What programs acknowledged since the last event about it, by who asked. What a crash loses stays a notice."""

    def __init__(self, desk: Desk, failed: Callable[[Exception], object]) -> None:
        self._desk = desk
        self._failed = failed
        self._by: dict[str, tuple[Guest, list[Outcome]]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, guest: Guest, outcomes: list[Outcome]) -> None:
        """A program has these."""
        self._by.setdefault(guest.actor.id, (guest, []))[1].extend(outcomes)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._later())

    async def stop(self) -> None:
        """Record what is left."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._record()

    async def _later(self) -> None:
        while self._by:
            await asyncio.sleep(BATCH_SECONDS)
            await self._record()

    async def _record(self) -> None:
        by, self._by = self._by, {}
        for guest, outcomes in by.values():
            for start in range(0, len(outcomes), BATCH):
                try:
                    with suppress(Refused):  # then they stay notices, which is no loss
                        await self._desk.saw_outcomes(guest, tuple(outcomes[start : start + BATCH]))
                except Exception as error:  # noqa: BLE001 - the next batch is not lost with this one
                    self._failed(error)
