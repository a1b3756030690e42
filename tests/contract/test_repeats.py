"""What is said again, or looked up, while something is on its way to the disk or from it: nobody is told that it is
done before it is, and nothing old takes the place of something new."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from tallystick.app.execute import Outcome
from tallystick.core import commands as cmd
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.events import Recorded, Text
from tallystick.core.identity import Actor, Prefix
from tallystick.store.interface import Entry, StoreUnavailableError
from tallystick.store.memory import MemoryStore
from tests.support.hub import Hub

TURNS = 50
"""More turns of the loop than anything here takes that does not wait for the disk."""

Told = Outcome | BaseException


class SlowDisk(MemoryStore):
    """Keeps a batch waiting until it is let go, and then takes it or not."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.is_full = False

    async def append(self, batch: Sequence[Entry]) -> list[Recorded]:
        self.begun.set()
        await self.may_end.wait()
        if self.is_full:
            self.is_full = False
            raise StoreUnavailableError("full", "no space left")
        return await super().append(batch)

    async def twice(self, say: Callable[[], Awaitable[Outcome]], *, is_full: bool) -> list[Told]:
        """What is told of one and the same, said while its first is under way to a disk that is full, or is not."""
        self.begun.clear()
        self.may_end.clear()
        first = asyncio.ensure_future(say())
        await self.begun.wait()
        second = asyncio.ensure_future(say())
        for _ in range(TURNS):
            await asyncio.sleep(0)
        is_told = second.done()
        self.is_full = is_full
        self.may_end.set()
        assert not is_told, "what it repeats is not on the disk"
        return await asyncio.gather(first, second, return_exceptions=True)


class Story:
    """A person and a task of theirs, in front of such a disk."""

    def __init__(self, hub: Hub, disk: SlowDisk) -> None:
        self.hub, self.disk = hub, disk
        self.ann: Actor = hub.guest().actor
        self.task_id = hub.new_id(Prefix.TASK)

    async def ask(self) -> None:
        await self.hub.executor.execute(self.asked(self.task_id), self.ann)

    def asked(self, task_id: str, key: str = "") -> cmd.SubmitTask:
        return cmd.SubmitTask(
            task_id=task_id,
            workspace=self.hub.workspace,
            trace=self.hub.new_id(Prefix.TRACE),
            delivery_id=self.hub.new_id(Prefix.DELIVERY),
            message_id=self.hub.new_id(Prefix.MESSAGE),
            text=Text(title="x"),
            assignee=self.ann.id,
            parent="",
            key=key,
        )

    async def twice(self, say: Callable[[], cmd.Command], *, is_full: bool) -> list[Told]:
        return await self.disk.twice(lambda: self.hub.executor.execute(say(), self.ann), is_full=is_full)

    async def taken(self) -> None:
        await self.ask()
        await self.hub.executor.execute(cmd.ClaimTask(task_id=self.task_id), self.ann)

    async def paused(self) -> None:
        """Nothing has to be there before."""

    def claim(self) -> cmd.Command:
        return cmd.ClaimTask(task_id=self.task_id, key="k")

    def cancel(self) -> cmd.Command:
        return cmd.CancelTask(task_id=self.task_id)

    def pause(self) -> cmd.Command:
        return cmd.SetHostMode(mode="paused")

    def ask_by_key(self) -> cmd.Command:
        return self.asked(self.hub.new_id(Prefix.TASK), key="once")


CASES = {"claim": "ask", "cancel": "taken", "pause": "paused", "ask_by_key": "paused"}
"""What is said, and what has to be there before."""


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize(("said", "before"), CASES.items())
async def test_a_repeat_is_told_only_what_is_on_the_disk(tmp_path: Path, said: str, before: str, is_full: bool) -> None:
    disk = SlowDisk()
    async with Hub(tmp_path, store=disk) as hub:
        story = Story(hub, disk)
        await getattr(story, before)()
        known = len(await disk.tail(0))
        first, second = await story.twice(getattr(story, said), is_full=is_full)
        if is_full:
            assert isinstance(first, Refused)
            assert first.code is ErrorCode.UNAVAILABLE
            assert isinstance(second, Outcome)
            assert second.recorded, "with the first gone it is no repeat"
        else:
            assert isinstance(first, Outcome)
            assert isinstance(second, Outcome)
            assert (bool(first.recorded), second.recorded) == (True, None)
        assert len(await disk.tail(0)) == known + 1, "it is on the record once"
        assert (await story.hub.executor.execute(getattr(story, said)(), story.ann)).recorded is None


class SlowReader(MemoryStore):
    """Hands over the first history that is asked for only once it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.has_read = asyncio.Event()
        self.may_end: asyncio.Event | None = None

    async def load(self, stream: str, after_version: int = 0) -> list[Recorded]:
        found = await super().load(stream, after_version)
        waits, self.may_end = self.may_end, None
        if waits is not None:
            self.has_read.set()
            await waits.wait()
        return found


async def test_what_was_read_slowly_does_not_replace_what_was_written_meanwhile(tmp_path: Path) -> None:
    store = SlowReader()
    async with Hub(tmp_path, store=store) as hub:
        story = Story(hub, SlowDisk())
        await story.ask()
        hub.heads.forget(story.task_id)
        store.may_end = may_end = asyncio.Event()
        reading = asyncio.ensure_future(hub.heads.work(story.task_id))
        await store.has_read.wait()
        await hub.executor.execute(story.claim(), story.ann)
        may_end.set()
        read = await reading
        assert read is not None
        assert read.task.place == hub.work(story.task_id).task.place == "working"
