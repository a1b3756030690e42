"""The entries by which sleeping sessions are woken, by client. A client that is not here is a mailbox."""

from __future__ import annotations

from tallystick.app.ports import Waker
from tallystick.app.turns import Turns
from tallystick.core.limits import Limits
from tallystick.edge.clients.claude import wake as claude
from tallystick.edge.clients.codex import wake as codex
from tallystick.edge.clients.pi import wake as pi


def wakers_of(turns: Turns, limits: Limits) -> dict[str, Waker]:
    """One for each client that has a formal entry."""
    return {"claude": claude.waker(turns, limits), "codex": codex.waker(limits), "pi": pi.waker(turns, limits)}
