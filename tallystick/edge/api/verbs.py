"""The desk's verbs as operations of the host API: JSON in, JSON out, the same forms as everywhere.

A request names who it is for in `as`, `workspace`, `cwd` and `env`; what it says of itself is only asserted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from tallystick.app.calls import Call, Handler
from tallystick.app.desk import forms
from tallystick.app.desk.interface import Desk, Guest
from tallystick.core.errors import invalid

_AROUND = frozenset({"id", "op", "as", "workspace", "cwd", "env", "tty", "args"})


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

    after: int = 0
    limit: int = 50


class Everything(forms.Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`board`."""

    everything: bool = False


class Nothing(forms.Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No arguments."""


class Waited(Named, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`wait`: until the task is newer than `version`, at most `seconds`."""

    version: int = 0
    seconds: float = 45.0


Verb = Callable[[Desk, Guest, Any], Awaitable[Any]]


async def _inbox(desk: Desk, guest: Guest, _f: Nothing) -> forms.Inbox:
    return await desk.inbox(guest)


async def _saw(desk: Desk, guest: Guest, f: forms.Inbox) -> dict[str, bool]:
    await desk.saw_inbox(guest, f)
    return {"done": True}


async def _worded(name: str, desk: Desk, guest: Guest, f: Worded, *given: str) -> Any:
    options = {field: getattr(f, field) for field in given if getattr(f, field) is not None}
    return await getattr(desk, name)(guest, f.task, f.text, **options)


def _words(name: str, *given: str) -> tuple[type[forms.Form], Verb]:
    return Worded, lambda desk, guest, f: _worded(name, desk, guest, f, *given)


_VERBS: dict[str, tuple[type[forms.Form], Verb]] = {
    "ask": (forms.Ask, lambda d, g, f: d.ask(g, f)),
    "take": (Claimed, lambda d, g, f: d.take(g, f.task, key=f.key)),
    "submit": (forms.HandIn, lambda d, g, f: d.submit(g, f)),
    "progress": _words("progress", "fence"),
    "question": _words("question", "fence"),
    "answer": _words("answer"),
    "changes": _words("changes", "revision"),
    "refuse": _words("refuse", "revision"),
    "decline": _words("decline"),
    "release": _words("release", "fence"),
    "cancel": _words("cancel"),
    "approve": (Worded, lambda d, g, f: d.approve(g, f.task, revision=f.revision, text=f.text)),
    "show": (Named, lambda d, g, f: d.show(g, f.task)),
    "inbox": (Nothing, _inbox),
    "seen": (forms.Inbox, _saw),
    "board": (Everything, lambda d, g, f: d.board(g, everything=f.everything)),
    "activity": (Since, lambda d, g, f: d.activity(g, after=f.after, limit=f.limit)),
    "trace": (Named, lambda d, g, f: d.trace(g, f.task)),
    "agents": (Nothing, lambda d, g, _f: d.agents(g)),
    "whoami": (Nothing, lambda d, g, _f: d.whoami(g)),
    "workspaces": (Nothing, lambda d, g, _f: d.workspaces(g)),
    "join": (forms.Join, lambda d, g, f: d.join(g, f)),
    "wait": (Waited, lambda d, g, f: d.wait(g, f.task, version=f.version, seconds=f.seconds)),
}
_REGISTER = frozenset({"ask", "join"})


def verbs(desk: Desk) -> dict[str, Handler]:
    """The operations of the host API, by name."""
    found = {name: _handler(desk, name, form, verb) for name, (form, verb) in _VERBS.items()}

    async def hint(call: Call) -> dict[str, str]:
        guest = await desk.guest(call.facts, as_name=_text(call.arguments, "as"))
        return {"text": await desk.hint(guest)}

    return {**found, "inbox_hint": hint}


def _handler(desk: Desk, name: str, form: type[forms.Form], verb: Verb) -> Handler:
    async def handle(call: Call) -> Any:
        arguments = call.arguments
        unknown = arguments.keys() - _AROUND
        if unknown:
            raise invalid(f"{min(unknown)!r} is not understood here.", "What a verb takes stands in `args`.")
        given = _given(form, arguments.get("args", {}))
        guest = await desk.guest(
            call.facts,
            as_name=_text(arguments, "as"),
            workspace=_text(arguments, "workspace"),
            register=name in _REGISTER,
        )
        return msgspec.to_builtins(await verb(desk, guest, given))

    return handle


def _given(form: type[forms.Form], arguments: Any) -> forms.Form:
    try:
        return msgspec.convert(arguments, form, strict=True)
    except msgspec.ValidationError as error:
        raise invalid(f"The arguments do not fit: {error}.", "See docs/reference/api.md for what it takes.") from None


def _text(arguments: dict[str, Any], field: str) -> str:
    value = arguments.get(field, "")
    if not isinstance(value, str):
        raise invalid(f"{field!r} must be text.", "Send a string.")
    return value
