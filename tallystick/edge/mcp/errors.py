"""How a refusal leaves through this door: as a tool's error that the model reads, or as an error of the protocol."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tallystick import wire
from tallystick.core.errors import ErrorCode, Refused

INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
"""Of the handshake era; the modern one says `INVALID_PARAMS`."""
UNSUPPORTED_VERSION: Final = -32022


class Shape(msgspec.Struct, frozen=True):
    """One code as it leaves: the number of the protocol, and how a model is told."""

    number: int
    heading: str


ERRORS: Final[dict[ErrorCode, Shape]] = {
    ErrorCode.INVALID: Shape(INVALID_PARAMS, "Not valid"),
    ErrorCode.UNAUTHENTICATED: Shape(INVALID_REQUEST, "Not authenticated"),
    ErrorCode.DENIED: Shape(INVALID_REQUEST, "Denied"),
    ErrorCode.NOT_FOUND: Shape(INVALID_PARAMS, "Not found"),
    ErrorCode.NO_ROUTE: Shape(INVALID_REQUEST, "No route"),
    ErrorCode.OFFLINE: Shape(INTERNAL_ERROR, "Offline"),
    ErrorCode.CONFLICT: Shape(INVALID_REQUEST, "Conflict"),
    ErrorCode.EXPIRED: Shape(INVALID_REQUEST, "Expired"),
    ErrorCode.UNSUPPORTED: Shape(INVALID_REQUEST, "Not supported"),
    ErrorCode.UNAVAILABLE: Shape(INTERNAL_ERROR, "Unavailable"),
    ErrorCode.INTERNAL: Shape(INTERNAL_ERROR, "Internal error"),
}
"""Every code, closed."""


class ProtocolError(Exception):
    """A request that the protocol itself refuses."""

    def __init__(self, number: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.number = number
        self.message = message
        self.data = data


def fields(refused: Refused) -> dict[str, str]:
    """`code, message, remedy`, without lone surrogates."""
    found = {"code": refused.code.value, "message": refused.message, "remedy": refused.remedy}
    return {name: text.encode("utf-8", "backslashreplace").decode("utf-8") for name, text in found.items()}


def tool_error(refused: Refused) -> dict[str, Any]:
    """A refusal as the result of a tool call: the model reads it, and can go on."""
    said = fields(refused)
    text = f"{ERRORS[refused.code].heading}: {said['message']}\n→ {said['remedy']}"
    return {
        "content": [{"type": "text", "text": wire.printable(text)}],
        "structuredContent": {"error": said},
        "isError": True,
    }


def protocol_error(refused: Refused) -> ProtocolError:
    """A refusal where no tool was called."""
    said = fields(refused)
    return ProtocolError(ERRORS[refused.code].number, f"{said['message']} {said['remedy']}".strip(), said)


def resource_error(refused: Refused, uri: Any, *, modern: bool) -> ProtocolError:
    """A refusal about a resource."""
    error = protocol_error(refused)
    absent = refused.code is ErrorCode.NOT_FOUND and not modern
    return ProtocolError(RESOURCE_NOT_FOUND if absent else error.number, error.message, {**error.data, "uri": uri})
