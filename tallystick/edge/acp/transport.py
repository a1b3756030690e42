"""Hands tasks to sessions that the host drives: one prompt at a time, each written down before it is sent.

What becomes of a task is said by the session's own calls. What the host sees besides (that a turn began, what it said,
how it ended, what it used) is recorded, and is no result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from tallystick.app.driving import Driving
from tallystick.app.ports import Admission, Began, Envelope, Plan, Receipt
from tallystick.core.directory import Agent
from tallystick.core.errors import Refused
from tallystick.core.identity import Prefix
from tallystick.core.state import Work
from tallystick.edge.acp.around import Around
from tallystick.edge.acp.following import Following, wanted
from tallystick.edge.acp.history import History
from tallystick.edge.acp.session import Session
from tallystick.edge.acp.turn import Running

_BEAT: Final = 5.0
"""Seconds between two signs of life of what the host looks after."""


class AcpTransport:
    """One for all driven agents of a host; a service, that ends their processes with the host."""

    reconciles = True

    def __init__(self, around: Around) -> None:
        self._around = around
        self._driving: Driving = around.driving
        self._sessions: dict[str, Session] = {}
        self._planned: dict[str, str] = {}
        """By session: the task that it is kept for."""
        self._running: dict[str, Running] = {}
        """By task: the turn that is under way, or about to be."""
        self._idle: dict[str, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._looking: dict[str, Callable[[], None]] = {}
        """Sessions that look at what is new, and how that is ended."""
        self.freed: Callable[[str], None] = lambda _agent: None
        """Told of an agent one of whose sessions has come to rest."""
        around.driving.modes_changed = self._halt
        self._history = History(around.driving, self.close)
        self._following = Following(around.driving, self._history)

    async def start(self) -> None:
        """Nothing runs yet: processes of an earlier host ended with it."""

    async def stop(self) -> None:
        """End every process; conversations are gone on with by the next host."""
        for timer in self._idle.values():
            timer.cancel()
        await asyncio.gather(*(session.leave() for session in self._sessions.values()), return_exceptions=True)

    # --- where to -----------------------------------------------------------------------------------------------

    async def plan(self, agent: Agent, work: Work) -> Plan | None:
        """The session that is asked for (that very one, a new one, a fork), else one that is idle, else a new one. A
        session whose work tree another open task needs is not idle, also while that task waits for an answer."""
        task = work.task
        seconds = self._driving.limits.session_lease_seconds
        if task.session_wanted:
            free = await self._can_turn_to(task.session_wanted, task.task_id)
            return self._plan(task.session_wanted, task.task_id, seconds) if free else None
        known = [s.session_id for s in self._driving.sessions(agent, task.workspace)]
        known += [s for s in self._looking if s not in known and self._is_of(s, agent, task.workspace)]
        idle = [session for session in known if await self._can_turn_to(session, task.task_id)]
        if task.last_session in idle:
            return self._plan(task.last_session, task.task_id, seconds)
        if task.fork_of and (task.fork_of in self._looking or not self._is_free(task.fork_of, "")):
            return None  # what is forked is a conversation between two turns
        new = task.fresh or task.fork_of or not idle
        return self._plan(self._driving.new_id(Prefix.SESSION) if new else idle[0], task.task_id, seconds)

    async def _can_turn_to(self, session: str, task_id: str) -> bool:
        held = await self._driving.held(session)
        return not set(held) - {task_id} and self._is_free(session, task_id)

    def _is_free(self, session: str, task_id: str) -> bool:
        return self._planned.get(session, task_id) == task_id and session not in {
            run.session.session_id for run in self._running.values() if not run.waits_for
        }

    def _plan(self, session: str, task_id: str, seconds: float) -> Plan:
        self._planned[session] = task_id
        return Plan(session, seconds)

    def unplanned(self, plan: Plan) -> None:
        """It was not leased after all."""
        self._planned.pop(plan.session, None)

    # --- handing over -------------------------------------------------------------------------------------------

    async def send(self, envelope: Envelope, began: Began) -> Receipt:  # noqa: ARG002
        """Prompt its session, and stay until nothing more is to be said to it. See `app.ports.Transport`."""
        session = self._session(envelope.session, envelope.agent, envelope.work.task.workspace)
        session.parent = envelope.work.task.fork_of
        run = Running(session, envelope, self._driving)
        self._running[envelope.task_id] = run
        beat = asyncio.create_task(self._beat(session.session_id))
        try:
            async with session.lock:
                receipt = await self._carry(session, run)
            while receipt is None:
                receipt = await self._wait_for_parts(session, run)
            return receipt
        finally:
            beat.cancel()
            await run.let_go()
            self._running.pop(envelope.task_id, None)
            self._rest_later(session)
            self._planned.pop(session.session_id, None)
            self.freed(session.agent.agent_id)

    async def _wait_for_parts(self, session: Session, run: Running) -> Receipt | None:
        """It asked others and ended its turn: until one of these parts has ended it is at rest, and free to look at
        what is new."""
        self._rest_later(session)
        self._planned.pop(session.session_id, None)
        self.freed(session.agent.agent_id)
        waits = {
            asyncio.create_task(self._driving.part_ended(run.envelope.task_id, run.waits_for)),
            asyncio.create_task(run.until_ending()),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in waits:
                waiting.cancel()
        async with session.lock:
            run.waits_for = ()
            work = await self._driving.work(run.envelope.task_id)
            if work is None or run.is_ending or not wanted(work, session.session_id):
                return Receipt(outcome="ended")
            try:
                await session.ready(work.task)
            except Refused as refusal:
                return Receipt(outcome="unverified", detail=f"It cannot be gone on with: {refusal.message}")
            return await self._following.turns(session, run, "parts")

    def _rest_later(self, session: Session) -> None:
        """A client that has nothing to do for long is ended; its conversation is loaded again when it is needed."""
        known = self._idle.pop(session.session_id, None)
        if known is not None:
            known.cancel()
        is_stopped = self._driving.is_stopped(session.session_id)
        seconds = 0.0 if is_stopped else self._driving.limits.session_idle_seconds
        self._idle[session.session_id] = asyncio.get_running_loop().call_later(seconds, self._rest, session)

    def _rest(self, session: Session) -> None:
        if not session.lock.locked():
            closing = asyncio.get_running_loop().create_task(self._close_idle(session))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _close_idle(self, session: Session) -> None:
        async with session.lock:
            await session.close()

    async def _beat(self, session_id: str) -> None:
        """For as long as the host looks after it, its lease does not run out."""
        while True:
            self._driving.heard(session_id)
            await asyncio.sleep(min(_BEAT, self._driving.limits.session_lease_seconds / 3))

    def _session(self, session_id: str, agent: Agent, workspace: str) -> Session:
        known = self._sessions.get(session_id)
        if known is None:
            known = self._sessions[session_id] = Session(session_id, agent, workspace, self._around)
        known.agent = agent
        return known

    async def _carry(self, session: Session, run: Running) -> Receipt | None:
        """What came of it; None while it waits for its parts."""
        if run.envelope.adopted:
            return await self._reconcile(session, run)
        try:
            await session.ready(run.envelope.work.task)
        except Refused as refusal:
            if self._driving.session(session.session_id) is None:  # it has ended: the next try gets another one
                await self.close(session.session_id)
            return Receipt(outcome="returned", detail=str(refusal))
        return await self._following.turns(session, run, self._purpose(run.envelope))

    def _purpose(self, envelope: Envelope) -> str:
        if envelope.purpose:
            return envelope.purpose
        delivery = envelope.work.delivery(envelope.delivery_id)
        return "changes" if delivery is not None and delivery.kind == "change" else "work"

    # --- after a restart ------------------------------------------------------------------------------------------

    async def _reconcile(self, session: Session, run: Running) -> Receipt | None:
        """An earlier host had this in hand: find out what became of it."""
        work = await self._driving.work(run.envelope.task_id)
        if work is None:
            return Receipt(outcome="ended")
        run.work = work
        task = work.task
        await self._driving.withdrawn(task.task_id)
        if task.running:
            detail = "The host stopped while it was under way."
            work = await self._driving.over(task.task_id, task.running, "lost", detail=detail) or work
        delivery = work.delivery(run.assignment_id)
        if delivery is None or not delivery.in_flight or not wanted(work, session.session_id):
            return Receipt(outcome="ended")
        if not delivery.prompted:
            return Receipt(outcome="returned", detail="The host stopped before a prompt was sent.")
        await self._driving.doubted(task.task_id, delivery.delivery_id, "The host stopped after a prompt was sent.")
        found = await self._history.look_back(session, run)
        if found is None and not task.running and run.next_purpose == "resumed":
            run.waits_for = await self._driving.parts(task.task_id)  # its turn had ended in order
        if found is not None or run.waits_for:
            return found
        return await self._following.turns(session, run, run.next_purpose)

    # --- looking at what is new -----------------------------------------------------------------------------------

    def _is_of(self, session_id: str, agent: Agent, workspace: str) -> bool:
        session = self._sessions.get(session_id)
        return session is not None and (session.agent.agent_id, session.workspace) == (agent.agent_id, workspace)

    def has_room(self, agent: Agent) -> bool:
        """Whether fewer sessions of it are at work than may be."""
        busy = {run.session.session_id for run in self._running.values() if not run.waits_for} | self._looking.keys()
        mine = [s for s in busy if s in self._sessions and self._sessions[s].agent.agent_id == agent.agent_id]
        return len(mine) < agent.concurrency

    def to_wake(self, agent: Agent, workspace: str, preferred: str) -> Session:
        """The session that is to look: the one that asked, else one that is idle, else a new one."""
        known = [s.session_id for s in self._driving.sessions(agent, workspace)]
        idle = [s for s in known if self._is_free(s, "") and s not in self._looking]
        chosen = preferred if preferred in idle else idle[0] if idle else self._driving.new_id(Prefix.SESSION)
        return self._session(chosen, agent, workspace)

    async def look(
        self, session: Session, run: Callable[[], Awaitable[Admission]], end: Callable[[], None]
    ) -> Admission:
        """One turn besides those of tasks; whatever else there is for the session waits for its end. `end` is called
        where a person stops the session."""
        self._looking[session.session_id] = end
        beat = asyncio.create_task(self._beat(session.session_id))
        try:
            async with session.lock:
                admission = await run()
        finally:
            beat.cancel()
            self._looking.pop(session.session_id, None)
            self._rest_later(session)
        if self._driving.session(session.session_id) is None:  # it has ended: the next try gets another one
            await self.close(session.session_id)
        self.freed(session.agent.agent_id)
        return admission

    # --- ending -------------------------------------------------------------------------------------------------

    async def end(self, delivery_id: str) -> bool:
        """Ask it to stop, give it a moment, end its process tree. True when nothing of it runs any more."""
        for run in list(self._running.values()):
            if delivery_id in (run.envelope.delivery_id, run.assignment_id):
                return await run.end()
        return True

    def _halt(self) -> None:
        """What people stopped and what is in the middle of no task: a look is ended, a client that waits is too."""
        for session in [s for s in self._sessions.values() if self._driving.is_stopped(s.session_id)]:
            self._looking.get(session.session_id, lambda: None)()
            self._rest(session)

    async def settled(self, delivery_id: str) -> None:
        """Nothing is kept of a delivery."""

    def found(self) -> list[str]:
        """Nothing runs on without its host."""
        return []

    async def close(self, session_id: str) -> None:
        """A person ended a session."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            with suppress(Refused):
                await session.leave()
