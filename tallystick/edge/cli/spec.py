"""How a verb of `tally` is described: parsing, help, completion and the reference all read these."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec


class Option(msgspec.Struct, frozen=True):
    """One `--name`. Without `value` it is a switch."""

    name: str
    help: str
    value: str = ""
    many: bool = False
    """Takes several values, and may be given again."""
    optional: bool = False
    """The value may be left out; it is taken only where it is of its `kind`."""
    kind: str = "text"
    """text, number or duration."""
    choices: tuple[str, ...] = ()
    completes: str = ""
    """The kind of names that fit: agent, task, check, workspace, permission, token, session."""
    argv: bool = False
    """Also `--name -- ARGV…`: the rest of the line is a command."""


class Argument(msgspec.Struct, frozen=True):
    """One word by its place."""

    name: str
    help: str
    required: bool = True
    many: bool = False
    choices: tuple[str, ...] = ()
    completes: str = ""


class Verb(msgspec.Struct, frozen=True, kw_only=True):
    """One verb; two words where it belongs to a family, such as `check add`."""

    name: str
    group: str
    summary: str
    example: str
    run: Callable[[Any], Awaitable[int]]
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    argv: str = ""
    """What stands after `--`, where the verb takes a command."""
    also: tuple[str, ...] = ()
    """Other names of it."""
    notes: str = ""

    def option(self, name: str) -> Option | None:
        """The option of that name."""
        return next((option for option in self.options if option.name == name), None)


GROUPS = ("Tasks", "Agents and places", "Running things", "Host")
"""The order of the overview."""

GLOBAL_OPTIONS = (
    Option("as", "Act as this agent.", "NAME", completes="agent"),
    Option("workspace", "In this workspace instead of the one of the working directory.", "W", completes="workspace"),
    Option("json", "One JSON document on standard output (JSON lines where it streams)."),
    Option("help", "What the verb does, its options and an example."),
)
"""Options of every verb, before or after it."""

ID = Argument("ID", "A task: its id, 4 or more of its first or last characters, or @last.", completes="task")
IDS = Argument("ID", "Tasks, as ids, 4 or more of their first or last characters, or @last.", True, True, (), "task")
TEXT = Argument("TEXT", "What to say; - reads standard input.")
MAYBE_TEXT = Argument("TEXT", "What to say; - reads standard input.", required=False)
FENCE = Option("fence", "The fence that `take` answered with; the CLI knows it by itself.", "N", kind="number")
REVISION = Option("revision", "The revision meant; else the one last shown to you.", "N", kind="number")
