"""What travels as a payload or a result: plain JSON values, exactly as they were given."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from tallystick.sdk.errors import ReachRefused, invalid
from tallystick.sdk.frames import PAYLOAD_BYTES
from tallystick.sdk.reference import as_text

_LEAST, _MOST = -(2**63), 2**64 - 1
"""The integers that JSON readers on both sides take."""

DEPTH: Final = 60
"""How deep lists and dicts may be in one another: the host takes lines of 64, and the frame around it counts too."""

_REMEDY: Final = "Give plain JSON values (text, numbers, lists, dicts with text as keys), or a msgspec.Struct."


def plain(value: Any, what: str) -> Any:
    """A payload as plain JSON values; a tuple becomes a list, a Struct a dict. Raises `ReachRefused` `invalid`, with
    the place, for what JSON would carry as something else, for more than 256 KiB of it, and for what nests too deep."""
    try:
        found = _plain(value, "$", what)
        encoded = msgspec.json.encode(found)
    except ReachRefused:
        raise
    except RecursionError:
        raise invalid(f"The {what} is nested too deep, or holds itself.", _REMEDY) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise invalid(f"The {what} cannot be sent as JSON: {error}.", _REMEDY) from None
    if len(encoded) > PAYLOAD_BYTES:
        raise invalid(
            f"The {what} is {len(encoded)} bytes long as JSON; at most {PAYLOAD_BYTES} are taken.",
            "Send a reference to a file, commit or blob instead.",
        )
    if encoded.count(b"{") + encoded.count(b"[") > DEPTH and _is_deeper(found):
        raise invalid(f"The {what} nests deeper than {DEPTH}.", "Send flatter JSON, or a reference to a file.")
    return msgspec.json.decode(encoded)


def _is_deeper(value: Any) -> bool:
    """Whether lists and dicts are in one another more than `DEPTH` times."""
    level = [value]
    for _ in range(DEPTH + 1):
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return False
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return True


def _plain(value: Any, path: str, what: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # a reference, or a member of an enumeration of texts
    if isinstance(value, int | float):
        return _number(value, path, what)
    if isinstance(value, dict):
        return {_key(key, path, what): _plain(one, f"{path}.{key}", what) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one, f"{path}[{index}]", what) for index, one in enumerate(value)]
    if isinstance(value, msgspec.Struct):  # its types say how each field is written, and read again
        return _plain(msgspec.to_builtins(value, str_keys=True, enc_hook=as_text), path, what)
    raise _refused(f"a value of type {type(value).__name__}", path, what)


def _number(value: float, path: str, what: str) -> float:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _refused(f"the number {value}", path, what)
        return float(value)
    if not _LEAST <= value <= _MOST:
        raise _refused("an integer of more than 64 bits", path, what)
    return int(value)


def _key(key: Any, path: str, what: str) -> str:
    if not isinstance(key, str):
        raise _refused(f"the key {key!r:.60}", path, what)
    return key


def _refused(found: str, path: str, what: str) -> ReachRefused:
    return invalid(f"The {what} cannot be sent as JSON: {found} at {path}.", _REMEDY)
