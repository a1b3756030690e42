"""Waiting for something while the client may be interrupted, go away, or have given a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from tallystick.app.calls import Call

T = TypeVar("T")


class Interrupted(Exception):
    """The client was interrupted or went away while something was waited for. What it asked for goes on."""


async def wait_for(call: Call, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
    """The result of `work`; `Interrupted` where the client leaves first, `TimeoutError` after that many seconds."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(call.interrupted())
    try:
        await asyncio.wait({task, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Interrupted if gone.done() else TimeoutError
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


@asynccontextmanager
async def closing(items: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """A stream that is closed when it is left early, so that the desk stops feeding it at once."""
    try:
        yield items
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()
