"""One turn of a session, from its prompt to its end: watched, summed up, bounded, and ended if it must be."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

import msgspec

from tallystick.app.driving import Driving
from tallystick.app.ports import Envelope
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.state import Work
from tallystick.edge.acp import gate, quota, usage, words
from tallystick.edge.acp.errors import ClientError
from tallystick.edge.acp.launch import SERVER
from tallystick.edge.acp.session import Session
from tallystick.edge.acp.updates import Turn

_GRACE: Final = 5.0
"""Seconds that a client has to end its turn after it was asked to."""


class Ended(msgspec.Struct, frozen=True):
    """How a turn ended."""

    stop: str
    work: Work | None
    last: str = ""
    detail: str = ""
    over: str = ""
    """The bound of the budget that it went over."""


class Running:
    """What a session is doing for one task: a turn, and perhaps another after it."""

    def __init__(self, session: Session, envelope: Envelope, driving: Driving) -> None:
        self.session = session
        self.envelope = envelope
        self.next_purpose = ""
        self.parts: tuple[str, ...] = ()
        """The parts that were open when its turn began."""
        self.waits_for: tuple[str, ...] = ()
        """The parts, asked of others, whose end it waits for; its session is free meanwhile."""
        self._driving = driving
        self._limits = driving.limits
        self.work = envelope.work
        """The task as it was seen last."""
        self._delivery_id = envelope.delivery_id
        self._ending = asyncio.Event()
        self._gone: asyncio.Future[bool] | None = None
        self._stirred = asyncio.Event()
        self._turn: Turn | None = None
        self._recorded = False
        self._before = ""
        """What others did for it, where it was handed over from another session."""
        self._over = False
        self._asking = 0
        self._asked_seconds = 0.0

    @property
    def assignment_id(self) -> str:
        """The delivery of the work itself."""
        assignment = self.envelope.work.assignment
        return assignment.delivery_id if assignment is not None else self.envelope.delivery_id

    async def until_ending(self) -> None:
        """Until somebody wants it ended."""
        await self._ending.wait()

    @property
    def is_ending(self) -> bool:
        """Whether somebody wants it ended."""
        return self._ending.is_set()

    def turn_to(self, work: Work, purpose: str) -> None:
        """The next prompt is about the task as it is now."""
        self.work = work
        self.envelope = msgspec.structs.replace(self.envelope, work=work)
        kinds = ("answer",) if purpose == "answer" else ("assignment", "change")
        found = next((d.delivery_id for d in reversed(work.deliveries) if d.kind in kinds), "")
        self._delivery_id = found or self.assignment_id

    # --- the turn -----------------------------------------------------------------------------------------------

    async def turn(self, purpose: str) -> Ended:
        """Send one prompt and see it to its end. Refused where none may be sent now; then none was."""
        session, task = self.session, self.work.task
        turn_id = await self._driving.started(self.work, session.session_id, self._delivery_id, purpose)
        self._turn = turn = Turn(session.client, session.sums)
        self._recorded, self._asked_seconds, self._asking = False, 0.0, 0
        session.took, session.permit, session.reach.told = self._took, self._permit, self._say
        if purpose == "answer":  # read now: whatever came before the start of this turn is durable
            note = await self._driving.newest(task, ("answer",))
            self.envelope = msgspec.structs.replace(self.envelope, note=note)
        if purpose == "work" and task.attempt > 1:
            self._before = "\n".join(filter(None, (await self._driving.before(task), await session.left_by(self.work))))
        unkept = usage.unkept(session.client.reports, task.budget)
        if unkept:
            self._say(f"its budget cannot be kept in full: {unkept}")
        texts = self._texts(purpose, words.boundary_of(turn_id))
        prompt = asyncio.create_task(self._prompt(texts))
        begun = asyncio.get_running_loop().time()
        answer: dict[str, Any] | None = None
        try:
            stop, detail, answer, over = await self._watch(turn_id, prompt, begun)
        finally:
            prompt.cancel()
            if answer is not None and not self._recorded:
                await self._record("inferred: the client answered the prompt")
            session.took, session.permit, session.reach.told = _nothing, _refuse, _unsaid
        if self._asking:
            await self._driving.withdrawn(task.task_id)
        spent = turn.meter.spent(self._seconds(begun), answer)
        session.sums = turn.meter.sums
        said, _ = turn.news()
        text = f"{said or turn.last}\n[used: {usage.words(spent)}]".strip()
        work = await self._driving.over(task.task_id, turn_id, stop, text=text, spent=spent, detail=detail)
        after = work.task.spent.over(work.task.budget) if work is not None else ""
        return Ended(stop, work, turn.last, detail, over or after)

    async def _prompt(self, texts: list[str]) -> dict[str, Any]:
        return await self.session.speech.prompt(self.session.history, texts)

    def _texts(self, purpose: str, boundary: str) -> list[str]:
        envelope, sender = self.envelope, self._sender()
        if purpose == "answer":
            return words.answered(envelope, sender, boundary)
        if purpose == "refuted":
            return words.refuted(envelope)
        if purpose == "reminder":
            return words.reminder(envelope)
        if purpose == "resumed":
            return words.resumed(envelope)
        if purpose == "parts":
            return words.parts(envelope)
        return words.opening(envelope, sender, boundary, self._before)

    def _sender(self) -> str:
        return self._driving.alias_of(self.work.task.requester)

    async def _watch(
        self, turn_id: str, prompt: asyncio.Task[dict[str, Any]], begun: float
    ) -> tuple[str, str, dict[str, Any] | None, str]:
        """Until it has ended: (stop, detail, answer, bound that it went over)."""
        bound = self.envelope.agent.seconds or self._limits.command_seconds
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            while True:
                stirred = asyncio.ensure_future(self._stirred.wait())
                waits: set[asyncio.Future[Any]] = {prompt, ending, stirred}
                await asyncio.wait(waits, timeout=self._limits.turn_note_seconds, return_when=asyncio.FIRST_COMPLETED)
                stirred.cancel()
                self._stirred.clear()
                if self._turn is not None and self._turn.words and not self._recorded:
                    await self._record()
                if ending.done():
                    return await self._stop(prompt, "ended", "It was ended by the host.")
                if prompt.done():
                    return self._outcome(prompt)
                over = await self._note(turn_id, begun)
                if over:
                    return await self._stop(prompt, "over_budget", f"Its budget is used up: {over}.", over)
                if self._seconds(begun) > bound:
                    return await self._stop(prompt, "unanswered", f"Its turn took longer than {bound:g} seconds.")
        finally:
            ending.cancel()

    def _seconds(self, begun: float) -> float:
        """How long it has worked: waiting for a person is not counted."""
        return asyncio.get_running_loop().time() - begun - self._asked_seconds

    async def _record(self, proof: str = "inferred: the first update of its turn") -> None:
        self._recorded = True
        own = self._turn.own_id if self._turn is not None else ""
        told = f"the client's own id {own}" if own else proof
        await self._driving.recorded(self.envelope.task_id, self._delivery_id, self.session.session_id, told)

    async def _note(self, turn_id: str, begun: float) -> str:
        """Write down what was said since the last note; the bound of the budget that it went over, if it did."""
        turn, task = self._turn, self.work.task
        if turn is None:
            return ""
        spent = turn.meter.spent(self._seconds(begun))
        text, updates = turn.news() if turn.has_news else ("", 0)
        if text:
            await self._driving.noted(task.task_id, turn_id, text, spent, updates)
        return task.spent.plus(spent).over(task.budget)

    def _outcome(self, prompt: asyncio.Task[dict[str, Any]]) -> tuple[str, str, dict[str, Any] | None, str]:
        error = prompt.exception() if not prompt.cancelled() else None
        client = self.session.client
        if isinstance(error, ClientError) and quota.in_error(client, error):
            return "quota", error.message, None, ""
        if isinstance(error, Refused) and error.code is not ErrorCode.OFFLINE:
            return "failed", str(error), None, ""
        if error is not None or prompt.cancelled():
            return "lost", f"Its turn broke off: {error}", None, ""
        answer = prompt.result()
        last = self._turn.last.strip() if self._turn is not None else ""
        if quota.in_words(client, last):
            return "quota", f"Its client says {last[-300:]!r}.", answer, ""
        return str(answer.get("stopReason") or "end_turn"), "", answer, ""

    async def _stop(
        self, prompt: asyncio.Task[dict[str, Any]], stop: str, detail: str, over: str = ""
    ) -> tuple[str, str, dict[str, Any] | None, str]:
        """Ask the client to stop, give it a moment, then end its whole process tree: commands may outlive a cancel."""
        answer: dict[str, Any] | None = None
        with suppress(Refused):
            await self.session.speech.cancel(self.session.history)
        await asyncio.wait({prompt}, timeout=_GRACE)
        if prompt.done() and not prompt.cancelled() and prompt.exception() is None:
            answer = prompt.result()
        gone = await self.session.close()
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(gone)
        return stop, detail if gone else f"{detail} Something of it still runs.", answer, over

    async def end(self) -> bool:
        """End it. True when nothing of it runs any more."""
        if self._over:
            return True
        if self._gone is None or self._gone.done():
            self._gone = asyncio.get_running_loop().create_future()
        self._ending.set()
        if self._turn is None:  # it is only about to begin
            gone = await self.session.close()
            if not self._gone.done():
                self._gone.set_result(gone)
        return await asyncio.shield(self._gone)

    async def let_go(self) -> None:
        """Nothing more is said in it: whoever waits for its end hears once its client is gone."""
        self._over = True
        if self._gone is not None and not self._gone.done():
            gone = await self.session.close()
            if not self._gone.done():
                self._gone.set_result(gone)

    # --- what comes from the client -----------------------------------------------------------------------------

    def _took(self, update: dict[str, Any]) -> None:
        if self._turn is None:
            return
        self._turn.take(update)
        if self._turn.words == 1:
            self._stirred.set()

    async def _permit(self, call: dict[str, Any], options: list[dict[str, Any]]) -> str:
        """The option that answers a request: by the agent's policy, else by a person; denied where nobody can."""
        known = self._turn.call(str(call.get("toolCallId", ""))) if self._turn is not None else {}
        asked = gate.wish(known, call, options, SERVER)
        said = gate.answer(asked, self.session.own.permissions, self.session.tree)
        if said != "ask":
            self._say(f"{said} by policy: {asked.title or asked.kind}")
            return self._choose(asked, said == "allow")
        self._stirred.set()
        self._asking += 1
        begun = asyncio.get_running_loop().time()
        kinds = tuple(kind for _, kind in asked.options if kind in (gate.ALLOW, gate.REJECT))
        try:
            decided = await self._driving.permission(self.envelope.task_id, asked.action, asked.exact, kinds)
        except Refused as refusal:
            self._say(f"denied, nobody could be asked: {refusal.message}")
            return self._choose(asked, False)
        finally:
            self._asked_seconds += asyncio.get_running_loop().time() - begun
        return self._choose(asked, decided == gate.ALLOW)

    def _choose(self, asked: gate.Wish, allow: bool) -> str:
        return asked.option(gate.ALLOW if allow else gate.REJECT)

    def _say(self, text: str) -> None:
        if self._turn is not None:
            self._turn.line(text)


def _nothing(_update: dict[str, Any]) -> None:
    return None


def _unsaid(_line: str) -> None:
    return None


async def _refuse(_call: dict[str, Any], options: list[dict[str, Any]]) -> str:
    return next((str(o.get("optionId")) for o in options if o.get("kind") == gate.REJECT), "")
