"""The desk's verbs as operations of the host API: JSON in, JSON out, the same forms as everywhere.

A request names who it is for in `as`, `workspace`, `cwd` and `env`; what it says of itself is only asserted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tallystick.app.calls import Call, Handler
from tallystick.app.desk import forms, reach
from tallystick.app.desk.interface import Desk, Guest
from tallystick.core.errors import invalid

_AROUND = frozenset({"id", "op", "as", "workspace", "cwd", "env", "tty", "client", "args"})


class Named(forms.Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A verb about one task."""

    task: str


class Worded(Named, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A verb about one task with words."""

    text: str = ""
    fence: int | None = None
    revision: int | None = None


class Claimed(Named, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`take`."""

    key: str = ""


class Since(forms.Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`activity`."""

    after: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    """A position: what came since."""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class Everything(forms.Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`board`."""

    everything: bool = False


class Message(forms.Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A verb about one message, by its id or its task's."""

    message: str


class Statistics(forms.Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`routes`."""

    stats: bool = False


class Nothing(forms.Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No arguments."""


class Waited(Named, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`wait`: until the task is newer than `version`, at most `seconds`."""

    version: int = 0
    seconds: float = 45.0


class Acknowledged(forms.Form, frozen=True, kw_only=True):
    """What `seen` answers with."""

    done: bool


Do = Callable[[Desk, Guest, Any], Awaitable[Any]]


class Verb(msgspec.Struct, frozen=True):
    """One operation: what it is for, what it takes in `args`, what its result is."""

    summary: str
    takes: type[forms.Form]
    gives: type[forms.Form]
    do: Do
    may_register: bool = False
    """Whether it makes the repository that the caller is in a workspace."""


async def _saw(desk: Desk, guest: Guest, f: forms.Inbox) -> Acknowledged:
    await desk.saw_inbox(guest, f)
    return Acknowledged(done=True)


async def _worded(name: str, desk: Desk, guest: Guest, f: Worded, *given: str) -> Any:
    options = {field: getattr(f, field) for field in given if getattr(f, field) is not None}
    return await getattr(desk, name)(guest, f.task, f.text, **options)


def _words(summary: str, name: str, *given: str) -> Verb:
    return Verb(summary, Worded, forms.Moved, lambda desk, guest, f: _worded(name, desk, guest, f, *given))


VERBS: dict[str, Verb] = {
    "ask": Verb(
        "Hand work to an agent, a person or a capability.",
        forms.Ask,
        forms.Receipt,
        lambda d, g, f: d.ask(g, f),
        may_register=True,
    ),
    "take": Verb(
        "Accept a task: the right to work on it, and the whole brief.",
        Claimed,
        forms.Taken,
        lambda d, g, f: d.take(g, f.task, key=f.key),
    ),
    "submit": Verb(
        "Hand in a result, or say that it failed.", forms.HandIn, forms.Moved, lambda d, g, f: d.submit(g, f)
    ),
    "progress": _words("Say how far it is.", "progress", "fence"),
    "question": _words("Ask back whoever asked; the turn moves there.", "question", "fence"),
    "answer": _words("Answer the open question.", "answer"),
    "changes": _words("Ask for changes of a result under review.", "changes", "revision"),
    "refuse": _words("Refuse a result under review for good.", "refuse", "revision"),
    "decline": _words("Decline a task that was not taken.", "decline"),
    "release": _words("Give a task back that was taken.", "release", "fence"),
    "cancel": _words("Cancel a task that one asked for.", "cancel"),
    "approve": Verb(
        "Accept a result under review.",
        Worded,
        forms.Moved,
        lambda d, g, f: d.approve(g, f.task, revision=f.revision, text=f.text),
    ),
    "show": Verb("Everything about a task.", Named, forms.Shown, lambda d, g, f: d.show(g, f.task)),
    "inbox": Verb("Whose turn is mine, and what happened.", Nothing, forms.Inbox, lambda d, g, _f: d.inbox(g)),
    "seen": Verb("Acknowledge an inbox that was shown: the very answer of `inbox`.", forms.Inbox, Acknowledged, _saw),
    "board": Verb(
        "The open tasks, or all.", Everything, forms.Board, lambda d, g, f: d.board(g, everything=f.everything)
    ),
    "activity": Verb(
        "The newest events, oldest of them first.",
        Since,
        forms.Lines,
        lambda d, g, f: d.activity(g, after=f.after, limit=f.limit),
    ),
    "trace": Verb(
        "Every event of a task's trace, across agents.", Named, forms.Lines, lambda d, g, f: d.trace(g, f.task)
    ),
    "agents": Verb("Who is here.", Nothing, forms.Agents, lambda d, g, _f: d.agents(g)),
    "sail": Verb(
        "Send a message to whoever holds a capability.", reach.Sail, reach.Sailed, lambda d, g, f: d.sail(g, f)
    ),
    "retreat": Verb(
        "Take a message back that has not begun.", Message, reach.LinkShown, lambda d, g, f: d.retreat(g, f.message)
    ),
    "routes": Verb(
        "Who holds which capability, and what became of what was asked of it.",
        Statistics,
        reach.Routes,
        lambda d, g, f: d.routes(g, stats=f.stats),
    ),
    "whoami": Verb("Who the caller is taken for, and why.", Nothing, forms.WhoAmI, lambda d, g, _f: d.whoami(g)),
    "workspaces": Verb(
        "The workspaces that the caller sees.", Nothing, forms.Workspaces, lambda d, g, _f: d.workspaces(g)
    ),
    "join": Verb(
        "Join an agent, or change what is given of one that is here.",
        forms.Join,
        forms.AgentShown,
        lambda d, g, f: d.join(g, f),
        may_register=True,
    ),
    "wait": Verb(
        "The task as soon as it is newer than `version`, or as it is after `seconds`.",
        Waited,
        forms.Shown,
        lambda d, g, f: d.wait(g, f.task, version=f.version, seconds=f.seconds),
    ),
    "outcome": Verb(
        "As `wait`, but only what became of the task: no brief, no history.",
        Waited,
        forms.Outcome,
        lambda d, g, f: d.outcome(g, f.task, version=f.version, seconds=f.seconds),
    ),
}
"""Every verb of the host API, by its name: the same over the Unix socket, HTTP and WebSocket."""


def verbs(desk: Desk) -> dict[str, Handler]:
    """The operations of the host API, by name."""
    return {name: _handler(desk, verb) for name, verb in VERBS.items()}


def _handler(desk: Desk, verb: Verb) -> Handler:
    async def handle(call: Call) -> Any:
        arguments = call.arguments
        if not arguments.keys() <= _AROUND:
            unknown = min(arguments.keys() - _AROUND)
            raise invalid(f"{unknown!r} is not understood here.", "What a verb takes stands in `args`.")
        given = _given(verb.takes, arguments.get("args", {}))
        guest = await desk.guest(
            call.facts,
            as_name=_text(arguments, "as"),
            workspace=_text(arguments, "workspace"),
            register=verb.may_register,
        )
        return await verb.do(desk, guest, given)  # a struct: whoever answers encodes it, once

    return handle


def _given(form: type[forms.Form], arguments: Any) -> forms.Form:
    try:
        return msgspec.convert(arguments, form, strict=True)
    except msgspec.ValidationError as error:
        raise invalid(f"The arguments do not fit: {error}.", "See docs/reference/api.md for what it takes.") from None


def _text(arguments: dict[str, Any], field: str) -> str:
    value = arguments.get(field, "")
    if isinstance(value, str):
        return value
    raise invalid(f"{field!r} must be text.", "Send a string.")
