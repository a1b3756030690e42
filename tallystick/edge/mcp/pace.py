"""Looking again after events, but not after each of many: the first is seen at once, what follows is collected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from tallystick.app.desk.interface import Desk, Guest

SECONDS: Final = 0.2
"""Between two looks, at least: an inbox of hundreds is not folded anew for every event of a busy host."""


async def moments(desk: Desk, guest: Guest, after: int) -> AsyncIterator[None]:
    """When something has happened since a position of the log; whoever is told looks at the newest state."""
    clock = asyncio.get_running_loop().time
    last = clock() - SECONDS
    async for line in desk.feed(guest, after=after):
        if not line.task_id:
            continue
        await asyncio.sleep(max(0.0, last + SECONDS - clock()))
        last = clock()
        yield
