"""Commands of waking."""

from __future__ import annotations

from tallystick.core.commands.asked import Asked


class IntendWake(Asked, frozen=True, kw_only=True):
    """Write down that a session is about to be woken."""

    agent_id: str
    wake_id: str
    target: str
    entry: str
    until: int
    session: str = ""
    items: tuple[str, ...] = ()


class ReportWake(Asked, frozen=True, kw_only=True):
    """Say how far a wake came."""

    agent_id: str
    wake_id: str
    outcome: str
    turn: str = ""
    detail: str = ""


class AddWatch(Asked, frozen=True, kw_only=True):
    """Wake an agent when a source changes."""

    agent_id: str
    watch_id: str
    workspace: str
    kind: str
    path: str = ""
    ref: str = ""
    digest: str = ""


class RemoveWatch(Asked, frozen=True, kw_only=True):
    """No longer watch a source."""

    agent_id: str
    watch_id: str


class NoteWatched(Asked, frozen=True, kw_only=True):
    """A watched source was looked at; what it is now."""

    agent_id: str
    watch_id: str
    digest: str


WakingCommands = IntendWake | ReportWake | AddWatch | RemoveWatch | NoteWatched
