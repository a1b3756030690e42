"""Which message is in hand: what a handler sends is a child of the task that it works on, in the same trace."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple


class InHand(NamedTuple):
    """The message that the running handler was given."""

    spoke_id: str
    task_id: str
    trace_id: str
    traceparent: str


IN_HAND: ContextVar[InHand | None] = ContextVar("tallystick_in_hand", default=None)
"""Set while a handler runs, in its task or thread; whatever it starts inherits it."""
