"""The effect path of waking: what is due, an intent written ahead, the entry, a report. Never holds up a sender.

An outcome comes back in as an ordinary command. A wake says "look again" and nothing else, so one too many does no harm
of its own; all the same one that was intended and not reported is asked about first, and counts as an attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from tallystick.app.clock import HighWater
from tallystick.app.desk.diagnosis import Finding
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.due import Due
from tallystick.app.execute import Executor
from tallystick.app.failpoints import Reached, unmoved
from tallystick.app.heads import Heads
from tallystick.app.ports import Admission, NewId, Summons, Waker
from tallystick.app.presence import Presence
from tallystick.app.recording import until_recorded
from tallystick.app.turns import Turns
from tallystick.core import commands as cmd
from tallystick.core import events as ev
from tallystick.core.directory import Agent, Directory, SessionState
from tallystick.core.errors import Refused
from tallystick.core.identity import HOST, Prefix
from tallystick.core.limits import Limits
from tallystick.core.route import is_stopped
from tallystick.core.rows import NoticeRow, Row, TaskRow
from tallystick.core.wake import BY_OUTCOME, Item, Wake, not_before, words

_SWEEP_SECONDS = 5.0
_NAMED = 20


class Wakes:
    """A service. `wakers` by the client's name, and `wake` for agents that a command wakes."""

    def __init__(
        self,
        heads: Heads,
        executor: Executor,
        due: Due,
        presence: Presence,
        turns: Turns,
        clock: HighWater,
        new_id: NewId,
        limits: Limits,
        wakers: Mapping[str, Waker],
        diagnostics: Diagnostics,
        reached: Reached = unmoved,
    ) -> None:
        self._heads = heads
        self._executor = executor
        self._due = due
        self._presence = presence
        self._turns = turns
        self._clock = clock
        self._new_id = new_id
        self._limits = limits
        self._wakers = wakers
        self._diagnostics = diagnostics
        self._reached = reached
        self._look_at: dict[str, float] = {}
        """By agent: when to look at what is due for it, on boot time."""
        self._soon = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._carried: dict[tuple[str, str], asyncio.Task[None]] = {}
        """What is under way, by agent and target."""
        self._endings: set[asyncio.Task[bool]] = set()
        self._swept_at = -math.inf
        self._told: set[tuple[str, str]] = set()
        self.must_open: Callable[[str, str, Sequence[Item]], None] = lambda _agent, _workspace, _items: None
        """Told once of an agent with something to do that no entry reaches: a person has to open its client. Again only
        after it was reachable or live in between."""
        self.was_heard: Callable[[str], None] = lambda _agent: None
        """Told of an agent that is there again after its person was told."""

    # --- running ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Ask about what an earlier host intended, then begin to look."""
        self._turns.changed = self.turned
        for agent in self._sleepers():
            for wake in agent.waking.wakes.values():
                if wake.open:
                    self._carry(agent.agent_id, wake.target, self._follow(agent.agent_id, wake, ()))
            self._later(agent.agent_id, 0.0)
        self._loop = asyncio.create_task(self._run(), name="wakes")

    async def stop(self) -> None:
        """Wake nobody more. What was begun is asked about at the next start."""
        tasks: list[asyncio.Task[Any]] = [*self._carried.values(), *self._endings]
        if self._loop is not None:
            tasks.append(self._loop)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def committed(self, recorded: ev.Recorded, rows: tuple[Row, ...]) -> None:
        """Rows were committed: look, after a moment, at whoever has something new."""
        for row in rows:
            party = row.turn if isinstance(row, TaskRow) else row.party if isinstance(row, NoticeRow) else ""
            if party and self._has_entry(party):
                at_once = isinstance(recorded.event, ev.TaskSubmitted) and recorded.event.wake
                self._later(party, 0.0 if at_once else self._limits.wake_batch_seconds)

    def stirred(self, recorded: ev.Recorded) -> None:
        """Somebody joined, or something happened that an agent watches."""
        if recorded.stream.startswith("agt_"):
            joined = isinstance(recorded.event, ev.AgentJoined)
            self._later(recorded.stream, 0.0 if joined else self._limits.wake_batch_seconds)

    def modes_changed(self) -> None:
        """A person stopped, paused, drained or resumed something."""
        for agent in self._sleepers():
            self._later(agent.agent_id, 0.0)
            self._end_stopped(agent)

    def turned(self, session: str) -> None:
        """A turn of that session began or ended, or its hook waits or does so no more."""
        state = self._heads.committed_directory.sessions.get(session)
        if state is not None and self._has_entry(state.agent):
            self._later(state.agent, 0.0)

    def freed(self, agent: str) -> None:
        """A session of an agent that the host drives has come to rest."""
        self._later(agent, 0.0)

    def ended(self, recorded: ev.Recorded) -> None:
        """A session ended: no wake can reach it any more."""
        session = recorded.stream
        self._presence.note_reachable(session, now=False)
        self._turns.forget(session)
        agent = self._heads.committed_directory.sessions[session].agent
        for wake in self._heads.committed_directory.agents[agent].waking.wakes.values():
            if wake.session == session and wake.open:
                self._carry(agent, wake.target, self._lost(agent, wake, "Its session has ended."))
        self._later(agent, 0.0)

    async def examine(self, workspace: str) -> list[Finding]:
        """For doctor: whether each agent that has an entry can be woken now, and how it went the last time."""
        directory = self._heads.committed_directory
        mine = [a for a in self._sleepers() if workspace in a.workspaces and self._waker(a) is not None]
        return [self._found(agent, workspace, directory) for agent in mine]

    def _found(self, agent: Agent, workspace: str, directory: Directory) -> Finding:
        last = max(agent.waking.wakes.values(), key=lambda wake: wake.reported_at, default=None)
        failed = last is not None and last.outcome in BY_OUTCOME and BY_OUTCOME[last.outcome].then == "attempt"
        now = "can be woken now" if self._presence.is_reachable(agent.agent_id, directory) else "cannot be woken now"
        how = f"; the last wake: {last.outcome.replace('_', ' ')} ({last.detail})" if last is not None else ""
        fix = f"See what became of it: tally activity. It reads by hand with: tally inbox --as {agent.alias}"
        return Finding(
            check=f"wake @{agent.alias}",
            ok=not failed,
            level="warning" if failed else "ok",
            did=f"asked its entry in {directory.workspaces[workspace].name}, and looked at its last wake",
            saw=f"{now}{how}",
            fix=fix if failed else "",
        )

    # --- when to look -------------------------------------------------------------------------------------------

    @property
    def _directory(self) -> Directory:
        return self._heads.committed_directory

    def _has_entry(self, party: str) -> bool:
        agent = self._heads.committed_directory.agents.get(party)
        return agent is not None and agent.connection in _WOKEN

    def _waker(self, agent: Agent) -> Waker | None:
        return self._wakers.get(_entry(agent))

    def _sleepers(self) -> list[Agent]:
        agents = self._heads.committed_directory.agents.values()
        return [a for a in agents if a.connection in _WOKEN and not a.deleted]

    def _later(self, agent: str, seconds: float) -> None:
        """Look at it then; an earlier look that is planned stays, so that a stream of items cannot put it off."""
        at = self._clock.clock.boot() + seconds
        if at < self._look_at.get(agent, math.inf):
            self._look_at[agent] = at
            self._soon.set()

    async def _run(self) -> None:
        while True:
            self._soon.clear()
            now = self._clock.clock.boot()
            if now - self._swept_at >= _SWEEP_SECONDS:
                self._swept_at = now
                for sleeper in self._sleepers():
                    self._look_at[sleeper.agent_id] = now
            for agent in [a for a, at in self._look_at.items() if at <= now]:
                del self._look_at[agent]
                try:
                    await self._look(agent)
                except Exception as error:  # noqa: BLE001 - one broken entry must not keep the others asleep
                    self._diagnostics.failure("wakes", error)
                    self._later(agent, _SWEEP_SECONDS)
            await self._until_next()

    async def _until_next(self) -> None:
        at = min([*self._look_at.values(), self._swept_at + _SWEEP_SECONDS])
        # Not wait_for: on Python 3.11 that drops a cancel which comes together with the wake-up.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, at - self._clock.clock.boot())):
                await self._soon.wait()

    # --- what is due --------------------------------------------------------------------------------------------

    async def _look(self, agent_id: str) -> None:
        """Wake whoever of an agent has something due, sleeps, and can be reached."""
        agent = self._heads.committed_directory.agents.get(agent_id)
        if agent is None or agent.deleted or not self._has_entry(agent_id):
            return
        await self._note_reachable(agent)
        for target, items in (await self._due.of(agent)).items():
            if (agent_id, target) not in self._carried:
                await self._consider(agent, target, items)

    async def _note_reachable(self, agent: Agent) -> None:
        waker = self._waker(agent)
        if waker is None:
            return
        if agent.connection != "client":
            self._presence.note_reachable(agent.agent_id, now=await waker.reachable(agent, None))
        for session in self._sessions(agent, ""):
            self._presence.note_reachable(session.session_id, now=await waker.reachable(agent, session))

    def _sessions(self, agent: Agent, target: str) -> list[SessionState]:
        """Its open sessions that a target means, the one that was heard of last first."""
        directory = self._heads.committed_directory
        found = [directory.sessions[s] for s in directory.open_sessions.get(agent.agent_id, ())]
        mine = [s for s in found if s.door == "client" and target in ("", s.session_id, s.workspace)]
        return sorted(mine, key=lambda s: self._presence.silent_seconds(s.session_id) or math.inf)

    async def _consider(self, agent: Agent, target: str, items: list[Item]) -> None:
        waker = self._waker(agent)
        until, last = items[0].position, agent.waking.wakes.get(target)
        at = not_before(last, until, self._limits)
        if at is None:
            return
        if last is not None and not any(item.at_once and item.position > last.until for item in items):
            at = max(at, last.reported_at + self._limits.wake_batch_seconds)  # a stream of items is no stream of wakes
        if at > self._clock.now():
            self._later(agent.agent_id, at - self._clock.now())
            return
        session: SessionState | None = None
        if agent.connection == "client":
            sessions = self._sessions(agent, target)
            if any(self._turns.is_running(s.session_id) for s in sessions):
                return  # it sees what is new when that turn pauses; its end leads here again
            session = next((s for s in sessions if self._presence.is_reachable_session(s.session_id)), None)
            if session is None:
                self._nobody(agent, target, items, live=any(self._is_live(s) for s in sessions))
                return
        elif agent.connection == "drive" and not self._presence.is_reachable(agent.agent_id, self._directory):
            return  # its sessions are at work; when one comes to rest, `freed` leads here again
        self._here((agent.agent_id, target))
        if waker is not None:
            self._carry(agent.agent_id, target, self._wake(agent, target, session, items))

    def _is_live(self, session: SessionState) -> bool:
        return self._presence.of_session(session.session_id) in ("live", "suspect")

    def _nobody(self, agent: Agent, target: str, items: Sequence[Item], *, live: bool) -> None:
        """No entry reaches it now. Where not even a session is there, its person is told, once."""
        key = (agent.agent_id, target)
        if live:
            self._here(key)
        elif key not in self._told:
            self._told.add(key)
            session = self._heads.committed_directory.sessions.get(target)
            self.must_open(agent.agent_id, session.workspace if session else target, items)

    def _here(self, key: tuple[str, str]) -> None:
        if key in self._told:
            self._told.discard(key)
            self.was_heard(key[0])

    # --- one wake -----------------------------------------------------------------------------------------------

    def _carry(self, agent: str, target: str, what: Coroutine[Any, Any, None]) -> None:
        earlier = self._carried.get((agent, target))
        if earlier is not None:
            earlier.cancel()
        task = asyncio.create_task(what, name="wake")
        self._carried[agent, target] = task
        task.add_done_callback(lambda done: self._carried_out(agent, target, done))

    def _carried_out(self, agent: str, target: str, done: asyncio.Task[None]) -> None:
        if self._carried.get((agent, target)) is done:
            del self._carried[agent, target]
        error = None if done.cancelled() else done.exception()
        if isinstance(error, Refused):
            self._diagnostics.record("not woken", agent=agent, detail=str(error))
        elif error is not None:
            self._diagnostics.failure("wake", error)
        self._later(agent, 0.0 if error is None else _SWEEP_SECONDS)  # it may well be refused again at once

    async def _wake(self, agent: Agent, target: str, session: SessionState | None, items: list[Item]) -> None:
        """Write it down ahead, then hand it over. Refused where it cannot be written down."""
        wake_id = self._new_id(Prefix.WAKE)
        intent = cmd.IntendWake(
            agent_id=agent.agent_id,
            wake_id=wake_id,
            target=target,
            session=session.session_id if session else "",
            entry=_entry(agent),
            until=items[0].position,
            items=tuple(item.item_id for item in items[:_NAMED]),
        )
        self._reached("wakes.before_intent")
        outcome = await self._executor.execute(intent, HOST, **await self._place(intent))
        if outcome.recorded is None:
            return
        self._reached("wakes.after_intent")
        wake = self._heads.committed_directory.agents[agent.agent_id].waking.wake(wake_id)
        if wake is not None:
            await self._follow(agent.agent_id, wake, items)

    async def _follow(self, agent_id: str, wake: Wake, items: Sequence[Item]) -> None:
        """Hand it over (unless an earlier host did), and note what becomes of it until it is over."""
        agent = self._heads.committed_directory.agents[agent_id]
        known: Wake | None = wake
        fresh = bool(items)
        while known is not None and known.open:
            summons = self._summons(agent, known, items)
            admission = await self._ask(summons, fresh=fresh)
            if fresh and known.session:  # until it is looked at again: an entry takes one at a time
                self._presence.note_reachable(known.session, now=False)
            fresh = False
            self._reached("wakes.before_report")
            await self._report(agent_id, known, admission)
            self._reached("wakes.after_report")
            after = self._heads.committed_directory.agents[agent_id].waking.wake(wake.wake_id)
            if after == known:
                return
            known = after

    async def _ask(self, summons: Summons, *, fresh: bool) -> Admission:
        waker = self._waker(summons.agent)
        if waker is None or (summons.wake.session and summons.session is None):
            return Admission(outcome="unverified", detail="Its session or its entry is not there any more.")
        try:
            async with asyncio.timeout(self._limits.wake_turn_seconds):
                return await (waker.wake(summons) if fresh else waker.outcome(summons))
        except TimeoutError:
            return Admission(outcome="unverified", detail="Nothing more was heard of it for too long.")
        except Refused as refusal:
            return Admission(outcome="unverified", detail=refusal.message)
        except Exception as error:  # noqa: BLE001 - whatever happened to it is not known
            self._diagnostics.failure("wake", error)
            return Admission(outcome="unverified", detail=f"The entry failed: {type(error).__name__}.")

    def _summons(self, agent: Agent, wake: Wake, items: Sequence[Item]) -> Summons:
        directory = self._heads.committed_directory
        session = directory.sessions.get(wake.session)
        place = directory.workspaces.get(session.workspace if session else wake.target)
        return Summons(
            wake=wake,
            agent=agent,
            session=session if session is not None and not session.ended else None,
            text=words(agent.alias, wake.wake_id, items),
            items=tuple(item.item_id for item in items),
            directory=place.root if place else "",
        )

    def _end_stopped(self, agent: Agent) -> None:
        """A person stopped it: what runs only because it was woken is ended; its entry then says how it ended."""
        directory, waker = self._heads.committed_directory, self._waker(agent)
        for wake in agent.waking.wakes.values():
            session = directory.sessions.get(wake.session)
            workspace = session.workspace if session else wake.target
            if wake.open and waker is not None and is_stopped(agent.agent_id, wake.session, workspace, directory):
                ending = asyncio.create_task(waker.end(self._summons(agent, wake, ())), name="end of wake")
                self._endings.add(ending)
                ending.add_done_callback(self._endings.discard)

    async def _lost(self, agent_id: str, wake: Wake, detail: str) -> None:
        await self._report(agent_id, wake, Admission(outcome="unverified", detail=detail))

    async def _report(self, agent_id: str, wake: Wake, admission: Admission) -> None:
        """Record what was said of it, also where that takes long."""
        report = cmd.ReportWake(
            agent_id=agent_id,
            wake_id=wake.wake_id,
            outcome=admission.outcome,
            turn=admission.turn,
            detail=" ".join(admission.detail.split()),
        )
        try:
            await until_recorded(self._executor, report, HOST, **await self._place(wake))
        except Refused as refusal:
            self._diagnostics.record("report of a wake refused", wake=wake.wake_id, detail=str(refusal))

    async def _place(self, wake: Wake | cmd.IntendWake) -> dict[str, Any]:
        """Where it stands in the record: in the trace of the newest task that it is about."""
        session = self._heads.committed_directory.sessions.get(wake.session)
        work = await self._heads.work(wake.items[0]) if wake.items else None
        return {
            "workspace": session.workspace if session else wake.target,
            "trace": work.task.trace if work else "",
            "cause": wake.until,
        }


def _entry(agent: Agent) -> str:
    """The name of what wakes it."""
    return agent.client if agent.connection == "client" else agent.connection


_WOKEN = ("client", "wake", "drive")
"""Connections whose agents can be told to look again."""
STIRRING = (ev.AgentJoined, ev.WatchNoticed, ev.WatchAdded)
"""Events of an agent that may give it something to look at."""
