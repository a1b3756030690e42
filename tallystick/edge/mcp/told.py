"""Forms as this door gives them: as `tally --json` does, with two things left out that readers here do not need."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.app.desk import forms

CALL_KEY = "mcp:"
"""How the keys begin that `tally mcp` gives each call, so that one sent again is done once."""


def plain(form: Any) -> dict[str, Any]:
    """A form as plain values."""
    found: dict[str, Any] = msgspec.to_builtins(form)
    return found


def told(shown: forms.Shown, *, history: bool = False) -> dict[str, Any]:
    """A task. Its history repeats every word, so it is there where it is asked for; a key that was given to a call for
    its own sake is nobody's business."""
    key = "" if shown.key.startswith(CALL_KEY) else shown.key
    return plain(msgspec.structs.replace(shown, key=key, history=shown.history if history else ()))
