"""The tables are those of the row types; steps run in order, once, whole or not at all; newer schemas are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args, get_type_hints

import apsw
import pytest

from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.rows import ROW_TYPES, Row
from tallystick.store import layout
from tallystick.store.contract.samples import entry
from tallystick.store.schema import Step, apply_steps, shipped_steps
from tallystick.store.sqlite import SqliteStore
from tallystick.store.sqlite.connection import refuse_old_sqlite

SQL_TYPES = {str: "TEXT", int: "INTEGER", float: "REAL"}


def empty() -> apsw.Connection:
    return apsw.Connection(":memory:")


def schema(connection: apsw.Connection) -> list[tuple[object, ...]]:
    return list(connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name"))


def version(connection: apsw.Connection) -> object:
    return connection.pragma("user_version")


def declared(hint: Any) -> tuple[str, bool]:
    """How a column of that type is declared in SQL, and whether it may be NULL."""
    members = [member for member in get_args(hint) if member is not type(None)]
    return SQL_TYPES[members[0] if members else hint], bool(members)


@pytest.mark.parametrize("row_type", ROW_TYPES, ids=lambda row_type: row_type.TABLE)
def test_a_table_has_the_columns_of_its_row_type(row_type: type[Row]) -> None:
    connection = empty()
    apply_steps(connection, shipped_steps())
    found = {
        name: (kind, not required)
        for _, name, kind, required, *_ in connection.execute(f"PRAGMA table_info({row_type.TABLE})")
    }
    hints = get_type_hints(row_type)
    assert found == {name: declared(hints[name]) for name in layout.columns(row_type)}
    assert tuple(found) == layout.columns(row_type)


@pytest.mark.parametrize("row_type", ROW_TYPES, ids=lambda row_type: row_type.TABLE)
def test_a_table_has_the_key_of_its_row_type(row_type: type[Row]) -> None:
    connection = empty()
    apply_steps(connection, shipped_steps())
    places = {
        name: place for _, name, _, _, _, place in connection.execute(f"PRAGMA table_info({row_type.TABLE})") if place
    }
    assert tuple(sorted(places, key=lambda name: places[name])) == row_type.KEY


def test_a_new_file_gets_every_pre_step_once() -> None:
    connection = empty()
    ran = apply_steps(connection, shipped_steps())
    assert ran == [step for step in shipped_steps() if not step.post]
    assert apply_steps(connection, shipped_steps()) == []
    assert version(connection) == 1


NEXT = [
    Step(3, False, "add", "ALTER TABLE agents ADD COLUMN extra TEXT"),
    Step(3, True, "drop", "ALTER TABLE agents DROP COLUMN mode"),
]


def test_a_post_step_waits_for_the_second_start() -> None:
    connection = empty()
    apply_steps(connection, shipped_steps())
    assert apply_steps(connection, [*shipped_steps(), *NEXT]) == NEXT[:1]
    assert version(connection) == 1
    assert apply_steps(connection, shipped_steps()) == [], "the last release still runs on it"
    assert apply_steps(connection, [*shipped_steps(), *NEXT]) == NEXT[1:]
    assert version(connection) == 3
    assert apply_steps(connection, [*shipped_steps(), *NEXT]) == []


def test_after_the_post_step_the_last_release_is_refused_and_nothing_changes() -> None:
    connection = empty()
    for _ in range(2):
        apply_steps(connection, [*shipped_steps(), *NEXT])
    apply_steps(connection, [*shipped_steps(), *NEXT])
    before = schema(connection)
    with pytest.raises(Refused) as refusal:
        apply_steps(connection, shipped_steps())
    assert refusal.value.code is ErrorCode.UNSUPPORTED
    assert "schema 3" in refusal.value.message
    assert schema(connection) == before


def test_a_step_that_fails_leaves_nothing() -> None:
    connection = empty()
    apply_steps(connection, shipped_steps())
    before = schema(connection)
    broken = Step(3, False, "broken", "CREATE TABLE half (x); SELECT no_such_function()")
    with pytest.raises(apsw.SQLError):
        apply_steps(connection, [*shipped_steps(), broken])
    assert schema(connection) == before
    assert connection.in_transaction is False


async def test_a_store_refuses_a_newer_file_and_leaves_it_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    store = SqliteStore.open(path)
    await store.append([entry("tsk_1", 1)])
    await store.close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version = 999")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(Refused) as refusal:
        SqliteStore.open(path)
    assert refusal.value.code is ErrorCode.UNSUPPORTED
    assert "999" in str(refusal.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("old", ["3.40.1", "3.51.2", "3.7.0"])
def test_an_sqlite_with_the_wal_bug_is_refused(old: str) -> None:
    with pytest.raises(Refused):
        refuse_old_sqlite(old)


def test_the_sqlite_at_hand_is_new_enough() -> None:
    refuse_old_sqlite(apsw.sqlitelibversion())
    refuse_old_sqlite("3.51.3")
