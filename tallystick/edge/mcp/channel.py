"""`notifications/claude/channel`: an experiment of one client, told in the middle of its work that something waits.

An accelerator and never the only path: what it says is in the inbox, where every client finds it at its next pause. It
is sent where the client asks for it, by its capabilities or by `tally mcp --channel`, and says only that something is
there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from tallystick.app.desk.interface import Desk, Guest
from tallystick.edge.mcp.pace import moments

NAME: Final = "claude/channel"
"""Under which it stands among the experimental capabilities."""

BATCH_SECONDS: Final = 2.0
"""How long what comes together is collected."""

INSTRUCTION: Final = """

A <channel source="tallystick"> message says only that something new waits: at the next good moment call inbox."""
"""What the instructions say besides, where the channel is used."""


def is_wanted(capabilities: Any) -> bool:
    """Whether a client's capabilities name the channel."""
    theirs = capabilities.get("experimental") if isinstance(capabilities, Mapping) else None
    return isinstance(theirs, Mapping) and NAME in theirs


async def notices(desk: Desk, guest: Guest, position: int) -> AsyncIterator[dict[str, Any]]:
    """One notification each time there is more that is new than before."""
    before = await _new(desk, guest)
    async for _ in moments(desk, guest, position):
        count = await _new(desk, guest)
        if count > before:
            await asyncio.sleep(BATCH_SECONDS)
            count = await _new(desk, guest)
            if count > before:
                yield _notification(count)
        before = count


async def _new(desk: Desk, guest: Guest) -> int:
    found = await desk.inbox(guest)
    return sum(item.new for item in (*found.turns, *found.notices))


def _notification(count: int) -> dict[str, Any]:
    params = {"content": f"{count} new in your Tallystick inbox. Call the tool inbox.", "meta": {"new": str(count)}}
    return {"jsonrpc": "2.0", "method": "notifications/claude/channel", "params": params}
