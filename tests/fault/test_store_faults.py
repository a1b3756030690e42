"""What was acknowledged stays: through power cuts, full and failing disks, and a kill at every failpoint."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import msgspec
import pytest
from vfs import Disk, FaultyVfs

import tallystick
from tallystick.core.events import Recorded
from tallystick.store.contract.samples import entry, record, said, task_row
from tallystick.store.interface import Entry, StoreUnavailableError
from tallystick.store.sqlite import FAILPOINTS, SqliteStore, checkpoint, connection
from tallystick.store.sqlite.bodies import IN_FILE_BYTES

TRIALS = 40


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    vfs = FaultyVfs("faulty", made)
    yield made
    vfs.unregister()


def item(stream: str, version: int, size: int = 300) -> Entry:
    row = task_row(stream, version=version, title="t" * (version * 40))
    return entry(stream, version, row, trace=f"trc_{stream}", event=said(stream, "w" * size))


async def whole(folder: Path, acknowledged: list[Recorded]) -> None:
    """Open what is left; assert that all that was acknowledged is there and that everything fits together."""
    store = SqliteStore.open(folder / "log.db")
    try:
        events = await store.tail(0, 10**6)
        assert await store.scan() == []
        assert [event.position for event in events] == list(range(1, len(events) + 1))
        kept = {event.position: event.hash for event in events}
        assert {event.position: event.hash for event in acknowledged}.items() <= kept.items()
        newest = {event.stream: event.version for event in events}
        for stream, version in newest.items():
            assert [event.version for event in await store.load(stream)] == list(range(1, version + 1))
        assert {row["task_id"]: row["version"] for row in (await store.dump())["tasks"]} == newest
        await store.append([item("tsk_after", newest.get("tsk_after", 0) + 1)])
    finally:
        await store.close()


# --- power cuts ---


async def run_until_cut(disk: Disk, folder: Path, dice: random.Random) -> tuple[dict[str, bytes], list[Recorded]]:
    """Work, and take a picture of the disk in the middle of it together with what was acknowledged before."""
    acknowledged: list[Recorded] = []
    pictures: list[tuple[dict[str, bytes], list[Recorded]]] = []
    moment = 0

    def look(step: int) -> None:
        if step == moment:
            pictures.append((disk.after_power_cut(dice), list(acknowledged)))

    disk.at_step = look
    store = SqliteStore.open(folder / "before.db", vfs="faulty")
    moment = disk.steps + dice.randrange(20, 400)

    async def task(stream: str) -> None:
        for version in range(1, 7):
            acknowledged.extend(await store.append([item(stream, version, dice.randrange(1500))]))

    at = 0
    while not pictures:
        await asyncio.gather(*(task(f"tsk_{at + number}") for number in range(3)))
        if dice.randrange(2):
            await store.archive([f"trc_tsk_{at}"])
        if dice.randrange(2):
            store._checkpointer._due.set()
        at += 3
    await store.close()
    return pictures[0]


async def trial(seed: int, folder: Path, *, lies: bool) -> None:
    dice = random.Random(seed)
    disk = Disk(lies=lies)
    vfs = FaultyVfs("faulty", disk)
    try:
        files, acknowledged = await run_until_cut(disk, folder, dice)
    finally:
        vfs.unregister()
    after = folder / "after"
    after.mkdir()
    for name, content in files.items():
        (after / name.replace("before", "log")).write_bytes(content)
    await whole(after, acknowledged)


@pytest.mark.parametrize("seed", range(TRIALS))
async def test_a_power_cut_loses_nothing_that_was_acknowledged(seed: int, tmp_path: Path) -> None:
    await trial(seed, tmp_path, lies=False)


async def test_the_harness_sees_losses_where_the_disk_lies(tmp_path: Path) -> None:
    lost = 0
    for seed in range(10):
        (tmp_path / str(seed)).mkdir()
        try:
            await trial(seed, tmp_path / str(seed), lies=True)
        except (AssertionError, StoreUnavailableError, apsw.Error):
            lost += 1
    assert lost == 10


async def test_the_harness_sees_losses_without_full_synchronisation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weak = tuple(setting.replace("synchronous = FULL", "synchronous = NORMAL") for setting in connection._SETTINGS)
    monkeypatch.setattr(connection, "_SETTINGS", weak)
    lost = 0
    for seed in range(10):
        (tmp_path / str(seed)).mkdir()
        try:
            await trial(seed, tmp_path / str(seed), lies=False)
        except AssertionError:
            lost += 1
    assert lost >= 3


# --- a full disk, a failing disk ---


@pytest.mark.parametrize("room", [0, 100, 5_000, 20_000, 50_000, 90_000])
async def test_a_full_disk_keeps_what_was_acknowledged_and_works_again(room: int, disk: Disk, tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log.db", vfs="faulty")
    acknowledged = await store.append([item("tsk_1", 1)])
    disk.room = room
    reasons = []
    for _ in range(28):
        try:
            acknowledged += await store.append([item("tsk_1", len(acknowledged) + 1)])
        except StoreUnavailableError as refusal:
            reasons.append(refusal.reason)
        assert await store.tail(0) == acknowledged
    assert set(reasons) == {"full"}
    disk.room = None
    acknowledged += await store.append([item("tsk_1", len(acknowledged) + 1)])
    await store.close()
    await whole(tmp_path, acknowledged)


async def test_a_full_disk_fails_all_calls_of_the_commit_and_keeps_none(disk: Disk, tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log.db", vfs="faulty")
    disk.room = 9_000
    calls = [store.append([item(f"tsk_{number}", 1, 3_000)]) for number in range(8)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(answer, StoreUnavailableError) for answer in answers] == [True] * 8
    assert (await store.tail(0), await store.head()) == ([], (0, ""))
    disk.room = None
    assert (await store.append([item("tsk_0", 1)]))[0].position == 1
    await store.close()


@pytest.mark.parametrize("offset", range(1, 9))
async def test_a_failing_sync_is_told_and_ends_writing(offset: int, disk: Disk, tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log.db", vfs="faulty")
    disk.fail_sync = disk.syncs + offset
    acknowledged: list[Recorded] = []
    reasons = []
    while not reasons:
        try:
            acknowledged += await store.append([item("tsk_1", len(acknowledged) + 1)])
        except StoreUnavailableError as refusal:
            reasons.append(refusal.reason)
    assert reasons == ["io"]
    syncs = disk.syncs
    with pytest.raises(StoreUnavailableError) as refusal:
        await store.append([item("tsk_2", 1)])
    assert refusal.value.reason == "io"
    assert await store.tail(0) == acknowledged
    await store.close()
    assert disk.syncs == syncs, "nothing is tried again on the same descriptor"
    await whole(tmp_path, acknowledged)


@pytest.mark.parametrize("offset", [1, 2])
async def test_a_checkpoint_whose_sync_fails_ends_writing(
    offset: int, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "PASSIVE_PAGES", 10**6)
    store = SqliteStore.open(tmp_path / "log.db", vfs="faulty")
    acknowledged = await store.append([item("tsk_1", 1)])
    disk.fail_sync = disk.syncs + offset
    store._checkpointer._due.set()
    await asyncio.to_thread(store._checkpointer._thread.join)
    with pytest.raises(StoreUnavailableError) as refusal:
        await store.append([item("tsk_1", 2)])
    assert refusal.value.reason == "io"
    await store.close()
    assert disk.syncs == disk.fail_sync
    await whole(tmp_path, acknowledged)


async def test_a_lock_held_too_long_is_unavailable_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_MS", 20)
    store = SqliteStore.open(tmp_path / "log.db")
    acknowledged = await store.append([item("tsk_1", 1)])
    other = apsw.Connection(str(tmp_path / "log.db"))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError) as refusal:
        await store.append([item("tsk_1", 2)])
    assert refusal.value.reason == "locked"
    assert await store.tail(0) == acknowledged
    other.execute("ROLLBACK")
    other.close()
    acknowledged += await store.append([item("tsk_1", 2)])
    await store.close()
    await whole(tmp_path, acknowledged)


async def test_no_room_for_a_body_file_fails_the_call_alone_of_later_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore.open(tmp_path / "log.db")
    put = store._writer._bodies.put

    def no_room(content: bytes) -> str:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(store._writer._bodies, "put", no_room)
    with pytest.raises(StoreUnavailableError) as refusal:
        await store.append([item("tsk_1", 1, IN_FILE_BYTES * 2)])
    assert refusal.value.reason == "full"
    monkeypatch.setattr(store._writer._bodies, "put", put)
    acknowledged = await store.append([item("tsk_1", 1, IN_FILE_BYTES * 2)])
    await store.close()
    await whole(tmp_path, acknowledged)


# --- damage of the file ---


@pytest.mark.parametrize("seed", range(12))
async def test_a_flipped_bit_or_a_cut_end_is_found_or_harmless(seed: int, tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log.db")
    for version in range(1, 60):
        await store.append([item("tsk_1", version, 700)])
    before = await store.tail(0, 1000)
    await store.close()
    dice, path = random.Random(seed), tmp_path / "log.db"
    content = bytearray(path.read_bytes())
    if seed % 3 == 0:
        del content[dice.randrange(len(content) // 2, len(content) - 4096) :]
    else:
        content[dice.randrange(4096, len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(content)
    try:
        store = SqliteStore.open(path)
    except StoreUnavailableError:
        return
    try:
        assert await store.scan() or await store.tail(0, 1000) == before
    finally:
        await store.close()


# --- kill -9 ---


def crash(path: Path, failpoint: str, deadly: int) -> tuple[int, list[str]]:
    child = [sys.executable, str(Path(__file__).with_name("crash_child.py")), str(path), failpoint, str(deadly)]
    environment = {**os.environ, "PYTHONPATH": str(Path(tallystick.__file__).parents[1])}
    ended = subprocess.run(child, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode, ended.stdout.split("\n")[:-1]


def told(lines: list[str]) -> list[Recorded]:
    pairs = [line.split() for line in lines if " " in line]
    return [
        msgspec.structs.replace(record("tsk_x", 1), position=int(position), hash=found) for position, found in pairs
    ]


@pytest.mark.parametrize("failpoint", FAILPOINTS)
async def test_a_kill_at_a_failpoint_once_and_twice_loses_nothing(failpoint: str, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    acknowledged: list[Recorded] = []
    for deadly in (2, 1):
        code, lines = crash(path, failpoint, deadly)
        assert code == -signal.SIGKILL, f"{failpoint} was not reached"
        acknowledged += told(lines)
    await whole(tmp_path, acknowledged)


async def test_the_child_reaches_its_end_without_a_failpoint(tmp_path: Path) -> None:
    code, lines = crash(tmp_path / "log.db", "none", 1)
    assert (code, lines[-1]) == (0, "closed")
    await whole(tmp_path, told(lines))
