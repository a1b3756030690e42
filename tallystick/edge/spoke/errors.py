"""How a refusal leaves in a FAIL frame."""

from __future__ import annotations

from typing import Final

from tallystick.app.desk.reach import PartRefused as Told
from tallystick.core.errors import ErrorCode, Refused
from tallystick.edge.spoke.frames import PartRefused, Refusal

ERRORS: Final[dict[ErrorCode, str]] = {
    ErrorCode.INVALID: "invalid",
    ErrorCode.UNAUTHENTICATED: "unauthenticated",
    ErrorCode.DENIED: "denied",
    ErrorCode.NOT_FOUND: "not_found",
    ErrorCode.NO_ROUTE: "no_route",
    ErrorCode.OFFLINE: "offline",
    ErrorCode.CONFLICT: "conflict",
    ErrorCode.EXPIRED: "expired",
    ErrorCode.UNSUPPORTED: "unsupported",
    ErrorCode.UNAVAILABLE: "unavailable",
    ErrorCode.INTERNAL: "internal",
}
"""Every code, closed."""

ENDS: Final = {
    "failed": "The handler failed, and what it said stands in the message.",
    "timeout": "Nobody answered in time; the work may still come to an end.",
    "unverified": "It was begun, and nobody knows what became of it.",
    "canceled": "It was taken back.",
}
"""Codes of how a message that was taken can end without a result, besides those of a refusal."""


def refusal(refused: Refused, of: str = "", delivery: str = "") -> Refusal:
    """The body of a FAIL. Lone surrogates, which JSON cannot carry, become escapes."""
    message, remedy = (text.encode("utf-8", "backslashreplace").decode() for text in (refused.message, refused.remedy))
    return Refusal(code=ERRORS[refused.code], message=message, remedy=remedy, of=of, delivery=delivery)


def part_refused(told: Told) -> PartRefused:
    """The same of a part of a message to all, for its ACK."""
    said = refusal(Refused(ErrorCode(told.code), told.message, told.remedy))
    return PartRefused(index=told.index, code=said.code, message=said.message, remedy=said.remedy)
