"""What an agent would be woken for now: the part of its inbox that is new to it and meant to wake, and what is watched.

Looked up anew each time, so that nothing here can be forgotten or be behind the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tallystick.app.heads import Heads
from tallystick.app.views import Views
from tallystick.core.directory import Agent
from tallystick.core.events import Recorded
from tallystick.core.model import TaskState
from tallystick.core.state import Task
from tallystick.core.wake import Item, Watch
from tallystick.store.interface import Cell, Store

_PAGE = 200
"""So many things, the newest, are looked at: what is older was told of, or stands in the inbox beside them."""
_READ = 2000
"""So many rows are read for that: the record gives the oldest first, and whoever lets them lie is to hear of others."""

TURNS: Final = frozenset(
    {
        "submitted/new",
        "submitted/rework",
        "submitted/unassigned",
        "submitted/compensating",
        "working/answered",
        "input_required/question",
        "input_required/review",
    }
)
"""Whose turn it became by one of these is woken: work, changes, answers, questions and reviews are for it by name."""

NOTICES: Final = frozenset(
    {"result", "failed", "refused", "expired", "refuted", "lost", "cancel_asked", "not_forwarded"}
)
"""Notices that wake: how work ended that an agent waits for, and what became of the work it holds. The rest waits."""

_BROKE_OFF: Final = frozenset({"failed", "unverified"})
"""Outcomes of a wake after which nobody knows what its turn did with what it had read."""


class Due:
    """Reads the record; never writes."""

    def __init__(self, store: Store, heads: Heads, views: Views) -> None:
        self._store = store
        self._heads = heads
        self._views = views
        self._noticed: dict[tuple[str, int], int] = {}
        """Position of an event of an agent's stream, by the stream and the version."""

    async def of(self, agent: Agent) -> Mapping[str, list[Item]]:
        """By target, newest first: what is newer than what was delivered there."""
        found: dict[str, dict[str, Item]] = {}
        new = (*await self._turns(agent), *await self._notices(agent), *await self._watched(agent))
        for target, item in (*new, *await self._in_vain(agent)):
            if item.position > agent.waking.cursors.get(target, 0):
                mine = found.setdefault(target, {})
                known = mine.get(item.item_id)  # a turn and a notice of one task are one thing to look at
                mine[item.item_id] = item if known is None or known.position < item.position else known
        return {target: sorted(items.values(), key=lambda item: -item.position) for target, items in found.items()}

    async def _in_vain(self, agent: Agent) -> list[tuple[str, Item]]:
        """What a session that the host drives was told of in a turn that broke off: it may have read it by then,
        and has done nothing with it."""
        found: list[tuple[str, Item]] = []
        for target, wake in agent.waking.wakes.items() if agent.connection == "drive" else ():
            told = wake.items if wake.outcome in _BROKE_OFF else ()
            for task_id in [item for item in told if item.startswith("tsk_")]:
                work = await self._heads.work(task_id)
                since = [r for r in await self._views.history(task_id) if r.position > wake.until]
                if work is not None and not any(r.actor.id == agent.agent_id for r in since):
                    found.append((target, Item(task_id, wake.until, work.task.title)))
        return found

    async def _turns(self, agent: Agent) -> list[tuple[str, Item]]:
        found = []
        for row in await self._newest_turns(agent):
            version = int(row["turn_version"] or 0)
            place = f"{row['state']}/{row['reason']}"
            everything = _watches_inbox(agent, str(row["workspace"]))
            if version > int(row["seen"] or 0) and (everything or place in TURNS):
                item = await self._item(agent, row, version)
                work = await self._heads.work(str(row["task_id"]))
                target = self._target(agent, work.task) if work and not _is_pushed(agent, work.task) else ""
                if item is not None and target:
                    found.append((target, item))
        return found

    async def _newest_turns(self, agent: Agent) -> list[Mapping[str, Cell]]:
        rows = await self._store.query("inbox_turns", party=agent.agent_id, limit=_READ)
        newest = sorted(rows, key=lambda row: -float(row["updated_at"] or 0))[:_PAGE]
        if len(rows) < _READ:
            return newest
        for row in await self._store.query("news", party=agent.agent_id, limit=_PAGE):  # the rest is not among them
            work = await self._heads.work(str(row["task_id"]))
            if work is not None:
                task = work.task
                known = {"title": task.title, "workspace": task.workspace}
                newest.append({**row, **known, "state": str(task.state), "reason": str(task.reason)})
        return newest

    async def _notices(self, agent: Agent) -> list[tuple[str, Item]]:
        found = []
        rows = await self._store.query("inbox_notices", party=agent.agent_id, limit=_READ)
        for row in rows[-_PAGE:]:
            workspace = str(row["workspace"])
            if str(row["kind"]) in NOTICES or _watches_inbox(agent, workspace):
                item = await self._item(agent, row, int(row["version"] or 0))
                work = await self._heads.work(str(row["task_id"]))
                if item is not None and not (work and await self._is_told_otherwise(agent, work.task)):
                    found.append((workspace, item))
        return found

    async def _is_told_otherwise(self, agent: Agent, task: Task) -> bool:
        """Whether the host hands it over by itself: the work is this agent's, or a part of what a session of it has in
        hand, which is prompted when that part has ended."""
        if agent.connection != "drive" or _is_pushed(agent, task) or not task.parent:
            return _is_pushed(agent, task)
        parent = await self._heads.work(task.parent)
        return parent is not None and parent.task.holder == agent.agent_id and parent.task.state is TaskState.WORKING

    async def _item(self, agent: Agent, row: Mapping[str, Cell], version: int) -> Item | None:
        """The item of that event of a task; None where the agent itself did it, or has acted on it since."""
        task_id = str(row["task_id"])
        since = [r for r in await self._views.history(task_id) if r.version >= version]
        if not since or any(r.actor.id == agent.agent_id for r in since):
            return None
        work = await self._heads.work(task_id)
        return Item(task_id, since[0].position, str(row["title"]), work is not None and work.task.wake)

    def _target(self, agent: Agent, task: Task) -> str:
        """The session that is meant, or the workspace; empty where it is for a session that is there no more."""
        if task.session_wanted and task.assignee == agent.agent_id:
            over = self._heads.committed_directory.sessions[task.session_wanted].ended
            return "" if over else task.session_wanted
        holder = self._heads.committed_directory.sessions.get(task.session)
        mine = holder is not None and task.holder == agent.agent_id and not holder.ended and holder.door == "client"
        return task.session if mine else task.workspace

    async def _watched(self, agent: Agent) -> list[tuple[str, Item]]:
        found = []
        for watch in agent.waking.watches.values():
            position = await self._position(agent, watch)
            if position and watch.workspace in agent.workspaces:
                found.append((watch.workspace, Item(watch.watch_id, position, describe(watch))))
        return found

    async def is_untold(self, agent: Agent, watch: Watch) -> bool:
        """Whether a change of it was noticed that nobody was woken for yet: a further one adds nothing."""
        position = await self._position(agent, watch)
        wake = agent.waking.wakes.get(watch.workspace)
        told = max(agent.waking.cursors.get(watch.workspace, 0), wake.until if wake else 0)
        return position > told

    async def _position(self, agent: Agent, watch: Watch) -> int:
        key = (agent.agent_id, watch.noticed)
        if watch.noticed and key not in self._noticed:
            events: list[Recorded] = await self._store.load(agent.agent_id, watch.noticed - 1)
            self._noticed[key] = events[0].position if events else 0
        return self._noticed.get(key, 0)


def _is_pushed(agent: Agent, task: Task) -> bool:
    """Whether the host hands over by itself whatever there is to do in a task, because the work is this agent's."""
    return agent.connection == "drive" and agent.agent_id in (task.assignee, task.holder)


def _watches_inbox(agent: Agent, workspace: str) -> bool:
    return any(w.kind == "inbox" and w.workspace == workspace for w in agent.waking.watches.values())


def describe(watch: Watch) -> str:
    """What is watched, for people and in a wake."""
    if watch.kind == "ref":
        return f"ref {watch.ref} of {watch.path}"
    return f"file {watch.path}" if watch.kind == "file" else "the inbox"
