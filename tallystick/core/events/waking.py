"""Events of waking: what the host is about to do to a session that sleeps, what came of it, and what is watched for it.

All stand in the stream of the agent, so that its cursor and its open wakes are folded from one stream.
"""

from __future__ import annotations

from tallystick.core.events.words import Happened


class WakeIntended(Happened, frozen=True, kw_only=True):
    """The host is about to tell a sleeping session to look again; written before anything is said to it."""

    wake_id: str
    target: str
    """Whom it is for: a session that is meant itself (`ses_…`), else any of the agent in that workspace (`wsp_…`)."""
    session: str = ""
    """The session that is woken; empty where a command starts a new one."""
    entry: str
    """By which entry: the client's name, or `wake` for a command."""
    until: int
    """Position of the newest item that it is about."""
    items: tuple[str, ...] = ()
    """Ids of what it is about, newest first, as far as they were named."""


class WakeReported(Happened, frozen=True, kw_only=True):
    """How far a wake came, on the word of its entry. See the table in `core.wake`."""

    wake_id: str
    outcome: str
    turn: str = ""
    """The client's own id of the turn that it started."""
    detail: str = ""


class WatchAdded(Happened, frozen=True, kw_only=True):
    """An agent is woken when a source changes."""

    watch_id: str
    workspace: str
    kind: str
    """inbox, file or ref."""
    path: str = ""
    """Of a file: its path or a pattern; of a reference: the repository's directory."""
    ref: str = ""
    digest: str = ""
    """How the source was when it was added."""


class WatchRemoved(Happened, frozen=True, kw_only=True):
    """That source is no longer watched."""

    watch_id: str


class WatchNoticed(Happened, frozen=True, kw_only=True):
    """A watched source is another than it was."""

    watch_id: str
    digest: str


WakingEvents = WakeIntended | WakeReported | WatchAdded | WatchRemoved | WatchNoticed
