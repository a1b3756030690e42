"""How refusals leave over HTTP: the ERRORS table gives the status, and the protocol itself has a few of its own."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from tallystick.core.errors import ErrorCode, Refused
from tallystick.edge.api.errors import ERRORS, render

_encode = msgspec.json.Encoder().encode

HEADERS: dict[str, str] = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""On every answer that does not set its own."""


class Protocol(msgspec.Struct, frozen=True):
    """One refusal of the protocol."""

    code: ErrorCode
    message: str
    remedy: str
    closes: bool = False
    """Whether the rest of the request is not read."""


PROTOCOL: dict[int, Protocol] = {
    400: Protocol(ErrorCode.INVALID, "The request is no HTTP that this host takes.", "Send plain HTTP/1.1.", True),
    403: Protocol(
        ErrorCode.DENIED,
        "The request comes from a page of another site.",
        "Only pages of this host and programs may ask it; programs send no Origin and no Sec-Fetch-Site.",
        True,
    ),
    405: Protocol(
        ErrorCode.INVALID, "This path does not take that method.", "Verbs take POST, streams and descriptions GET."
    ),
    411: Protocol(
        ErrorCode.INVALID, "The request does not say how long its body is.", "Send Content-Length, not chunks.", True
    ),
    413: Protocol(
        ErrorCode.INVALID, "The body is longer than {limit} bytes.", "Send less, or refer to a file or commit.", True
    ),
    415: Protocol(
        ErrorCode.INVALID, "The body is not declared as JSON.", "Send `Content-Type: application/json`, unpacked.", True
    ),
    421: Protocol(
        ErrorCode.DENIED,
        "The request names another host than this one.",
        "Send exactly one Host header with the address that `tally status` shows.",
        True,
    ),
    426: Protocol(ErrorCode.INVALID, "This path speaks WebSocket.", "Open it as a WebSocket, version 13."),
    431: Protocol(ErrorCode.INVALID, "The head of the request is too long.", "Send fewer or shorter headers.", True),
}
"""By status: what is refused before a verb is looked at."""


class ProtocolRefused(Refused):
    """A refusal with a status of its own."""

    def __init__(self, status: int, **filled: Any) -> None:
        row = PROTOCOL[status]
        super().__init__(row.code, row.message.format(**filled), row.remedy)
        self.status = status
        self.allow = ""
        """For 405: the methods that are taken."""


def wrong_method(allowed: tuple[str, ...]) -> ProtocolRefused:
    """405, with what is allowed."""
    refused = ProtocolRefused(405)
    refused.allow = ", ".join(allowed)
    return refused


def status_of(refused: Refused) -> int:
    """The HTTP status of a refusal."""
    return refused.status if isinstance(refused, ProtocolRefused) else ERRORS[refused.code].status


def body_of(refused: Refused) -> bytes:
    """`{"error": {code, message, remedy}}`."""
    return _encode({"error": render(refused)})


def answer(value: Any, status: int = 200) -> Response:
    """A JSON answer."""
    return Response(_encode(value), status, media_type="application/json")


def refusal(refused: Refused) -> Response:
    """The answer that a refusal is."""
    status = status_of(refused)
    response = Response(body_of(refused), status, media_type="application/json")
    if status == 401:
        response.headers["www-authenticate"] = "Bearer"
    if isinstance(refused, ProtocolRefused):
        if refused.allow:
            response.headers["allow"] = refused.allow
        if status == 426:
            response.headers["upgrade"] = "websocket"
        if PROTOCOL[status].closes:
            response.headers["connection"] = "close"
    return response


def raw(status: int) -> bytes:
    """A refusal as it is written to a connection that has not sent a whole head."""
    refused = ProtocolRefused(status)
    body = body_of(refused)
    lines = [f"HTTP/1.1 {status} Refused", "content-type: application/json", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in HEADERS.items()]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode() + body
