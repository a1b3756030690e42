"""The shape of payloads: what is checked, and the port that it is checked by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

import msgspec

from tallystick.core.events import Text

DEPTH: Final = 62
"""How deep the objects and arrays in one another may be of what goes on to programs as JSON: a frame around it has two
more, and a line is read to a depth of 64."""


class Shapes(Protocol):
    """Checks payloads against the JSON schemas of capabilities, without holding up anything else."""

    async def wrong(self, payload: bytes, schema: str) -> str:
        """What is wrong with a payload, with the place; empty for nothing, or where no schema is given."""
        ...


def is_json(words: str) -> bool:
    """Whether somebody's words can go on to programs as the JSON that they are: they are some, and no deeper than
    `DEPTH`."""
    try:
        msgspec.json.decode(words, type=msgspec.Raw)
        return words.count("{") + words.count("[") <= DEPTH or not _is_deeper(msgspec.json.decode(words))
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False


def _is_deeper(value: Any) -> bool:
    """Whether objects and arrays are in one another more than `DEPTH` times."""
    level = [value]
    for _ in range(DEPTH):
        level = [inner for one in level if isinstance(one, dict | list) for inner in _parts(one)]
    return any(isinstance(one, dict | list) for one in level)


def _parts(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def object_of(words: str) -> dict[str, Any] | None:
    """The JSON object that somebody's words are; None where they are none, or too deep."""
    value = msgspec.json.decode(words) if is_json(words) else None
    return value if isinstance(value, dict) else None


def payload_of(text: Text) -> bytes:
    """The words of a message as JSON. What people wrote (`tally ask cap:NAME`), or the host (a failure notice), is an
    object with `title` and `body`; so is what nests deeper than `DEPTH`."""
    if is_json(text.body):
        return text.body.encode()
    return msgspec.json.encode({"title": text.title, "body": text.body})


def canonical(words: str) -> str:
    """JSON in the one form that it is compared in, with sorted keys and no white space: who writes the keys of an
    object in another order asks for the same. What is no JSON stays as it is."""
    try:
        return msgspec.json.encode(msgspec.json.decode(words), order="deterministic").decode()
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return words
