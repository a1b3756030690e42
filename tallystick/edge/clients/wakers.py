"""The entries by which sleeping sessions are woken, and the files that prove what entered a conversation, by client. A
client that is not in the first is a mailbox."""

from __future__ import annotations

from typing import Final

from tallystick.app.ports import History, Waker
from tallystick.app.turns import Turns
from tallystick.core.limits import Limits
from tallystick.edge.clients.claude import history as claude_history
from tallystick.edge.clients.claude import wake as claude
from tallystick.edge.clients.codex import history as codex_history
from tallystick.edge.clients.codex import wake as codex
from tallystick.edge.clients.gemini import history as gemini_history
from tallystick.edge.clients.opencode import wake as opencode
from tallystick.edge.clients.pi import history as pi_history
from tallystick.edge.clients.pi import wake as pi


def wakers_of(turns: Turns, limits: Limits) -> dict[str, Waker]:
    """One for each client that has a formal entry."""
    return {
        "claude": claude.waker(turns, limits),
        "codex": codex.waker(limits),
        "opencode": opencode.waker(limits),
        "pi": pi.waker(turns, limits),
    }


HISTORIES: Final[dict[str, History]] = {
    "claude": claude_history.TRANSCRIPT,
    "codex": codex_history.TRANSCRIPT,
    "gemini": gemini_history.TRANSCRIPT,
    "pi": pi_history.TRANSCRIPT,
}
"""By client: how its own record of a conversation is read."""
