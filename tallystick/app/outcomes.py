"""What came of a push, as the command that records it: a result, a failure, taken back, or in doubt."""

from __future__ import annotations

import random

from tallystick.app.clock import HighWater
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.execute import Executor
from tallystick.app.heads import Heads
from tallystick.app.ports import NewId, Receipt
from tallystick.app.recording import until_recorded
from tallystick.app.routing import DOOR
from tallystick.core import commands as cmd
from tallystick.core.directory import Agent
from tallystick.core.errors import Refused
from tallystick.core.events import Text
from tallystick.core.identity import HOST, Actor, ActorKind, Assertion, Prefix
from tallystick.core.limits import Limits
from tallystick.core.model import Fact, Reason
from tallystick.core.route import is_stopped
from tallystick.core.state import Delivery, Work

STOPPED = "A person stopped it while it ran."


class Outcomes:
    """Turns receipts into commands."""

    def __init__(
        self,
        heads: Heads,
        executor: Executor,
        clock: HighWater,
        new_id: NewId,
        limits: Limits,
        diagnostics: Diagnostics,
    ) -> None:
        self._heads = heads
        self._executor = executor
        self._clock = clock
        self._new_id = new_id
        self._limits = limits
        self._diagnostics = diagnostics

    async def report(self, agent: Agent, work: Work, delivery_id: str, receipt: Receipt) -> None:
        """Record what a receipt says. Refused where the task has moved on."""
        task_id = work.task.task_id
        if receipt.outcome in ("ended", "told"):
            return  # whoever ended it says what that means; whoever was told said itself what it did
        if receipt.outcome == "unverified":
            if not await self._may_go_elsewhere(agent, work, delivery_id, receipt.detail):
                await self.unknown(task_id, delivery_id, receipt.detail)
                await self._is_for_a_person(agent, task_id, receipt)
            return
        if receipt.outcome == "returned" and not await self._has_begun(task_id, delivery_id):
            await self.tell(self._return(work, delivery_id, receipt.detail), HOST)
            return
        asked = agent.connection == DOOR and await self._is_in_doubt(task_id, delivery_id)
        if asked and receipt.outcome != "submitted":
            await self.tell(self._failed_after_all(task_id, receipt), HOST)
            return
        if receipt.outcome == "failed" and await self._is_ahead(task_id, delivery_id):
            await self.tell(self._refused(task_id, receipt), HOST)  # nobody holds it, so nobody else can say so
            return
        actor = Actor(
            agent.agent_id,
            ActorKind.AGENT,
            session=_session_of(work, delivery_id),
            door=DOOR if agent.connection == DOOR else "command",
            assertion=Assertion.HOST,
        )
        try:
            await self.tell(self._result(work, receipt), actor)
        except Refused as refusal:
            await self._not_taken(agent, task_id, delivery_id, receipt, refusal)

    def _refused(self, task_id: str, receipt: Receipt) -> cmd.FailTask:
        """It cannot be done as it was asked, and never began."""
        text = Text(body=receipt.detail or "It was refused.")
        return cmd.FailTask(task_id=task_id, text=text, run=receipt.run, code=receipt.code)

    async def _may_go_elsewhere(self, agent: Agent, work: Work, delivery_id: str, detail: str) -> bool:
        """What a spoke that is gone never began goes to another, and what it began only where it is idempotent: the
        rules say whether."""
        if agent.connection != DOOR:
            return False
        try:
            await self.tell(self._return(work, delivery_id, detail), HOST)
        except Refused:
            return False
        return True

    async def _is_in_doubt(self, task_id: str, delivery_id: str) -> bool:
        """Whether a person was asked what became of this very attempt."""
        work = await self._heads.work(task_id)
        handed = _handed(work, delivery_id)
        return work is not None and work.task.reason is Reason.UNVERIFIED and handed is not None and handed.in_flight

    def _failed_after_all(self, task_id: str, receipt: Receipt) -> cmd.SettleDoubt:
        """A spoke that is back tells that it failed, after a person was asked: nobody has to look any more."""
        text = Text(body=receipt.detail or "It failed.")
        return cmd.SettleDoubt(
            task_id=task_id, outcome="failed", delivery_id=self._new_id(Prefix.DELIVERY), text=text
        )

    async def _is_for_a_person(self, agent: Agent, task_id: str, receipt: Receipt) -> None:
        """A spoke that is back, and says that it does not know itself what it did, will not know it later either:
        nobody waits for its lease. One that is lost is waited for."""
        if agent.connection == DOOR and receipt.code == "unverified":
            await self.tell(cmd.DoubtTask(task_id=task_id, detail=receipt.detail), HOST)

    def _return(self, work: Work, delivery_id: str, detail: str) -> cmd.ReturnDelivery:
        retry_at = self._retry_at(work.delivery(delivery_id))
        return cmd.ReturnDelivery(task_id=work.task.task_id, delivery_id=delivery_id, retry_at=retry_at, detail=detail)

    async def _not_taken(
        self, agent: Agent, task_id: str, delivery_id: str, receipt: Receipt, refusal: Refused
    ) -> None:
        """The rules do not take what it ended with. Where the task waits for that no more (somebody else has it, it was
        called off), nothing follows; where a person stopped it, nobody knows; else it is no result (no change, nothing
        said), and a command cannot be told to try again."""
        work = await self._heads.work(task_id)
        handed = _handed(work, delivery_id)
        if work is None or handed is None or not handed.in_flight or work.task.cancel_requested_at:
            raise refusal
        if is_stopped(agent.agent_id, handed.session, work.task.workspace, self._heads.directory):
            await self.tell(cmd.DoubtTask(task_id=task_id, detail=STOPPED), HOST)
            return
        await self.tell(cmd.FailTask(task_id=task_id, text=Text(body=refusal.message), run=receipt.run), HOST)

    async def tell(self, command: cmd.Command, actor: Actor) -> None:
        """Record what has happened, also where that takes long."""
        await until_recorded(self._executor, command, actor)

    async def is_under_way(self, task_id: str, delivery_id: str) -> bool:
        """Whether its recipient is known to have begun, and it is not over."""
        work = await self._heads.work(task_id)
        delivery = work.delivery(delivery_id) if work else None
        return delivery is not None and delivery.in_flight and delivery.fact is Fact.WORKING

    async def _is_ahead(self, task_id: str, delivery_id: str) -> bool:
        """Whether it was sent, and nobody has begun it."""
        work = await self._heads.work(task_id)
        delivery = work.delivery(delivery_id) if work else None
        return delivery is not None and delivery.in_flight and delivery.fact is not Fact.WORKING

    async def _has_begun(self, task_id: str, delivery_id: str) -> bool:
        work = await self._heads.work(task_id)
        delivery = work.delivery(delivery_id) if work else None
        return delivery is not None and delivery.fact is Fact.WORKING

    def _result(self, work: Work, receipt: Receipt) -> cmd.Command:
        task_id = work.task.task_id
        if receipt.outcome in ("failed", "returned"):
            return cmd.FailTask(
                task_id=task_id,
                text=Text(body=receipt.detail or "It failed."),
                run=receipt.run,
                fence=work.task.fence,
                code=receipt.code,
            )
        return cmd.HandInResult(
            task_id=task_id,
            message_id=self._new_id(Prefix.MESSAGE),
            delivery_id="",
            text=Text(body=receipt.text),
            commit=receipt.commit,
            artifacts=receipt.artifacts,
            changed=receipt.changed,
            run=receipt.run,
            fence=work.task.fence,
        )

    def _retry_at(self, delivery: Delivery | None) -> float:
        waits = self._limits.retry_seconds
        wait = waits[min(delivery.retries if delivery else 0, len(waits) - 1)] if waits else 0.0
        return self._clock.now() + wait * random.uniform(0.8, 1.2)  # noqa: S311 - spreads retries, guards nothing

    async def unknown(self, task_id: str, delivery_id: str, detail: str) -> None:
        """Nobody knows what became of it, which is recorded however long that takes."""
        doubt = cmd.DoubtDelivery(task_id=task_id, delivery_id=delivery_id, detail=detail)
        try:
            await self.tell(doubt, HOST)
        except Refused as refusal:
            self._diagnostics.record("doubt refused", task=task_id, detail=str(refusal))


def _handed(work: Work | None, delivery_id: str) -> Delivery | None:
    """The attempt at the work itself that a push is about: an answer goes to whoever has that in hand."""
    delivery = work.delivery(delivery_id) if work is not None else None
    if work is None or delivery is None or delivery.kind in ("assignment", "change"):
        return delivery
    return work.assignment


def _session_of(work: Work, delivery_id: str) -> str:
    """Who holds it; once nobody does (a person was asked), who was handed it."""
    delivery = work.delivery(delivery_id)
    return work.task.session or (delivery.session if delivery is not None else "")
