"""Gathers the frozen context of one decision: whatever the rules for this command may look at."""

from __future__ import annotations

from collections.abc import Iterable

from tallystick.app.clock import HighWater
from tallystick.app.heads import Heads
from tallystick.app.presence import Presence
from tallystick.core import commands as cmd
from tallystick.core.identity import Actor, ActorKind
from tallystick.core.limits import Limits
from tallystick.core.model import Reason, TaskState
from tallystick.core.state import Context, Task, Work
from tallystick.store.interface import Store

_NEED_CHILDREN = (cmd.HandInResult, cmd.ApproveResult, cmd.CancelTask, cmd.SettleDoubt)


class Gather:
    """Reads the heads first and the store where they do not reach; uncommitted batch-mates are included."""

    def __init__(self, store: Store, heads: Heads, clock: HighWater, presence: Presence, limits: Limits) -> None:
        self._store = store
        self._heads = heads
        self._clock = clock
        self._presence = presence
        self._limits = limits
        self.sandbox = "none"

    async def context(self, command: cmd.Command, actor: Actor, work: Work | None) -> Context:
        """Everything a decision about this command rests on, besides the task itself."""
        base = {
            "now": self._clock.now(),
            "actor": actor,
            "directory": self._heads.directory,
            "limits": self._limits,
            "sandbox": self.sandbox,
        }
        if isinstance(command, cmd.SubmitTask):
            return Context(**base, **await self._for_submit(command, actor))  # type: ignore[arg-type]
        if isinstance(command, _NEED_CHILDREN):
            return Context(**base, open_children=await self.open_children(command.task_id))  # type: ignore[arg-type]
        if isinstance(command, cmd.LapseLease) and work is not None:
            left = self._presence.lease_left(work.task)
            now = self._clock.now()
            return Context(**base, lease_until=now + left if left > 0 else 0.0)  # type: ignore[arg-type]
        if isinstance(command, cmd.LeaseDelivery) and work is not None:
            assignment = work.delivery(command.delivery_id)
            count = await self._heads.outstanding(assignment.recipient) if assignment else 0
            return Context(**base, outstanding=count)  # type: ignore[arg-type]
        if isinstance(command, cmd.ReassignTask):
            return Context(**base, live=self._presence.live_agents(self._heads.directory))  # type: ignore[arg-type]
        return Context(**base)  # type: ignore[arg-type]

    async def _for_submit(self, c: cmd.SubmitTask, actor: Actor) -> dict[str, object]:
        requester = c.requester if c.requester and actor.kind is ActorKind.HOST else actor.id
        held = await self.held(actor.session) if actor.session and c.parent is None else ()
        parent_id = c.parent if c.parent is not None else held[0] if len(held) == 1 else ""
        ancestors = await self._ancestors(parent_id)
        command_agent = self._heads.directory.agents.get(c.assignee)
        pushed = command_agent is not None and command_agent.connection == "command"
        return {
            "parent": ancestors[0] if ancestors else None,
            "ancestors": ancestors,
            "held": held,
            "siblings": len(await self.open_children(parent_id)) if parent_id else 0,
            "duplicate": await self.duplicate(c.workspace, requester, c.key) if c.key else None,
            "queued": await self._heads.queued(c.assignee) if c.assignee else 0,
            "queued_by_sender": await self._heads.queued_by(c.assignee, actor.id) if pushed else 0,
            "live": self._presence.live_agents(self._heads.directory),
        }

    async def _ancestors(self, task_id: str) -> tuple[Task, ...]:
        found: list[Task] = []
        while task_id and len(found) < 64:
            work = await self._heads.work(task_id)
            if work is None:
                break
            found.append(work.task)
            task_id = work.task.parent
        return tuple(found)

    async def held(self, session: str) -> tuple[str, ...]:
        """Open tasks that a session holds."""
        rows = await self._store.query("held", session=session)
        return self._overlaid(
            (str(row["task_id"]) for row in rows),
            lambda t: t.session == session and (t.state is TaskState.WORKING or t.reason is Reason.QUESTION),
        )

    async def open_children(self, parent: str) -> tuple[str, ...]:
        """Open children of a task."""
        rows = await self._store.query("children", parent=parent)
        return self._overlaid((str(row["task_id"]) for row in rows), lambda t: t.parent == parent and t.open)

    def _overlaid(self, committed: Iterable[str], belongs: object) -> tuple[str, ...]:
        """What the store says, corrected by what is not committed yet."""
        found = set(committed)
        for task_id, work in self._heads.pending.items():
            if belongs(work.task):  # type: ignore[operator]
                found.add(task_id)
            else:
                found.discard(task_id)
        return tuple(sorted(found))

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
