"""Gathers the frozen context of one decision: whatever the rules for this command may look at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tallystick.app.clock import HighWater
from tallystick.app.heads import Heads
from tallystick.app.presence import Presence
from tallystick.core import commands as cmd
from tallystick.core.directory import PUSHED, Agent
from tallystick.core.identity import CAPABILITY_PREFIX, Actor, ActorKind
from tallystick.core.limits import Limits
from tallystick.core.route import HEARD
from tallystick.core.state import Context, Task, Work
from tallystick.store.interface import Store

Facts = dict[str, Any]


def is_capability(party: str) -> bool:
    """Whether a party is a capability still to be routed."""
    return party.startswith(CAPABILITY_PREFIX)


class Gather:
    """Reads the heads first and the store where they do not reach; uncommitted batch-mates are included."""

    def __init__(self, store: Store, heads: Heads, clock: HighWater, presence: Presence, limits: Limits) -> None:
        self._store = store
        self._heads = heads
        self._clock = clock
        self._presence = presence
        self._limits = limits
        self._more: dict[type, Callable[[Any, Actor, Work | None], Awaitable[Facts]]] = {
            cmd.HandInResult: self._children,
            cmd.ReportCheck: self._children,
            cmd.ApproveResult: self._children,
            cmd.CancelTask: self._children,
            cmd.SettleDoubt: self._children,
            cmd.SettleTrace: self._parts,
            cmd.SubmitTask: self._for_submit,
            cmd.ReassignTask: self._for_reassign,
            cmd.LapseLease: self._lease,
            cmd.LeaseDelivery: self._slots,
            cmd.JoinAgent: self._pushed,
        }

    async def context(self, command: cmd.Command, actor: Actor, work: Work | None) -> Context:
        """Everything a decision about this command rests on, besides the task itself."""
        more = self._more.get(type(command))
        facts = await more(command, actor, work) if more else {}
        return Context(
            now=self._clock.now(), actor=actor, directory=self._heads.directory, limits=self._limits, **facts
        )

    async def _children(self, c: cmd.TaskCommand, _actor: Actor, _work: Work | None) -> Facts:
        return {"open_children": await self._heads.children.of(c.task_id)}

    async def _parts(self, _c: cmd.SettleTrace, _actor: Actor, work: Work | None) -> Facts:
        """What is open of a trace. The store may not show what is committed during the look: of that the heads know."""
        trace = work.task.trace if work else ""
        pending = set(self._heads.pending)
        rows = await self._store.query("in_trace", trace=trace)
        is_open = {str(row["task_id"]): bool(row["open"]) for row in rows}
        for task_id in pending:
            known = self._heads.remembered(task_id)
            if known is not None and known.task.trace == trace:
                is_open[task_id] = known.task.open
        return {"open_parts": tuple(sorted(task_id for task_id, found in is_open.items() if found))}

    async def _lease(self, _c: cmd.LapseLease, _actor: Actor, work: Work | None) -> Facts:
        left = self._presence.lease_left(work.task) if work else 0.0
        return {"lease_until": self._clock.now() + left if left > 0 else 0.0}

    async def _slots(self, c: cmd.LeaseDelivery, _actor: Actor, work: Work | None) -> Facts:
        delivery = work.delivery(c.delivery_id) if work else None
        recipient = c.recipient or (delivery.recipient if delivery else "")
        agent = self._heads.directory.agents.get(recipient)
        if work is not None and agent is not None and agent.connection == "spoke":
            return {"outstanding": await self._in_hand(recipient, work.task.capability.partition("@")[0])}
        return {"outstanding": await self._heads.outstanding(recipient) if recipient else 0}

    async def _pushed(self, c: cmd.JoinAgent, _actor: Actor, _work: Work | None) -> Facts:
        agent = self._heads.directory.agents.get(c.agent_id)
        if agent is None or agent.connection not in PUSHED or c.connection in (None, agent.connection):
            return {}
        return {"in_hand": await self._heads.pushed_to(agent.agent_id)}

    async def _in_hand(self, agent: str, capability: str) -> int:
        """What a spoke works at of one capability."""
        known = self._heads.remembered
        held = await self._heads.in_hand.of(agent)
        works = [known(task_id) or await self._heads.work(task_id) for task_id in held]
        return sum(work.task.capability.partition("@")[0] == capability for work in works if work is not None)

    async def _for_reassign(self, c: cmd.ReassignTask, _actor: Actor, work: Work | None) -> Facts:
        ancestors = await self._ancestors(work.task.parent) if work else ()
        agent = self._heads.directory.agents.get(c.assignee)
        if is_capability(c.assignee):
            return {"ancestors": ancestors, **self._of_holders(c.assignee.removeprefix(CAPABILITY_PREFIX))}
        return {"ancestors": ancestors, **(self._presences(agent) if agent is not None else {})}

    def _presences(self, agent: Agent) -> Facts:
        if agent.connection not in HEARD:
            return {}
        found, directory = frozenset({agent.agent_id}), self._heads.directory
        return {
            "live": found if self._presence.is_told(agent.agent_id, directory) else frozenset(),
            "reachable": found if self._presence.is_reachable(agent.agent_id, directory) else frozenset(),
        }

    async def _for_submit(self, c: cmd.SubmitTask, actor: Actor, _work: Work | None) -> Facts:
        requester = c.requester if c.requester and actor.kind is ActorKind.HOST else actor.id
        facts = await self._relations(c, actor, requester)
        if c.forwards:
            facts["source"] = await self._source(c.forwards)
        if c.key:
            facts["duplicate"] = await self.duplicate(c.workspace, requester, c.key)
        if c.assignee:
            facts["queued"] = await self._heads.queued(c.assignee)
        if c.capability or is_capability(c.assignee):
            facts.update(self._of_holders(c.capability or c.assignee.removeprefix(CAPABILITY_PREFIX)))
        agent = self._heads.directory.agents.get(c.assignee)
        if agent is None:
            return facts
        if agent.connection in PUSHED:
            facts["queued_by_sender"] = await self._heads.queued_by(c.assignee, actor.id)
        if not c.capability:
            facts.update(self._presences(agent))
        return facts

    async def _relations(self, c: cmd.SubmitTask, actor: Actor, requester: str) -> Facts:
        """The task that a new one belongs to, and what else belongs there."""
        held = await self._heads.held.of(actor.session) if actor.session and c.parent is None else ()
        parent_id = c.parent if c.parent is not None else held[0] if len(held) == 1 else ""
        if not parent_id:
            return {"held": held, "parts": self._heads.parts.count(requester, c.group) if c.group else 0}
        ancestors = await self._ancestors(parent_id)
        parent = ancestors[0] if ancestors else None
        return {"held": held, "ancestors": ancestors, "parent": parent, **await self._siblings(parent_id, c.group)}

    async def _source(self, task_id: str) -> Task | None:
        work = await self._heads.work(task_id)
        return work.task if work is not None else None

    async def _siblings(self, parent: str, group: str) -> Facts:
        """The open children of a task by dispatch: all parts of one count as one."""
        works = [await self._heads.work(task_id) for task_id in await self._heads.children.of(parent)]
        groups = [work.task.group or work.task.task_id for work in works if work is not None]
        parts = groups.count(group) if group else 0
        return {"siblings": len({*groups} - {group}), "parts": parts}

    def _of_holders(self, spec: str) -> Facts:
        live, directory = self._live_holders(spec), self._heads.directory
        return {"live": live, "reachable": frozenset(a for a in live if self._presence.is_reachable(a, directory))}

    def _live_holders(self, spec: str) -> frozenset[str]:
        """Of those who offer a capability the ones that can be expected to get to it: a spoke while its lease lives."""
        directory = self._heads.directory
        offering = directory.offered.get(spec.partition("@")[0], ())
        return frozenset(
            [a for a in offering if directory.agents[a].connection != "spoke" or self._presence.is_live(a, directory)]
        )

    async def _ancestors(self, task_id: str) -> tuple[Task, ...]:
        found: list[Task] = []
        while task_id and len(found) < 64:
            work = await self._heads.work(task_id)
            if work is None:
                break
            found.append(work.task)
            task_id = work.task.parent
        return tuple(found)

    async def duplicate(self, workspace: str, requester: str, key: str) -> Task | None:
        """The task that this sender made with this key in this workspace."""
        for work in self._heads.pending.values():
            task = work.task
            if task.key == key and task.requester == requester and task.workspace == workspace:
                return task
        rows = await self._store.query("dedup", workspace=workspace, requester=requester, key=key)
        if not rows:
            return None
        work_found = await self._heads.work(str(rows[0]["task_id"]))
        return work_found.task if work_found else None
