"""Syncs per acknowledged command, and memory that does not grow with the log: exact, so asserted, not only measured."""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from tallystick.app.clock import HighWater, RandomIds, SystemClock
from tallystick.app.execute import Executor
from tallystick.app.feed import Feed
from tallystick.app.gather import Gather
from tallystick.app.heads import Heads
from tallystick.app.openings import FirstThings
from tallystick.app.presence import Presence
from tallystick.core import commands as cmd
from tallystick.core.events import Text
from tallystick.core.identity import Actor, ActorKind, Prefix
from tallystick.core.limits import Limits
from tallystick.store.sqlite import SqliteStore
from tallystick.store.sqlite.store import Failpoint

BODY = "a kilobyte of words for whoever is to do the work " * 20
LIMITS = Limits(mailbox_queue=1_000_000)


class Counting(apsw.VFS):
    """The usual VFS; counts what is made durable, checkpoints included."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "", exclude={"xSetSystemCall", "xGetSystemCall", "xNextSystemCall"})
        self.lock = threading.Lock()
        self.syncs = 0

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _File(name, flags, self)


class _File(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int], vfs: Counting) -> None:
        super().__init__("", name, flags)
        self._vfs = vfs

    def xSync(self, flags: int) -> None:
        with self._vfs.lock:
            self._vfs.syncs += 1
        super().xSync(flags)


class Desk:
    """The write path on a real file: executor, heads, store; two agents in the default workspace."""

    def __init__(self, store: SqliteStore) -> None:
        clock = HighWater(SystemClock(), 0.0)
        self.store = store
        self.new_id = RandomIds(clock)
        self.heads = Heads(store)
        gather = Gather(store, self.heads, clock, Presence(clock, LIMITS), LIMITS)
        self.executor = Executor(store, self.heads, gather, clock, Feed(), LIMITS)
        self.first = FirstThings(self.heads, self.executor, store, self.new_id, "ann", 1000)
        self.workspace = ""
        self.asker = self.worker = Actor("", ActorKind.AGENT)

    async def start(self) -> None:
        await self.heads.open()
        await self.executor.start()
        await self.first.start()
        self.workspace = next(iter(self.heads.directory.workspaces))
        self.asker, self.worker = [await self._join(name) for name in ("asker", "worker")]

    async def _join(self, name: str) -> Actor:
        person = Actor(self.heads.directory.owner, ActorKind.PERSON)
        agent = self.new_id(Prefix.AGENT)
        join = cmd.JoinAgent(agent_id=agent, alias=name, workspace=self.workspace)
        await self.executor.execute(join, person, workspace=self.workspace)
        return Actor(agent, ActorKind.AGENT)

    async def ask(self) -> str:
        task_id = self.new_id(Prefix.TASK)
        command = cmd.SubmitTask(
            task_id=task_id,
            workspace=self.workspace,
            trace=self.new_id(Prefix.TRACE),
            delivery_id=self.new_id(Prefix.DELIVERY),
            message_id=self.new_id(Prefix.MESSAGE),
            text=Text(title="Work", body=BODY),
            assignee=self.worker.id,
        )
        await self.executor.execute(command, self.asker)
        return task_id

    async def many(self, callers: int, count: int) -> None:
        """`count` asks by that many callers, each of which waits for its answer before it asks again."""
        left = iter(range(count))

        async def one() -> None:
            for _ in left:
                await self.ask()

        await asyncio.gather(*(one() for _ in range(callers)))

    async def stop(self) -> None:
        await self.executor.stop()
        await self.store.close()


@pytest.fixture
def vfs() -> Iterator[Counting]:
    made = Counting("counting")
    yield made
    made.unregister()


@pytest.fixture
async def desk(tmp_path: Path, vfs: Counting) -> AsyncIterator[Desk]:
    made = Desk(open_store(tmp_path))
    await made.start()
    yield made
    await made.stop()


def open_store(folder: Path, failpoint: Failpoint = lambda _: None) -> SqliteStore:
    return SqliteStore.open(folder / "log.db", vfs="counting", failpoint=failpoint)


@pytest.mark.parametrize(("callers", "count", "most"), [(1, 400, 1.1), (32, 4000, 1 / 12), (256, 8000, 1 / 60)])
async def test_syncs_per_acknowledged_command(
    callers: int, count: int, most: float, desk: Desk, vfs: Counting
) -> None:
    before = vfs.syncs
    await desk.many(callers, count)
    assert (vfs.syncs - before) / count <= most


async def test_the_count_is_of_real_syncs(desk: Desk, vfs: Counting) -> None:
    before = vfs.syncs
    await desk.many(1, 20)
    assert vfs.syncs - before >= 20


async def test_memory_does_not_grow_with_the_log(desk: Desk) -> None:
    await desk.many(256, 55_000)  # as much as any cache holds
    warm = memory()
    await desk.many(256, 55_000)
    assert memory() - warm < 40, "110,000 events may not need 40 MB more than half of them did"
    assert len(desk.heads.pending) == 0
    position, _ = await desk.store.head()
    assert position > 100_000


def memory() -> float:
    """The most MB that this process ever held; the kernel's number, so nothing escapes it."""
    gc.collect()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1000)


async def test_the_directory_is_the_same_after_a_restart(desk: Desk) -> None:
    again = Heads(desk.store)
    await again.open()
    assert again.directory == desk.heads.committed_directory
