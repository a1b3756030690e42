"""What makes writing cheap changes nothing of what is written: rows many at a step, names looked up many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tallystick.app.custody import board_rests
from tallystick.app.feed import Feed
from tallystick.store.contract import samples
from tallystick.store.schema import apply_steps, shipped_steps
from tallystick.store.sqlite import bulk, names
from tallystick.store.sqlite.names import Names, name_insert
from tallystick.store.sqlite.store import SqliteStore


@pytest.fixture
def connection() -> Iterator[apsw.Connection]:
    made = apsw.Connection(":memory:")
    apply_steps(made, shipped_steps())
    yield made
    made.close()


def stored(connection: apsw.Connection) -> list[tuple[int, str]]:
    return [
        (int(row[0]), str(row[1])) for row in connection.execute("SELECT id, name FROM names WHERE id > 1 ORDER BY id")
    ]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 15, 16, 31, 32, 33, 64, 71])
def test_any_number_of_rows_is_written_whole_and_in_order(count: int, connection: apsw.Connection) -> None:
    rows = [(number, f"name {number}") for number in range(2, count + 2)]
    bulk.run(connection, name_insert, rows)
    assert stored(connection) == rows


@pytest.mark.parametrize(("count", "steps"), [(1, 1), (3, 1), (27, 1), (32, 1), (33, 2)])
def test_rows_that_fit_in_one_statement_are_one_step(count: int, steps: int, connection: apsw.Connection) -> None:
    begun: list[str] = []

    def note(_cursor: apsw.Cursor, sql: str, _values: object) -> bool:
        begun.append(sql)
        return True

    connection.exec_trace = note
    bulk.run(connection, name_insert, [(number, f"name {number}") for number in range(2, count + 2)])
    assert len(begun) == steps


def test_a_text_gets_one_number_however_often_it_comes(connection: apsw.Connection) -> None:
    given = Names(connection)
    given.forget()
    texts = [f"text {number % 40}" for number in range(200)]
    given.learn(texts)
    numbers = [given.numbers[text] for text in texts]
    given.write()
    assert {name: number for number, name in stored(connection)} == dict(zip(texts, numbers, strict=True))
    assert given.find("text 39") == numbers[39]
    assert given.find("nobody gave this") == 0


@pytest.mark.parametrize("kept", [1, 3, 17])
def test_a_full_cache_never_makes_a_known_text_look_new(
    kept: int, connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "_KEPT", kept)
    given = Names(connection)
    given.forget()
    for turn in range(3):
        texts = [f"text {number}" for number in range(turn, turn + 50)]
        given.learn(texts)
        found = [given.numbers[text] for text in texts]
        given.write()
        assert dict(zip(texts, found, strict=True)).items() <= {name: at for at, name in stored(connection)}.items()
    assert len(stored(connection)) == 52


def test_what_a_rollback_took_back_is_looked_up_again(connection: apsw.Connection) -> None:
    given = Names(connection)
    given.forget()
    connection.execute("BEGIN")
    given.learn(["a"])
    first = given.numbers["a"]
    given.write()
    connection.execute("ROLLBACK")
    given.forget()
    given.learn(["b", "a"])
    assert (given.numbers["b"], given.numbers["a"]) == (first, first + 1)
    given.write()
    assert stored(connection) == [(first, "b"), (first + 1, "a")]


async def test_a_stream_whose_id_stood_elsewhere_before_begins_all_the_same(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "log.db")
    await store.append([samples.entry("tsk_1", 1, trace="tsk_2")])
    await store.close()
    store = SqliteStore.open(tmp_path / "log.db")  # which has looked nothing up yet
    both = store.append([samples.entry("tsk_2", 1)]), store.append([samples.entry("tsk_3", 1)])
    assert [[r.stream for r in done] for done in await asyncio.gather(*both)] == [["tsk_2"], ["tsk_3"]]
    assert len(await store.load("tsk_2")) == 1
    assert await store.scan() == []
    await store.close()


async def test_a_waiter_wakes_when_its_stream_is_beyond_what_it_knows_and_is_forgotten_then() -> None:
    feed = Feed()
    early, late = feed.next_of("tsk_1"), feed.next_of("tsk_1", 2)
    feed.committed(7, {"tsk_1": 2, "tsk_2": 9})
    assert (early.done(), late.done()) == (True, False)
    feed.committed(8, {"tsk_1": 3})
    assert late.done()
    given_up = feed.next_of("tsk_3")
    given_up.cancel()
    await asyncio.sleep(0)
    assert feed._by_stream == {}


@pytest.mark.parametrize(("took", "rests"), [(0.0, 1.0), (0.01, 1.0), (0.05, 5.0)])
def test_a_board_that_takes_long_to_make_is_made_less_often(took: float, rests: float) -> None:
    assert board_rests(took) == pytest.approx(rests)
