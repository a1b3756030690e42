"""Wakes agents that the host drives: a prompt to look at the inbox, where no task of theirs is to be handed over.

A review, a question and a result come to whoever reviews or asked. The prompt goes to a session of that agent, one
after another with all its prompts. What it does then, it does by our tools; what it says is not kept.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from tallystick.app.driving import Driving
from tallystick.app.ports import Admission, Summons
from tallystick.core.directory import Agent, SessionState
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.identity import Prefix
from tallystick.core.state import Task
from tallystick.edge.acp import gate, words
from tallystick.edge.acp.launch import SERVER
from tallystick.edge.acp.session import Session
from tallystick.edge.acp.transport import AcpTransport
from tallystick.edge.acp.updates import Turn

_GRACE: Final = 5.0
"""Seconds that a client has to end its turn after it was asked to."""


class DriveWaker:
    """Implements `app.ports.Waker`."""

    def __init__(self, transport: AcpTransport, driving: Driving) -> None:
        self._transport = transport
        self._driving = driving
        self._looks: dict[str, tuple[Look, asyncio.Task[Admission]]] = {}
        """By wake: the turn that it started."""

    async def reachable(self, agent: Agent, session: SessionState | None) -> bool:
        """Whether fewer of its sessions are at work than may be."""
        return session is None and agent.connection == "drive" and self._transport.has_room(agent)

    async def wake(self, summons: Summons) -> Admission:
        """Prompt a session of it that is idle, or a new one."""
        if not await self.reachable(summons.agent, summons.session):
            return Admission(outcome="busy", detail="Its sessions are at work.")
        asked_by = await self._driving.asked_by(_task_of(summons))
        session = self._transport.to_wake(summons.agent, summons.wake.target, asked_by)
        look = Look(session, summons, self._driving)
        running = asyncio.create_task(self._transport.look(session, look.run, look.end), name="look")
        self._looks[summons.wake.wake_id] = look, running
        begun = asyncio.ensure_future(look.begun.wait())
        await asyncio.wait({running, begun}, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        if running.done():
            return self._over(summons, running)
        return Admission(outcome="started", turn=look.turn_id, detail=f"session {session.session_id}")

    async def outcome(self, summons: Summons) -> Admission:
        """Wait for the end of its turn. A turn of an earlier host ended with that host."""
        found = self._looks.get(summons.wake.wake_id)
        if found is None:
            return Admission(outcome="unverified", detail="The host stopped before the end of its turn was seen.")
        await asyncio.wait({found[1]})
        return self._over(summons, found[1])

    async def end(self, summons: Summons) -> bool:
        """Ask the client to stop, then end its process tree."""
        found = self._looks.get(summons.wake.wake_id)
        if found is None:
            return False
        found[0].end()
        await asyncio.wait({found[1]})
        return True

    def _over(self, summons: Summons, running: asyncio.Task[Admission]) -> Admission:
        self._looks.pop(summons.wake.wake_id, None)
        return running.result()


class Look:
    """One turn in which a session looks at what is new."""

    def __init__(self, session: Session, summons: Summons, driving: Driving) -> None:
        self.begun = asyncio.Event()
        """Set when something was heard of the turn."""
        self.turn_id = driving.new_id(Prefix.TURN)
        self._session = session
        self._summons = summons
        self._driving = driving
        self._turn = Turn(session.client, session.sums)
        self._denied = 0
        self._ending = asyncio.Event()

    def end(self) -> None:
        """A person stopped it."""
        self._ending.set()

    async def run(self) -> Admission:
        """Send the prompt and see its turn to the end."""
        session = self._session
        try:
            shown = await self._shown()
            await session.ready(shown, mark=f"{shown.task_id} {shown.commit}" if shown else "")
        except Refused as refusal:
            return Admission(outcome="refused", detail=str(refusal))
        if self._ending.is_set():
            return Admission(outcome="refused", detail="It was stopped before its turn began.")
        self._turn = Turn(session.client, session.sums)
        session.took, session.permit = self._took, self._permit
        texts = words.look(self._summons.text, shown.commit if shown else "")
        prompt = asyncio.create_task(session.speech.prompt(session.history, texts))
        try:
            return await self._watch(prompt)
        finally:
            prompt.cancel()
            session.took, session.permit = _nothing, _refuse

    async def _shown(self) -> Task | None:
        """The task whose commit its work tree is to show; None where what is in there has to stay."""
        session = self._session
        kept = await self._driving.work(session.kept_for) if session.kept_for else None
        if kept is not None and kept.task.open and kept.task.session == session.session_id:
            return None
        work = await self._driving.work(_task_of(self._summons)) if _task_of(self._summons) else None
        return work.task if work is not None else None

    async def _watch(self, prompt: asyncio.Task[dict[str, Any]]) -> Admission:
        seconds = self._session.agent.seconds or self._driving.limits.command_seconds
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            waits: set[asyncio.Future[Any]] = {prompt, ending}
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
        if prompt.done():
            return await self._ended(prompt)
        await self._stop(prompt)
        if self._ending.is_set() and self.begun.is_set():
            return Admission(outcome="interrupted", turn=self.turn_id, detail="A person stopped it.")
        why = "A person stopped it." if self._ending.is_set() else f"Its turn took longer than {seconds:g} seconds."
        return Admission(outcome="failed", turn=self.turn_id, detail=why)

    async def _ended(self, prompt: asyncio.Task[dict[str, Any]]) -> Admission:
        try:
            answer = prompt.result()
        except Refused as refusal:
            if refusal.code is ErrorCode.OFFLINE or self._session.can_go_on:  # what is below it may be gone
                await self._session.close()
            return Admission(outcome="failed", turn=self.turn_id, detail=str(refusal))
        spent = self._turn.meter.spent(0.0, answer)
        self._session.sums = self._turn.meter.sums
        denied = f"; {self._denied} × denied" if self._denied else ""
        used = f"; {spent.tokens} tokens" if "tokens" not in spent.unknown else ""
        detail = f"{answer.get('stopReason') or 'end_turn'}{used}{denied}"
        return Admission(outcome="completed", turn=self.turn_id, detail=detail)

    async def _stop(self, prompt: asyncio.Task[dict[str, Any]]) -> None:
        with suppress(Refused):
            await self._session.speech.cancel(self._session.history)
        await asyncio.wait({prompt}, timeout=_GRACE)
        await self._session.close()

    def _took(self, update: dict[str, Any]) -> None:
        self._turn.take(update)
        if self._turn.words:
            self.begun.set()

    async def _permit(self, call: dict[str, Any], options: list[dict[str, Any]]) -> str:
        """By the agent's own file alone: there is no task on which a person could be asked."""
        self.begun.set()
        known = self._turn.call(str(call.get("toolCallId", "")))
        asked = gate.wish(known, call, options, SERVER)
        allowed = gate.answer(asked, self._session.own.permissions, self._session.tree) == "allow"
        self._denied += not allowed
        return asked.option(gate.ALLOW if allowed else gate.REJECT)


def _task_of(summons: Summons) -> str:
    """The newest task that it is about."""
    return next((item for item in summons.wake.items if item.startswith("tsk_")), "")


def _nothing(_update: dict[str, Any]) -> None:
    return None


async def _refuse(_call: dict[str, Any], options: list[dict[str, Any]]) -> str:
    return next((str(o.get("optionId")) for o in options if o.get("kind") == gate.REJECT), "")
