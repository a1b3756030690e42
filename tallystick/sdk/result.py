"""What comes of a message that was sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tallystick.sdk.errors import ReachError


@dataclass(frozen=True)
class ReachResult:
    """The outcome of a message.

    - `payload`: what the handler returned: plain JSON values, or an instance of the Struct where the message was sent
      to a `Capability` with one. Of a message to all: the list of their payloads, None for one that has none.
    - `msg_id`, `task_id`, `trace_id`: as the host's record has them. The task of a message to all is that of the first.
    - `duplicate`: whether it is that of an earlier message with the same key: nothing was run for this one.
    - `spoke`: who did it; empty where that is not known.
    - `parts`: of a message to all, one for each holder in the host's order: a `ReachResult` or a `ReachError`, which
      may say that this part was refused.
    """

    payload: Any
    msg_id: str
    task_id: str
    trace_id: str
    duplicate: bool = False
    spoke: str = ""
    parts: tuple[ReachResult | ReachError, ...] = field(default=(), repr=False)


class ReachHandle:
    """A message on its way, for work that takes longer than a caller wants to wait.

    `msg_id`, `task_id` and `trace_id` are those of the host's record. The handle outlives a lost connection and a host
    that is started again; another process finds the same message by sending the same `dedup_key`."""

    def __init__(
        self,
        msg_id: str,
        task_id: str,
        trace_id: str,
        promise: str,
        state: Callable[[], Awaitable[str]],
        result: Callable[[float | None], Awaitable[ReachResult]],
    ) -> None:
        self.msg_id = msg_id
        self.task_id = task_id
        self.trace_id = trace_id
        self.promise = promise
        """What the host could say about when it is seen: `live`, `next_turn`, `mailbox` or `offline`."""
        self._state, self._result = state, result

    async def state(self) -> str:
        """The state of the link, as the host knows it now: IDLE (not routed yet), PROVISIONED (dispatched, or kept for
        a holder), REACHED (begun), CONFIRMED (there is a result), SUNSET (settled, or ended without a result).
        Raises what the host refuses the question with, and `ReachTimeout` where it does not answer within 15 s."""
        return await self._state()

    async def result(self, timeout_ms: int | None = None) -> ReachResult:
        """The outcome; waits for it at most `timeout_ms`, or until the message's own deadline. Raises the `ReachError`
        that it ended with, or `ReachTimeout`: the message goes on then, and may be asked for again."""
        return await self._result(None if timeout_ms is None else timeout_ms / 1000)

    def __repr__(self) -> str:
        return f"<ReachHandle {self.msg_id} task {self.task_id}>"
