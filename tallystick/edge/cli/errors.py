"""Refusals as a command shows them: an exit code, a heading, the message and the next step."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from tallystick.core.errors import ErrorCode, Refused
from tallystick.edge.cli.help import usage
from tallystick.edge.cli.page import Paint, Sheet
from tallystick.edge.cli.parse import Usage

ERRORS: Final[dict[ErrorCode, tuple[int, str]]] = {
    ErrorCode.INVALID: (2, "not valid"),
    ErrorCode.UNAUTHENTICATED: (1, "not authenticated"),
    ErrorCode.DENIED: (1, "denied"),
    ErrorCode.NOT_FOUND: (1, "not found"),
    ErrorCode.NO_ROUTE: (1, "no route"),
    ErrorCode.OFFLINE: (1, "offline"),
    ErrorCode.CONFLICT: (1, "conflict"),
    ErrorCode.EXPIRED: (1, "expired"),
    ErrorCode.UNSUPPORTED: (1, "not supported"),
    ErrorCode.UNAVAILABLE: (1, "unavailable"),
    ErrorCode.INTERNAL: (1, "internal error"),
}
"""The exit code and the heading of every error code."""


def exit_code(error: Refused | Usage) -> int:
    """The exit code of an error."""
    return 2 if isinstance(error, Usage) else ERRORS[error.code][0]


def error_data(error: Refused | Usage) -> dict[str, Any]:
    """An error as `--json` shows it."""
    code = ErrorCode.INVALID if isinstance(error, Usage) else error.code
    return {"error": {"code": code.value, "message": error.message, "remedy": _remedy(error)}}


def _remedy(error: Refused | Usage) -> str:
    if isinstance(error, Refused) or error.verb is None:
        return error.remedy
    return f"{error.remedy} Usage: {usage(error.verb)}".strip()


def show_error(sheet: Sheet, error: Refused | Usage, about: str = "") -> None:
    """`tally: message`, and under it the next step; for a usage error also the usage."""
    heading = "" if isinstance(error, Usage) else f" ({ERRORS[error.code][1]})"
    sheet.line(Paint("tally:", "red"), " ", f"{about}: " if about else "", error.message, heading)
    if error.remedy:
        sheet.line("→ ", error.remedy, indent=2)
    if isinstance(error, Usage) and error.verb is not None:
        sheet.line(Paint("usage", "bold"), " ", usage(error.verb), indent=2)


def encode(value: Any) -> str:
    """One JSON document on one line. Lone surrogates, which UTF-8 cannot hold, become JSON's own escapes."""
    try:
        return msgspec.json.encode(value).decode() + "\n"
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value)) + "\n"
