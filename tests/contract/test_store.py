"""Every store passes the contract, and answers every named query as the store in memory does."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable
from pathlib import Path

import apsw
import pytest
from store_places import MemoryPlace, SqlitePlace

from tallystick.store.contract import CASES, Place, random_history, same_answers
from tallystick.store.contract.samples import entry, said, settled, task_row
from tallystick.store.interface import ConflictError, StoreUnavailableError
from tallystick.store.memory import MemoryStore
from tallystick.store.memory.queries import QUERIES
from tallystick.store.sqlite import SqliteStore, views


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return MemoryPlace() if request.param == "memory" else SqlitePlace(tmp_path)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_contract(case, place: Place) -> None:
    await case(place)


async def outcome(work: Awaitable[object]) -> str:
    try:
        await work
    except ConflictError:
        return "conflict"
    return "appended"


@pytest.mark.parametrize("together", [False, True], ids=["one by one", "together"])
@pytest.mark.parametrize("seed", range(6))
async def test_a_random_history_gives_the_same_rows_everywhere(seed: int, together: bool, tmp_path: Path) -> None:
    memory, sqlite = MemoryStore(), SqliteStore.open(tmp_path / "log.db")
    history = list(random_history(seed))
    for at in range(0, len(history), 10 if together else 1):
        part = history[at : at + (10 if together else 1)]
        expected = [await outcome(memory.append([item])) for item in part]
        assert await asyncio.gather(*(outcome(sqlite.append([item])) for item in part)) == expected
    await same_answers(memory, sqlite, {name: sorted(found) for name, found in views.PARAMETERS.items()})
    assert await memory.dump() == await sqlite.dump()
    for store in (memory, sqlite):
        await store.archive(["trc_2"])
    await same_answers(memory, sqlite, {"archivable": ["limit"]})
    await sqlite.close()


def test_every_query_has_a_meaning_in_memory() -> None:
    assert QUERIES.keys() == views.QUERIES.keys()


async def test_both_stores_make_the_same_chain(tmp_path: Path) -> None:
    memory = MemoryStore(salt=bytes)
    sqlite = SqliteStore.open(tmp_path / "log.db", salt=bytes)
    batch = [entry("tsk_1", 1, event=said("a")), entry("tsk_1", 2)]
    assert await memory.append(batch) == await sqlite.append(batch)
    await sqlite.close()


async def test_all_files_belong_to_the_owner_alone(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log.db")
    await store.append([entry("tsk_1", 1, event=said("t", "x" * 100_000))])
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files(tmp_path)}
    assert {"log.db", "log.db-wal", "log.db-shm"} < modes.keys()
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "log.db-bodies").stat().st_mode) == 0o700
    await store.close()


async def test_an_open_file_of_loose_mode_is_tightened(tmp_path: Path) -> None:
    (tmp_path / "log.db").touch(0o644)
    await SqliteStore.open(tmp_path / "log.db").close()
    assert stat.S_IMODE((tmp_path / "log.db").stat().st_mode) == 0o600


@pytest.mark.parametrize("archived", [False, True])
async def test_erased_words_are_in_no_file_any_more(archived: bool, tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log.db")
    secrets = ["CANARY-" + "0123456789" * size for size in (1, 10, 100, 9000)]
    await store.append([entry("tsk_1", at, event=said(text)) for at, text in enumerate(secrets, 1)])
    for at in range(40):
        await store.append([entry(f"tsk_x{at}", 1, trace=f"trc_x{at}", event=said("y" * 900))])
    if archived:
        await store.archive(["trc_1", *(f"trc_x{at}" for at in range(0, 40, 2))])
    forms = [
        bytes(row[0])
        for row in read(
            tmp_path,
            "SELECT substr(body, 9, 40) FROM events, names WHERE id = stream AND name = 'tsk_1' AND length(body) > 0",
        )
    ]
    forms += [bytes(row[0]) for row in read(tmp_path, "SELECT substr(events, -60, 40) FROM packs WHERE id = 1")]
    assert await store.erase("tsk_1") == 4
    left = b"".join(path.read_bytes() for path in files(tmp_path))
    assert b"CANARY" not in left
    assert len(forms) == (1 if archived else 3)
    assert not [form for form in forms if form in left]
    assert await store.scan() == []
    await store.close()


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def read(folder: Path, sql: str) -> list[tuple[apsw.SQLiteValue, ...]]:
    connection = apsw.Connection(str(folder / "log.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(connection.execute(sql))
    finally:
        connection.close()


async def test_settings_hold_on_every_connection(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log.db")
    for connection in (store._reading, store._writer.connection, store._checkpointer._connection):
        wanted = {"synchronous": 2, "foreign_keys": 1, "secure_delete": 1, "journal_mode": "wal"}
        assert {name: connection.pragma(name) for name in wanted} == wanted
    await store.close()


async def test_another_writer_of_the_file_is_noticed(tmp_path: Path) -> None:
    one, other = SqliteStore.open(tmp_path / "log.db"), SqliteStore.open(tmp_path / "log.db")
    await one.append([entry("tsk_1", 1, task_row("tsk_1"))])
    await other.append([entry("tsk_1", 2, task_row("tsk_1", title="theirs", version=2))])
    with pytest.raises(ConflictError):
        await one.append([entry("tsk_1", 2)])
    await one.append([entry("tsk_1", 3, task_row("tsk_1", version=2))])
    assert (await other.query("task", task_id="tsk_1"))[0]["title"] == "Fix it"
    assert await other.scan() == []
    await one.close()
    await other.close()


async def test_the_archive_gives_its_pages_back(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log.db")
    for at in range(60):
        words = said("t", " ".join(f"{at * 104_729 * n:x}" for n in range(80)))
        await store.append([entry(f"tsk_{at}", n, event=words, trace=f"trc_{at}") for n in range(1, 9)])
        await store.append([entry(f"tsk_{at}", 9, event=settled(), trace=f"trc_{at}")])
    pages = read(tmp_path, "PRAGMA page_count")[0][0]
    await store.archive([str(row["trace"]) for row in await store.query("archivable", limit=1000)])
    assert read(tmp_path, "PRAGMA freelist_count") == [(0,)]
    assert read(tmp_path, "PRAGMA page_count")[0][0] < pages
    await store.close()


@pytest.mark.parametrize("damage", ["substr(events, 1, 40)", "x''", "zeroblob(length(events))"])
async def test_a_damaged_pack_is_found_and_the_rest_still_reads(damage: str, tmp_path: Path) -> None:
    place = SqlitePlace(tmp_path)
    store = place.open()
    await store.append([entry("tsk_1", 1), entry("tsk_2", 1, trace="trc_2"), entry("tsk_2", 2, trace="trc_2")])
    await store.append([entry("tsk_1", 2)])
    await store.archive(["trc_2"])
    await store.close()
    connection = apsw.Connection(str(place.path))
    connection.execute(f"UPDATE packs SET events = {damage}")
    connection.close()
    store = place.open()
    assert [found.position for found in await store.scan() if found.position] == [2, 3]
    assert [event.version for event in await store.load("tsk_1")] == [1, 2]
    with pytest.raises(StoreUnavailableError) as refusal:
        await store.load("tsk_2")
    assert refusal.value.reason == "io"
    await store.close()


async def test_a_body_file_that_was_changed_is_found(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log.db")
    await store.append([entry("tsk_1", 1), entry("tsk_1", 2, event=said("t", "x" * 100_000))])
    (body,) = files(tmp_path / "log.db-bodies")
    body.write_bytes(body.read_bytes()[:-1] + b"?")
    assert [found.position for found in await store.scan()] == [2]
    with pytest.raises(StoreUnavailableError):
        await store.load("tsk_1")
    await store.close()


async def test_an_unforeseen_error_in_the_writer_is_the_callers_and_the_writer_goes_on(tmp_path: Path) -> None:
    broken = ["before_commit", "before_commit"]  # once together, once one by one

    def failpoint(name: str) -> None:
        if name in broken:
            broken.remove(name)
            raise RuntimeError(name)

    store = SqliteStore.open(tmp_path / "log.db", failpoint=failpoint)
    with pytest.raises(RuntimeError, match="before_commit"):
        await store.append([entry("tsk_1", 1)])
    assert await store.tail(0) == []
    assert [event.position for event in await store.append([entry("tsk_1", 1)])] == [1]
    await store.close()


async def test_a_caller_that_gives_up_does_not_disturb_the_others(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log.db")
    given_up = asyncio.ensure_future(store.append([entry("tsk_1", 1)]))
    other = asyncio.ensure_future(store.append([entry("tsk_2", 1)]))
    waiting = asyncio.ensure_future(store.wait(99))
    await asyncio.sleep(0)
    given_up.cancel()
    waiting.cancel()
    assert len(await other) == 1
    await store.append([entry("tsk_2", 2)])
    assert await store.scan() == []
    await store.close()


async def test_a_path_that_cannot_be_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError):
        SqliteStore.open(tmp_path / "no" / "log.db")
    (tmp_path / "text.db").write_text("this is not a database " * 100)
    with pytest.raises(StoreUnavailableError):
        SqliteStore.open(tmp_path / "text.db")
