"""Strict JSON at the door. msgspec refuses NaN, infinities, lone surrogates and overlong numbers by itself; duplicate
keys and depth are checked here, at a cost that a plain request does not feel."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tallystick.core.errors import Refused, invalid

DEPTH = 64
"""How deep objects and arrays may nest, all counted together."""

_decode = msgspec.json.Decoder().decode
_REMEDY = "Send one JSON object, UTF-8, each key once."


class _Duplicate(Exception):
    """A key stands twice in one object."""


def parse(line: bytes, what: str = "line") -> dict[str, Any]:
    """One line, or one body over HTTP, as an object; `what` is how a refusal calls it. Raises `Refused` `invalid`."""
    try:
        value = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid(f"The {what} is no strict JSON: {error}.", _REMEDY) from None
    except RecursionError:
        raise _too_deep(what) from None
    if type(value) is not dict:
        raise invalid(f"The {what} is no JSON object.", _REMEDY)
    if not _has_each_key_once(line, _count_keys(value, what)):
        _refuse_duplicates(line)
    return value


_WHITE = b" \t\r\n"


def _has_each_key_once(line: bytes, keys: int) -> bool:
    """A cheap proof; False only means that it is not proved. Every key of the text is followed by a colon. A quote
    inside a text is always escaped, so without white space `":` stands at least once for each key."""
    return line.count(b":") == keys or line.translate(None, _WHITE).count(b'":') == keys


def _count_keys(value: Any, what: str, depth: int = 1) -> int:
    """The keys of an object or array and of all that is nested in it. Refused where that is deeper than `DEPTH`."""
    if depth > DEPTH:
        raise _too_deep(what)
    is_object = type(value) is dict
    keys = len(value) if is_object else 0
    for item in value.values() if is_object else value:
        if type(item) is dict or type(item) is list:
            keys += _count_keys(item, what, depth + 1)
    return keys


def _refuse_duplicates(line: bytes) -> None:
    try:
        json.loads(line, object_pairs_hook=_once)
    except _Duplicate as error:
        raise invalid(f"The key {str(error)[:100]!r} stands twice in one object.", _REMEDY) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Duplicate(key)
        found[key] = value
    return found


def _too_deep(what: str) -> Refused:
    return invalid(f"The {what} nests deeper than {DEPTH}.", "Send flatter JSON.")
