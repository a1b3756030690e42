"""What a client's errors mean here: by number, never by their words. Numbers of this protocol stay in this room."""

from __future__ import annotations

from typing import Any, Final

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


class ClientError(Refused):
    """A refusal that is a client's own error: `number` and `fields` as they stand in the protocol."""

    def __init__(self, code: ErrorCode, message: str, remedy: str, number: int, fields: dict[str, Any]) -> None:
        super().__init__(code, message, remedy)
        self.number = number
        self.fields = fields


def refused(what: str, number: int, message: str, data: Any = None) -> ClientError:
    """A client's error as a refusal. What it says besides the bare kind of error comes first."""
    fields: dict[str, Any] = data if isinstance(data, dict) else {}
    said = str(fields.get("details") or fields.get("message") or message)
    known, remedy = CODES.get(number, (ErrorCode.UNAVAILABLE, "Look at its log in log/ of the home."))
    return ClientError(known, f"{what}: its client says {said[:_LONGEST]!r}.", remedy, number, fields)


def gone(what: str) -> Refused:
    """Its process is no more, or does not answer."""
    return Refused(ErrorCode.OFFLINE, f"{what}: its client is gone.", "Look at its log in log/ of the home.")
