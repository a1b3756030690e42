"""What the lines of the protocol say, whichever socket they come in at: the handshake, the number of a call."""

from __future__ import annotations

import os
from typing import Annotated, Any

import msgspec

from tallystick import __version__, wire
from tallystick.core.errors import Refused, invalid, unsupported


def agree(message: dict[str, Any]) -> tuple[int, str]:
    """The version of the protocol that a hello and this host share, and what the client calls itself."""
    hello = message.get("hello")
    lowest, highest = _range(hello.get("protocol") if isinstance(hello, dict) else None)
    version = min(highest, wire.PROTOCOL[1])
    if version < max(lowest, wire.PROTOCOL[0]):
        raise unsupported(
            f"The running host {__version__} speaks versions {wire.PROTOCOL[0]} to {wire.PROTOCOL[1]} of the"
            f" protocol, this client {lowest} to {highest}.",
            "Use the client of the host's version, or replace the host by yours with `tally up --replace`.",
        )
    return version, str(hello.get("client", ""))[:40] if isinstance(hello, dict) else ""


def welcome(version: int) -> dict[str, Any]:
    """The answer to a hello."""
    return {"welcome": {"protocol": version, "host": __version__, "pid": os.getpid()}}


def call_id_of(message: dict[str, Any]) -> int:
    """The number that a client gave its call."""
    value = message.get("id")
    if type(value) is not int or not 0 <= value < 2**53:
        raise invalid("The line has no id, or its id is no integer from 0 to 2^53.", "Number the requests from 1.")
    return value


class _Glimpse(msgspec.Struct):
    id: Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
    frame: msgspec.Raw = msgspec.Raw()


def glimpse(line: bytes) -> tuple[int | None, bytes]:
    """What a line that is no strict JSON still tells: the number of its call, None where that cannot be read, and the
    text of its frame, empty where it has none."""
    try:
        seen = msgspec.json.decode(line, type=_Glimpse)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None, b""
    return seen.id, bytes(seen.frame)


def no_operation(op: Any) -> Refused:
    """There is no such operation here."""
    return unsupported(
        f"This host has no operation {str(op)[:100]!r}.", "Use a client of the host's version: `tally status`."
    )


def _range(versions: Any) -> tuple[int, int]:
    if isinstance(versions, list) and len(versions) == 2 and all(type(v) is int for v in versions):
        return versions[0], versions[1]
    raise invalid(
        "The first line must be a hello with a range of protocol versions.",
        'Begin with {"hello":{"protocol":[1,1],"client":"NAME","version":"1"}}.',
    )
