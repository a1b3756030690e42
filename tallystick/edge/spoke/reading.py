"""From an object of strict JSON to a frame: what it does not say rightly is refused, with the place.

Duplicate keys and depth are looked at where the bytes come in, for all that comes in there alike.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tallystick.app.calls import Unread
from tallystick.core.errors import Refused, invalid, unsupported
from tallystick.edge.spoke.frames import NAME_CHARACTERS, TO_HOST, VERSION, Frame, Header

_REMEDY: Final = "Send the frame as REACH-RPC 1 has it: docs/reference/reach.md."
_PARTS: Final = frozenset({"header", "body"})
_NEEDED: Final = {"ANCHOR": (), "SAIL": ("target_capability",), "SETTLE": ("trace_id",)}
"""Fields of the header that a kind of frame cannot do without, besides those that all have."""


class FrameRefused(Refused):
    """A frame that was not taken. `msg_id`, `of` and `delivery` as far as they could be read, so that who sent it knows
    which it was; `ends`: nothing more is read."""

    def __init__(self, refused: Refused, msg_id: str, of: str, delivery: str = "", *, ends: bool = False) -> None:
        super().__init__(refused.code, refused.message, refused.remedy)
        self.msg_id = msg_id
        self.of = of
        self.delivery = delivery
        self.ends = ends


def read(message: Any) -> Frame:
    """The frame that an object is. Raises `FrameRefused`."""
    if not isinstance(message, dict) or message.keys() != _PARTS:
        raise _no_frame(message)
    try:
        header = msgspec.convert(message["header"], Header)
        body = msgspec.convert(message["body"], TO_HOST[header.msg_type])
    except (msgspec.ValidationError, KeyError) as error:
        raise _wrong(message["header"], message["body"], error) from None
    if not header.msg_id:
        raise FrameRefused(invalid("The header names no message.", _REMEDY), "", header.msg_type)
    for field in _NEEDED.get(header.msg_type, ()):
        if not getattr(header, field):
            wrong = invalid(f"The header of {header.msg_type} has no `{field}`.", _REMEDY)
            raise FrameRefused(wrong, header.msg_id, header.msg_type)
    return Frame(header, body)


def _no_frame(message: Any) -> FrameRefused:
    if isinstance(message, Unread):
        return _unread(message.refused, message.text)
    return FrameRefused(invalid("A frame is an object with `header` and `body`, no more.", _REMEDY), "", "")


def _wrong(header: Any, body: Any, error: Exception) -> FrameRefused:
    """What is wrong with a frame, with what it still tells of itself."""
    if not isinstance(header, dict):
        return _no_frame(header)
    msg_id, of = _short(header.get("msg_id")), _short(header.get("msg_type"))
    version = header.get("proto_version")
    if type(version) is int and version != VERSION:
        refused = unsupported(
            f"This host speaks version {VERSION} of REACH-RPC, not {version}.",
            "Use the SDK of the host's version: `tally version`.",
        )
        return FrameRefused(refused, msg_id, of, ends=True)
    if of and of not in TO_HOST:
        known = ", ".join(sorted(TO_HOST))
        return FrameRefused(unsupported(f"The host takes no frame {of!r}.", f"It takes: {known}."), msg_id, of)
    delivery = _short(body.get("delivery")) if isinstance(body, dict) else ""
    return FrameRefused(invalid(f"The {of or 'frame'} is not valid: {error}.", _REMEDY), msg_id, of, delivery)


def _short(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= NAME_CHARACTERS else ""


class _Names(msgspec.Struct):
    msg_id: str = ""
    msg_type: str = ""


class _About(msgspec.Struct):
    delivery: str = ""


class _Glimpse(msgspec.Struct):
    header: _Names = msgspec.field(default_factory=_Names)
    body: _About = msgspec.field(default_factory=_About)


def _unread(refused: Refused, text: bytes) -> FrameRefused:
    """The refusal of bytes that are no strict JSON (too deep, say), with what they still tell of the frame."""
    try:
        seen = msgspec.json.decode(text, type=_Glimpse)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return FrameRefused(refused, "", "")
    names = (seen.header.msg_id, seen.header.msg_type, seen.body.delivery)
    return FrameRefused(refused, *map(_short, names))
