"""What a client's errors mean here: by number, never by their words. Numbers of this protocol stay in this room."""

from __future__ import annotations

from typing import Final

from tallystick.core.errors import ErrorCode, Refused

CODES: Final[dict[int, tuple[ErrorCode, str]]] = {
    -32000: (ErrorCode.UNAUTHENTICATED, "Log in with the client itself, or give its key in agents/NAME.toml."),
    -32002: (ErrorCode.NOT_FOUND, "A new session is begun the next time."),
    -32600: (ErrorCode.UNSUPPORTED, "See docs/how-to/drive.md for the versions that were measured."),
    -32601: (ErrorCode.UNSUPPORTED, "See docs/how-to/drive.md for the versions that were measured."),
    -32602: (ErrorCode.UNSUPPORTED, "See docs/how-to/drive.md for the versions that were measured."),
}
"""JSON-RPC errors of the Agent Client Protocol."""
_LONGEST: Final = 300


def refused(what: str, code: int, message: str) -> Refused:
    """A client's error as a refusal."""
    known, remedy = CODES.get(code, (ErrorCode.UNAVAILABLE, "Look at its log in log/ of the home."))
    return Refused(known, f"{what}: its client says {message[:_LONGEST]!r}.", remedy)


def gone(what: str) -> Refused:
    """Its process is no more, or does not answer."""
    return Refused(ErrorCode.OFFLINE, f"{what}: its client is gone.", "Look at its log in log/ of the home.")
