"""How a refusal leaves through this door."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.app.diagnostics import Diagnostics
from tallystick.core.errors import ErrorCode, Refused


class Shape(msgspec.Struct, frozen=True):
    """One code as it is written on the wire. `status` is for the same door over HTTP."""

    code: str
    status: int


ERRORS: dict[ErrorCode, Shape] = {
    ErrorCode.INVALID: Shape("invalid", 400),
    ErrorCode.UNAUTHENTICATED: Shape("unauthenticated", 401),
    ErrorCode.DENIED: Shape("denied", 403),
    ErrorCode.NOT_FOUND: Shape("not_found", 404),
    ErrorCode.NO_ROUTE: Shape("no_route", 404),
    ErrorCode.OFFLINE: Shape("offline", 503),
    ErrorCode.CONFLICT: Shape("conflict", 409),
    ErrorCode.EXPIRED: Shape("expired", 410),
    ErrorCode.UNSUPPORTED: Shape("unsupported", 501),
    ErrorCode.UNAVAILABLE: Shape("unavailable", 503),
    ErrorCode.INTERNAL: Shape("internal", 500),
}
"""Every code, closed."""


def render(refused: Refused) -> dict[str, Any]:
    """The error object of an answer. Lone surrogates, which JSON cannot carry, become escapes."""
    fields = {"code": ERRORS[refused.code].code, "message": refused.message, "remedy": refused.remedy}
    return {name: text.encode("utf-8", "backslashreplace").decode("utf-8") for name, text in fields.items()}


def unforeseen(diagnostics: Diagnostics, where: str, error: Exception) -> Refused:
    """What a caller is told of an error of ours: a reference number. The detail goes to the diagnostics."""
    reference = diagnostics.failure(where, error)
    return Refused(
        ErrorCode.INTERNAL,
        f"The host failed while it answered; the reference is {reference}.",
        "Find it with `tally status --diagnostics`.",
    )
