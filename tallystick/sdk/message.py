"""What a handler is given."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tallystick.sdk.context import GivenSlice
from tallystick.sdk.errors import invalid
from tallystick.sdk.frames import Header, Sail

_TEXT = 2000

Tell = Callable[[str, float | None], Awaitable[None]]
"""Sends a note of progress."""


class ReachMessage:
    """One message, as its handler gets it.

    - `payload`: what was sent: plain JSON values, or an instance of the capability's Struct.
    - `context`: the `ContextSlice` that came along; each of its `references` is a `Reference`, read by
      `await reference.resolve()`.
    - `header`: the frame's header: `msg_id target_capability source_spoke dedup_key timeout_ms reply_to` and so on.
    - `trace_id`, `task_id`, `msg_id`: as the host's record has them (`tally trace`, `tally show`).
    - `attempt`: 1, then one more each time the host had it tried anew.
    - `changes`: what a reviewer wants changed of the result before (`tally changes`), the newest words; else empty. The
      payload is that of the first attempt.
    - `deadline_at`: when the caller's wait ends, UTC seconds; None where it has no end.
    - `caller`: who asked, as `@name`.
    """

    def __init__(self, header: Header, sail: Sail, payload: Any, context: GivenSlice, tell: Tell) -> None:
        self.payload = payload
        self.context = context
        self.header = header
        self.trace_id = header.trace_id
        self.msg_id = header.msg_id
        self.task_id = sail.task_id
        self.attempt = sail.attempt
        self.changes = sail.changes
        self.deadline_at = sail.deadline_at or None
        self.caller = sail.caller
        self.is_canceled = False
        """Whether the host took the message back. For handlers that run in a thread, which nobody can stop: look at it
        now and then, and return. A coroutine is cancelled instead."""
        self._tell = tell
        self._loop = asyncio.get_running_loop()

    async def progress(self, text: str, fraction: float | None = None) -> None:
        """Say how far it is: at most 2,000 characters, and a fraction from 0 to 1 if it is known. It shows that the
        handler lives (a message without progress is shown as suspected), and does not move the deadline. A note that
        cannot be sent now is dropped. Raises `ReachRefused` `invalid`."""
        if not isinstance(text, str) or len(text) > _TEXT:
            raise invalid(f"A note of progress is a text of at most {_TEXT} characters.", "Say less.")
        if fraction is not None and not 0 <= fraction <= 1:
            raise invalid(f"The fraction {fraction!r} is not from 0 to 1.", "Give the part that is done.")
        await self._tell(text, None if fraction is None else float(fraction))

    def report(self, text: str, fraction: float | None = None) -> None:
        """`progress` for a handler that runs in a thread: the same, without `await`."""
        asyncio.run_coroutine_threadsafe(self.progress(text, fraction), self._loop).result()

    def __repr__(self) -> str:
        return f"<ReachMessage {self.msg_id} {self.header.target_capability} task {self.task_id}>"
