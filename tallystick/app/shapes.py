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
    object with `title` and `body`."""
    body = text.body.encode()
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except msgspec.DecodeError:
        return msgspec.json.encode({"title": text.title, "body": text.body})
    return body
