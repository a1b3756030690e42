"""A spoke is back: what it still has is compared with the record, and it learns what to do with each.

What it began and still has goes on, or its result is sent again; what it lost is for a person; what the record knows
nothing of is dropped: others have it, or it is over.
"""

from __future__ import annotations

from tallystick.app.clock import HighWater
from tallystick.app.deliver import Deliverer
from tallystick.app.desk.reach import Do, Held, Resume
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.execute import Executor
from tallystick.app.heads import Heads
from tallystick.app.routing import DOOR
from tallystick.core import commands as cmd
from tallystick.core.directory import Agent
from tallystick.core.errors import Refused
from tallystick.core.identity import HOST, Actor, ActorKind, Assertion
from tallystick.core.model import Fact, Reason, TaskState
from tallystick.core.state import Work
from tallystick.store.interface import Store

_LATE = "Its time was over before its spoke was back."
_DO: dict[str, Do] = {"begun": "go_on", "running": "go_on", "done": "resend", "failed": "resend"}


class Returning:
    """Sorts out what returning spokes have."""

    def __init__(
        self,
        store: Store,
        heads: Heads,
        executor: Executor,
        deliverer: Deliverer,
        clock: HighWater,
        diagnostics: Diagnostics,
    ) -> None:
        self._store = store
        self._heads = heads
        self._executor = executor
        self._deliverer = deliverer
        self._clock = clock
        self._diagnostics = diagnostics
        self._kept: dict[str, list[tuple[Work, str]]] = {}
        """By session: what goes on once it is ready, and by which delivery. As it was when the spoke came: it knows the
        fence of before."""

    async def sort_out(self, agent: Agent, session: str, held: tuple[Held, ...]) -> tuple[Resume, ...]:
        """What a spoke does with each delivery that it has."""
        answers: list[Resume] = []
        kept: list[tuple[Work, str]] = []
        for one in held:
            work = await self._work_of(one.delivery)
            do: Do = "drop"
            if work is not None and _is_its(work, session, one) and await self._take_back(agent, session, work):
                kept.append((work, one.delivery))
                do = _DO.get(one.state, "drop")
            answers.append(Resume(delivery=one.delivery, do=do))
        self._kept[session] = kept
        await self._doubt_the_rest(agent, session, {work.task.task_id for work, _ in kept})
        return tuple(answers)

    def go_on(self, agent: Agent, session: str) -> None:
        """It can be sent to: stay with what it goes on with until that ends."""
        for work, delivery_id in self._kept.pop(session, ()):
            self._deliverer.adopt(agent, work, delivery_id)

    async def _work_of(self, delivery_id: str) -> Work | None:
        rows = await self._store.query("delivery", delivery_id=delivery_id)
        return await self._heads.work(str(rows[0]["task_id"])) if rows else None

    async def _take_back(self, agent: Agent, session: str, work: Work) -> bool:
        """The earlier fact is restored. Once a person was asked, only a result can settle it."""
        assignment, task = work.assignment, work.task
        in_doubt = assignment is not None and assignment.unverified
        if task.state is not TaskState.WORKING or not in_doubt:
            return True
        if task.deadline_at and self._clock.now() >= task.deadline_at:
            # It is late: the task is for a person by now, and what the spoke says of it settles that.
            return await self._does(cmd.ExpireTask(task_id=task.task_id, detail=_LATE), HOST)
        actor = Actor(agent.agent_id, ActorKind.AGENT, session, DOOR, Assertion.LISTENER)
        return await self._does(cmd.ClaimTask(task_id=task.task_id, session=session), actor)

    async def _doubt_the_rest(self, agent: Agent, session: str, kept: set[str]) -> None:
        """What it had begun and does not have any more: its heartbeat must not keep that working for ever."""
        for task_id in await self._heads.in_hand.of(agent.agent_id):
            work = await self._heads.work(task_id)
            if work is None or task_id in kept or work.task.session != session or not _has_begun(work):
                continue
            detail = "The spoke is back, and has nothing of it any more."
            await self._does(cmd.DoubtTask(task_id=task_id, detail=detail), HOST)

    async def _does(self, command: cmd.Command, actor: Actor) -> bool:
        try:
            await self._executor.execute(command, actor)
        except Refused as refusal:
            self._diagnostics.record("returning", session=actor.session, detail=str(refusal))
            return False
        return True


def _is_its(work: Work, session: str, held: Held) -> bool:
    """Whether that delivery is what the task is about now, was begun, and is this session's by this fence."""
    task, assignment = work.task, work.assignment
    if assignment is None or assignment.delivery_id != held.delivery or not assignment.open or not task.open:
        return False
    by_fence = held.fence in (task.fence, task.fence_before) and held.fence > 0
    return assignment.session == session and by_fence and _has_begun(work) and task.reason is not Reason.COMPENSATING


def _has_begun(work: Work) -> bool:
    assignment = work.assignment
    return assignment is not None and any(seen.fact is Fact.WORKING for seen in assignment.facts)
