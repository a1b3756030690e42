"""Waking Pi: our extension waits at the host like a hook, and gives the notice to the session as a message."""

from __future__ import annotations

from tallystick.app.turns import Turns
from tallystick.core.limits import Limits
from tallystick.edge.clients.pi.history import trail
from tallystick.edge.clients.waiting import HookWaker


def waker(turns: Turns, limits: Limits) -> HookWaker:
    """The entry of Pi."""
    return HookWaker(turns, limits, trail)
