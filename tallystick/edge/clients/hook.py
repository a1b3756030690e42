"""The operation `hook`: what a client says at a pause is read, the desk answers, the answer is written as it reads it.

The result is what the hook prints and how it ends: `out`, `err`, `exit`. `wait` is answered by whoever wakes clients.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from tallystick.app.calls import Call, CallerFacts, Handler
from tallystick.app.desk.interface import Desk, Guest
from tallystick.app.desk.pauses import Pause
from tallystick.core.errors import invalid
from tallystick.edge.clients.answers import SPEAKS

EVENTS = ("session", "prompt", "tool", "stop", "wait")
RAW_CHARACTERS = 256 * 1024


class Said(msgspec.Struct, frozen=True):
    """What the hook prints, and its exit code."""

    out: str = ""
    err: str = ""
    exit: int = 0


class Waiter(Protocol):
    """Who holds a hook that waits, until its session is to be woken."""

    async def __call__(self, guest: Guest, call: Call) -> str:
        """The notice that wakes it; empty: end without waking."""
        ...


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of the operation."""

    event: str
    raw: str = ""


def hook_op(desk: Desk, wait: Waiter | None = None) -> Handler:
    """The operation `hook` over a desk."""

    async def hook(call: Call) -> Said:
        asked = _asked(call)
        speech = SPEAKS.get(call.facts.client)
        if speech is None:
            raise invalid(f"No hook of {call.facts.client!r} is known here.", "Run `tally install` again.")
        pause = speech.read(asked.event, _object(asked.raw))
        guest = await desk.guest(_where(call.facts, pause))
        noticed = await desk.pause(guest, pause)
        if asked.event != "wait":
            return Said(out=speech.write(asked.event, noticed))
        notice = await wait(guest, call) if wait else ""
        return Said(err=notice, exit=2 if notice else 0)

    return hook


def _asked(call: Call) -> Asked:
    try:
        asked = msgspec.convert(call.arguments.get("args", {}), Asked, strict=True)
    except msgspec.ValidationError as error:
        raise invalid(f"The arguments do not fit: {error}.", "Run `tally install` again.") from None
    if asked.event not in EVENTS:
        raise invalid(f"{asked.event[:40]!r} is no pause.", f"It is one of {', '.join(EVENTS)}.")
    return asked


def _object(raw: str) -> dict[str, Any]:
    """What the client said, as far as it can be read: what cannot is as if it had said nothing."""
    try:
        found = msgspec.json.decode(raw[:RAW_CHARACTERS])
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _where(facts: CallerFacts, pause: Pause) -> CallerFacts:
    """The caller, in the directory that its client says the conversation is in."""
    if not pause.directory.startswith("/"):
        return facts
    return msgspec.structs.replace(facts, directory=pause.directory)

