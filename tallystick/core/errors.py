"""Refusals: what may be said when something is not done. A closed list of codes, one exception class.

May live here: the codes and `Refused`. Nothing that decides.
"""

from __future__ import annotations

from enum import StrEnum


class ErrorCode(StrEnum):
    """Why something was refused. Closed: every edge has a table over exactly these."""

    INVALID = "invalid"
    UNAUTHENTICATED = "unauthenticated"
    DENIED = "denied"
    NOT_FOUND = "not_found"
    NO_ROUTE = "no_route"
    OFFLINE = "offline"
    CONFLICT = "conflict"
    EXPIRED = "expired"
    UNSUPPORTED = "unsupported"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"


class Refused(Exception):
    """A request was refused and nothing was changed.

    `message` says what was refused and the present state; `remedy` says the next step and never
    suggests anything destructive.
    """

    def __init__(self, code: ErrorCode, message: str, remedy: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.remedy = remedy
        self.trace = ""
        """The trace in which the refusal is on record; empty where it is not."""

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


def invalid(message: str, remedy: str) -> Refused:
    """What was sent cannot be understood or breaks a stated limit."""
    return Refused(ErrorCode.INVALID, message, remedy)


def not_found(message: str, remedy: str) -> Refused:
    """Absent, or not yours to see: the same words for both."""
    return Refused(ErrorCode.NOT_FOUND, message, remedy)


def conflict(message: str, remedy: str) -> Refused:
    """The present state does not allow it."""
    return Refused(ErrorCode.CONFLICT, message, remedy)


def denied(message: str, remedy: str) -> Refused:
    """The caller may not do this."""
    return Refused(ErrorCode.DENIED, message, remedy)


def unavailable(message: str, remedy: str) -> Refused:
    """The host or something it needs cannot serve this now; trying again later may work."""
    return Refused(ErrorCode.UNAVAILABLE, message, remedy)


def unsupported(message: str, remedy: str) -> Refused:
    """This version or this machine does not have what was asked for."""
    return Refused(ErrorCode.UNSUPPORTED, message, remedy)
