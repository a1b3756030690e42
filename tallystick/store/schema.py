"""Brings the tables of a log to the present schema, step by step, and refuses what it does not know.

A step is a file `sql/NNNN_pre_name.sql` or `sql/NNNN_post_name.sql`. A *pre* step only adds, so that the previous
release still runs on it; the *post* step of the same number takes away, and runs at the first start after the one that
ran the pre step: until then one can go back. `PRAGMA user_version` is the version a program must know to open the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any, Final, Protocol

import msgspec

from tallystick.core.errors import unsupported

_NAME: Final = re.compile(r"([0-9]{4})_(pre|post)_([a-z0-9_]+)\.sql")
_NAMED: Final = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
FIRST: Final = 1


class Connection(Protocol):
    """What is needed of a database connection."""

    def execute(self, statements: str, bindings: Any = None, /) -> Iterable[Any]:
        """Run one or more statements."""
        ...


class Step(msgspec.Struct, frozen=True, order=True):
    """One step of the schema."""

    number: int
    post: bool
    name: str
    sql: str


def shipped_steps() -> list[Step]:
    """The steps that come with this program, in order."""
    folder = files("tallystick.store") / "sql"
    matches = [(match, entry) for entry in folder.iterdir() if (match := _NAME.fullmatch(entry.name))]
    return sorted(
        Step(int(match[1]), match[2] == "post", match[3], entry.read_text("utf-8")) for match, entry in matches
    )


def named_statements(file_name: str) -> dict[str, str]:
    """The statements of a file in `sql/`, by their names."""
    text = (files("tallystick.store") / "sql" / file_name).read_text("utf-8")
    parts = _NAMED.split(text)
    names, bodies = parts[1::2], parts[2::2]
    return {name: body.strip().removesuffix(";") for name, body in zip(names, bodies, strict=True)}


def apply_steps(connection: Connection, steps: Sequence[Step]) -> list[Step]:
    """Run what is missing, each step in a transaction of its own. Returns the steps that ran.

    Raises Refused (unsupported) where the file needs a newer program; nothing is changed then.
    """
    _refuse_newer(connection, steps)
    done = _recorded(connection)
    due = [step for step in steps if (step.number, step.post) not in done and _may_run(step, done)]
    for step in due:
        _run(connection, step)
    return due


def _refuse_newer(connection: Connection, steps: Sequence[Step]) -> None:
    needed = int(_one(connection, "PRAGMA user_version"))
    known = max(step.number for step in steps)
    if needed > known:
        raise unsupported(
            f"The log has schema {needed}; this program knows schemas up to {known}. Nothing was changed.",
            f"Install a version of tallystick that knows schema {needed}.",
        )


def _recorded(connection: Connection) -> set[tuple[int, bool]]:
    if not _one(connection, "SELECT count(*) FROM sqlite_schema WHERE name = 'schema_steps'"):
        return set()
    return {(number, bool(post)) for number, post in connection.execute("SELECT number, post FROM schema_steps")}


def _may_run(step: Step, done: set[tuple[int, bool]]) -> bool:
    return not step.post or (step.number, False) in done


def _run(connection: Connection, step: Step) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(step.sql)
        connection.execute("INSERT INTO schema_steps VALUES (?, ?, ?)", (step.number, step.post, step.name))
        if step.post or step.number == FIRST:
            connection.execute(f"PRAGMA user_version = {step.number:d}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _one(connection: Connection, sql: str) -> Any:
    return next(iter(connection.execute(sql)))[0]
