"""How often the disk is asked to sync: counted, so free of noise."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from vfs import Disk, FaultyVfs

from tallystick.store.contract.samples import entry, said, task_row
from tallystick.store.sqlite import SqliteStore, checkpoint
from tallystick.store.sqlite.connection import PAGE_BYTES


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    vfs = FaultyVfs("counting", made)
    yield made
    vfs.unregister()


async def append_rounds(store: SqliteStore, callers: int, rounds: int) -> None:
    async def caller(number: int) -> None:
        for version in range(1, rounds + 1):
            stream = f"tsk_{number}"
            await store.append([entry(stream, version, task_row(stream, version=version), event=said("w" * 900))])

    await asyncio.gather(*(caller(number) for number in range(callers)))


@pytest.mark.parametrize(("callers", "rounds", "most"), [(1, 300, 1.1), (32, 20, 1 / 12), (256, 6, 1 / 60)])
async def test_syncs_for_each_acknowledged_append(
    callers: int, rounds: int, most: float, disk: Disk, tmp_path: Path
) -> None:
    store = SqliteStore.open(tmp_path / "log.db", vfs="counting")
    before = disk.syncs
    await append_rounds(store, callers, rounds)
    syncs = disk.syncs - before
    await store.close()
    assert syncs / (callers * rounds) <= most
    assert syncs >= rounds


async def test_calls_that_only_conflict_cost_no_sync(disk: Disk, tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log.db", vfs="counting")
    await store.append([entry("tsk_1", 1)])
    before = disk.syncs
    answers = await asyncio.gather(*(store.append([entry("tsk_1", 1)]) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(answer, Exception) for answer in answers)
    assert disk.syncs == before
    await store.close()


async def test_the_journal_is_bounded_while_the_writer_never_rests(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "PASSIVE_PAGES", 50)
    monkeypatch.setattr(checkpoint, "BOUND_PAGES", 200)
    store = SqliteStore.open(tmp_path / "log.db", vfs="counting")
    longest = 0

    def look(_: int) -> None:
        nonlocal longest
        journal = Path(f"{tmp_path}/log.db-wal")
        longest = max(longest, journal.stat().st_size if journal.exists() else 0)

    disk.at_step = look
    await append_rounds(store, 16, 90)
    await store.close()
    assert disk.written > 4 * 200 * PAGE_BYTES, "there was enough to make it grow"
    assert longest < 4 * 200 * PAGE_BYTES
