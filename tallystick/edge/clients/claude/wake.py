"""Waking Claude Code: a hook with `asyncRewake` on SessionStart and Stop waits for the host, prints the notice on its
standard error and exits with 2. One message per armed hook; the Stop hook arms the next.

The client tells its model that this is no input of the user and no consent. While a turn runs the words are put at the
end of a tool's answer in that same turn, and the transcript has another shape: both are looked for.
"""

from __future__ import annotations

from tallystick.app.turns import Turns
from tallystick.core.limits import Limits
from tallystick.edge.clients.claude.history import trail
from tallystick.edge.clients.waiting import HookWaker


def waker(turns: Turns, limits: Limits) -> HookWaker:
    """The entry of Claude Code."""
    return HookWaker(turns, limits, trail)
