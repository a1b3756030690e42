"""Who was heard from, and the leases that were renewed: in memory only, or the log would drown."""

from __future__ import annotations

from tallystick.app.clock import HighWater
from tallystick.core.directory import Directory
from tallystick.core.events import Recorded
from tallystick.core.limits import Limits
from tallystick.core.route import presence
from tallystick.core.rows import TaskRow
from tallystick.core.state import Task


class Presence:
    """Last sign of life per session, on boot time."""

    def __init__(self, clock: HighWater, limits: Limits) -> None:
        self._clock = clock
        self._limits = limits
        self._heard: dict[str, float] = {}
        self._told: set[str] = set()
        """Sessions that `lapsed` told of. When they were heard stays known: a lease is longer than presence."""
        self._left: set[str] = set()
        """Sessions whose program said that it goes: as good as silent for too long, until it is heard again."""
        self._leases: dict[str, tuple[float, float]] = {}
        """By task: the end of the lease as the log says it, and the same on boot time."""
        self._reachable: set[str] = set()
        """Sessions (and agents that a command wakes) whose entry would take a wake now."""

    def heard(self, session: str) -> bool:
        """Note a sign of life; True if it had been silent for long enough to have lapsed."""
        now = self._clock.clock.boot()
        before = self._heard.get(session)
        self._heard[session] = now
        if self._told:
            self._told.discard(session)
        if session in self._left:
            self._left.discard(session)
            return True
        return before is None or now - before >= self._limits.presence_seconds

    def left(self, session: str) -> None:
        """Its program went in order: nobody has to wait to find out."""
        self._left.add(session)

    def silent_seconds(self, session: str) -> float | None:
        """Seconds since the last sign of life; None if there was none since the host started."""
        heard = self._heard.get(session)
        return None if heard is None else self._clock.clock.boot() - heard

    def of_session(self, session: str) -> str:
        """live, suspect, lapsed, or unknown."""
        if session in self._left:
            return "lapsed"
        silent = self.silent_seconds(session)
        return "unknown" if silent is None else presence(silent, self._limits)

    def is_live(self, agent: str, directory: Directory) -> bool:
        """Whether an agent has a session that is not lapsed."""
        mine = directory.open_sessions.get(agent, ())
        return any(self.of_session(session) in ("live", "suspect") for session in mine)

    def is_told(self, agent: str, directory: Directory) -> bool:
        """Whether an agent has a live session whose client's hooks were heard of: it sees its inbox at its pauses."""
        for session in directory.open_sessions.get(agent, ()):
            if directory.sessions[session].history and self.of_session(session) in ("live", "suspect"):
                return True
        return False

    def is_reachable(self, agent: str, directory: Directory) -> bool:
        """Whether an entry would wake it now, or its program is connected and takes new work."""
        return agent in self._reachable or not self._reachable.isdisjoint(directory.open_sessions.get(agent, ()))

    def is_reachable_session(self, session: str) -> bool:
        """Whether the entry of that very session would take a wake now."""
        return session in self._reachable

    def note_reachable(self, who: str, *, now: bool) -> bool:
        """Whether the entry of a session (or of an agent that a command wakes) would take a wake now, or a spoke new
        work; True if that is another than before."""
        before = who in self._reachable
        if now:
            self._reachable.add(who)
        else:
            self._reachable.discard(who)
        return before != now

    def lapsed(self) -> list[str]:
        """Sessions that have just been silent for too long; each is told once."""
        gone = [s for s in self._heard if s not in self._told and self.of_session(s) == "lapsed"]
        self._told.update(gone)
        return gone

    # --- leases: on boot time, so that neither sleep nor a stepped clock makes or breaks one --------------------

    def leased(self, recorded: Recorded) -> None:
        """A lease that has just been given is counted from now on boot time, whatever the wall clock does later."""
        lease_until: float = getattr(recorded.event, "lease_until", 0.0)
        if lease_until:
            self._leases[recorded.stream] = (lease_until, self._clock.clock.boot() + lease_until - recorded.at)

    def task_changed(self, row: TaskRow) -> None:
        """A task that is closed has no lease."""
        if not row.open:
            self._leases.pop(row.task_id, None)

    def lease_left(self, task: Task) -> float:
        """Seconds left of a task's lease, renewed by any sign of life of its session."""
        boot = self._clock.clock.boot()
        written, until = self._leases.get(task.task_id, (0.0, 0.0))
        if written != task.lease_until:
            until = boot + max(0.0, task.lease_until - self._clock.now())
            self._leases[task.task_id] = (task.lease_until, until)
        heard = self._heard.get(task.session)
        if heard is not None and task.lease_seconds:
            until = max(until, heard + task.lease_seconds)
        return until - boot
