"""The shape of payloads: what is checked, and the port that it is checked by."""

from __future__ import annotations

from typing import Protocol

import msgspec

from tallystick.core.events import Text


class Shapes(Protocol):
    """Checks payloads against the JSON schemas of capabilities, without holding up anything else."""

    async def wrong(self, payload: bytes, schema: str) -> str:
        """What is wrong with a payload, with the place; empty for nothing, or where no schema is given."""
        ...


def payload_of(text: Text) -> bytes:
    """The words of a message as JSON. What people wrote (`tally ask cap:NAME`), or the host (a failure notice), is an
    object with `title` and `body`; so is what nests deeper than can be read."""
    body = text.body.encode()
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return msgspec.json.encode({"title": text.title, "body": text.body})
    return body


def canonical(words: str) -> str:
    """JSON in the one form that it is compared in, with sorted keys and no white space: who writes the keys of an
    object in another order asks for the same. What is no JSON stays as it is."""
    try:
        return msgspec.json.encode(msgspec.json.decode(words), order="deterministic").decode()
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return words
