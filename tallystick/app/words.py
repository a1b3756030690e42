"""The words of tasks: bodies stand in their events and are read when somebody looks, not kept with the state."""

from __future__ import annotations

from collections.abc import Callable

from tallystick.core.events import Recorded, Text
from tallystick.core.state import Task
from tallystick.store.interface import Store


class Words:
    """Reads texts of messages from the log."""

    def __init__(self, store: Store, recent: Callable[[str], list[Recorded] | None] = lambda _task: None) -> None:
        self._store = store
        self._recent = recent
        """The events of a task, where they are in memory."""

    async def at(self, task: Task, version: int) -> Text:
        """The words of one event of a task."""
        recent = self._recent(task.task_id)
        if recent is not None and len(recent) >= version:
            return recent[version - 1].event.text or Text()
        for recorded in await self._store.load(task.task_id, version - 1):
            if recorded.version == version:
                return recorded.event.text or Text()
        return Text()

    async def first(self, task: Task) -> Text:
        """The brief."""
        return await self.at(task, 1)

    async def newest(self, task: Task, kinds: tuple[str, ...]) -> str:
        """The body of the newest message of these kinds; empty if there is none."""
        for said in reversed(task.messages):
            if said.kind in kinds:
                return (await self.at(task, said.version)).body
        return ""
