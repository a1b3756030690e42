"""What has happened outside is recorded in the end: it cannot be refused into not having happened."""

from __future__ import annotations

import asyncio
from typing import Any

from tallystick.app.execute import Executor, Outcome
from tallystick.core import commands as cmd
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.identity import Actor

_AGAIN_SECONDS = 1.0


async def until_recorded(executor: Executor, command: cmd.Command, actor: Actor, **where: Any) -> Outcome:
    """Record what has happened; while nothing can be recorded (a full disk), again and again. Every other refusal is
    passed on. `where`: workspace, trace and cause, as `Executor.execute` takes them."""
    while True:
        try:
            return await executor.execute(command, actor, **where)
        except Refused as refusal:
            if refusal.code is not ErrorCode.UNAVAILABLE:
                raise
        await asyncio.sleep(_AGAIN_SECONDS)
