"""No statement scans a table or sorts: SQLite's planner is asked about each."""

from __future__ import annotations

import re
from collections.abc import Iterator

import apsw
import pytest

from tallystick.core.rows import ROW_TYPES, NoticeReadRow
from tallystick.store import layout
from tallystick.store.schema import apply_steps, named_statements, shipped_steps
from tallystick.store.sqlite.names import SQL, name_insert, names_find
from tallystick.store.sqlite.views import QUERIES, change_statement, write_statement
from tallystick.store.sqlite.writer import event_insert


@pytest.fixture(scope="module")
def connection() -> Iterator[apsw.Connection]:
    made = apsw.Connection(":memory:")
    apply_steps(made, shipped_steps())
    yield made
    made.close()


WRITES = {f"write_{row_type.__name__}": write_statement(row_type) for row_type in (*ROW_TYPES, NoticeReadRow)}
EVERY_CHANGE = {
    row_type: tuple(name not in row_type.KEY for name in layout.columns(row_type))
    for row_type in ROW_TYPES
    if set(layout.columns(row_type)) != set(row_type.KEY)
}
TOGETHER = {
    "event_insert": event_insert(1),
    "event_insert_8": event_insert(8),
    "name_insert_8": name_insert(8),
    "names_find_1": names_find(1),
    "names_find_8": names_find(8),
    **{f"write_8_{row_type.__name__}": write_statement(row_type, 8) for row_type in ROW_TYPES},
    **{f"change_1_{row_type.__name__}": change_statement(row_type, at, 1) for row_type, at in EVERY_CHANGE.items()},
    **{f"change_8_{row_type.__name__}": change_statement(row_type, at, 8) for row_type, at in EVERY_CHANGE.items()},
}
STATEMENTS = {**QUERIES, **SQL, **WRITES, **TOGETHER}

SORTS_OR_SCANS = re.compile(
    r"\bSCAN\b(?! (\d+ )?CONSTANT ROW| \d+-ROW VALUES CLAUSE| new\b| recent\b)|TEMP B-TREE|AUTOMATIC"
)
"""What is given with a statement is walked: its values, and those that are called `new` in a change. So is what is
called `recent`: a bounded number of the newest rows."""


def plan(connection: apsw.Connection, sql: str) -> list[str]:
    bindings = dict.fromkeys(re.findall(r":(\w+)", sql)) or (None,) * sql.count("?")
    if "?1" in sql:
        bindings = (None,) * len(set(re.findall(r"\?\d+", sql)))
    return [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", bindings)]


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_uses_an_index(name: str, connection: apsw.Connection) -> None:
    steps = plan(connection, STATEMENTS[name])
    assert not [step for step in steps if SORTS_OR_SCANS.search(step)], steps


INDEXES = {
    "inbox_turns": "tasks_open_turn",
    "board": "tasks_open_workspace",
    "board_every": "tasks_open",
    "assigned_count": "tasks_open",
    "children": "tasks_parent",
    "held": "tasks_open_session",
    "dedup": "tasks_key",
    "due_tasks": "tasks_due",
    "due_deliveries": "deliveries_open",
    "queue": "deliveries_open",
    "queue_sender": "deliveries_open",
    "outstanding": "deliveries_open",
    "failed": "tasks_failed",
    "inbox_notices": "notices_unread",
    "archivable": "events_settled",
    "tail_events_kind": "events_kind",
}


@pytest.mark.parametrize("name", INDEXES)
def test_a_hot_query_uses_the_index_made_for_it(name: str, connection: apsw.Connection) -> None:
    assert any(f"INDEX {INDEXES[name]} " in step for step in plan(connection, STATEMENTS[name]))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM tasks WHERE open <> 0 AND turn = 'x' ORDER BY task_id",
        "SELECT * FROM tasks WHERE state IN ('failed') ORDER BY updated_at",
        "SELECT * FROM deliveries WHERE open = 1 AND fact = 'working' AND task_id = 'x'",
    ],
)
def test_the_check_finds_a_predicate_spelled_otherwise(sql: str, connection: apsw.Connection) -> None:
    assert [step for step in plan(connection, sql) if SORTS_OR_SCANS.search(step)]


def test_no_index_is_without_use(connection: apsw.Connection) -> None:
    every = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")}
    used = {
        index
        for sql in STATEMENTS.values()
        for step in plan(connection, sql)
        for index in re.findall(r"INDEX (\w+)", step)
    }
    assert {name for name in every if not name.startswith("sqlite_")} - used == set()


def test_names_of_statements_are_unique() -> None:
    assert not named_statements("queries.sql").keys() & named_statements("log.sql").keys()
