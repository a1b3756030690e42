"""Events to bytes and back, and the chain that links them.

The words of an event (`text`) leave it here: they become a body (a random salt, then JSON) that can be erased, while
the record keeps the sha256 of both. May live here: encoding, schema versions of events, the hash. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from tallystick.core.events import ERASED, Event, Recorded, Text
from tallystick.core.identity import Actor

SALT_BYTES: Final = 16
"""Salt in front of every body, so that the digest that stays after erasing tells nothing about short texts."""

GENESIS: Final = bytes(32)
"""What stands in place of the previous hash for the first event."""

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns the decoded data of one schema version into that of the next; may change `type` as well."""

SCHEMAS: Final[dict[str, int]] = {}
"""Event types whose data is written in another schema version than 1."""

UPCASTERS: Final[dict[tuple[str, int], Upcaster]] = {}
"""By event type and the version that was written."""


class Sealed(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A record as it is stored: plain values only."""

    stream: str
    version: int
    workspace: str
    type: str
    schema: int
    at: float
    actor: str
    subject: str
    trace: str
    cause: int
    key: str
    data: str
    digest: bytes
    """sha256(salt ‖ body); empty for an event without words."""


_encode = msgspec.json.Encoder().encode
_decode_event = msgspec.json.Decoder(Event).decode
_decode_text = msgspec.json.Decoder(Text).decode
_decode_actor = msgspec.json.Decoder(Actor).decode
_decode_plain = msgspec.json.Decoder(dict[str, Any]).decode


def digest_of(body: bytes) -> bytes:
    """The digest of a body with its salt, as the record holds it."""
    return sha256(body).digest()


def canonical(sealed: Sealed) -> bytes:
    """One JSON array over all that the hash covers: no two different records give the same bytes."""
    return covered(
        (
            sealed.workspace,
            sealed.stream,
            sealed.version,
            sealed.type,
            sealed.schema,
            sealed.at,
            sealed.actor,
            sealed.subject,
            sealed.trace,
            sealed.cause,
            sealed.key,
            sealed.data,
            sealed.digest.hex(),
        )
    )


def covered(values: tuple[Any, ...]) -> bytes:
    """`canonical` of the same values, in the same order, where no `Sealed` was made of them."""
    return _encode(values)


def link(previous: bytes, position: int, covered: bytes) -> bytes:
    """The hash of an event: over the previous hash (32 bytes), its position (8 bytes) and `canonical` of it."""
    return sha256(previous + position.to_bytes(8, "big") + covered).digest()


class Codec:
    """Seals and opens records. Tables of schema versions come in so that they can be tested while they are empty."""

    def __init__(
        self, schemas: Mapping[str, int] = SCHEMAS, upcasters: Mapping[tuple[str, int], Upcaster] = UPCASTERS
    ) -> None:
        self._schemas = schemas
        self._upcasters = upcasters

    def seal(self, record: Recorded, salt: bytes) -> tuple[Sealed, bytes | None]:
        """A record without its words, and the body with its salt (None for an event without words)."""
        event, body, digest = record.event, None, b""
        text = event.text
        if text is not None:
            body = salt + _encode(text)
            digest = sha256(body).digest()
            event = msgspec.structs.replace(event, text=None)
        name = type(event).__name__
        sealed = Sealed(
            record.stream,
            record.version,
            record.workspace,
            name,
            self._schemas.get(name, 1),
            float(record.at),  # an int would come back from a REAL column in another spelling
            _encode(record.actor).decode(),
            record.subject,
            record.trace,
            record.cause,
            record.key,
            _encode(event).decode(),
            digest,
        )
        return sealed, body

    def open(self, position: int, sealed: Sealed, body: bytes | None, link_hash: bytes) -> Recorded:
        """The record again. A missing body of an event that had words gives `ERASED`."""
        event = self._event(sealed)
        if sealed.digest:
            text = ERASED if body is None else _decode_text(body[SALT_BYTES:])
            event = msgspec.structs.replace(event, text=text)
        return Recorded(
            position=position,
            stream=sealed.stream,
            version=sealed.version,
            workspace=sealed.workspace,
            at=sealed.at,
            actor=_actor(sealed.actor),
            subject=sealed.subject,
            trace=sealed.trace,
            cause=sealed.cause,
            key=sealed.key,
            event=event,
            hash=link_hash.hex(),
        )

    def _event(self, sealed: Sealed) -> Event:
        current = self._schemas.get(sealed.type, 1)
        if sealed.schema == current and (sealed.type, sealed.schema) not in self._upcasters:
            return _decode_event(sealed.data)
        return self._upcast(sealed)

    def _upcast(self, sealed: Sealed) -> Event:
        raw = _decode_plain(sealed.data)
        name, version = sealed.type, sealed.schema
        while (step := self._upcasters.get((name, version))) is not None:
            raw = step(raw)
            name, version = raw["type"], version + 1
        event: Event = msgspec.convert(raw, Event)
        return event


_ACTORS: dict[str, Actor] = {}
_ACTORS_KEPT: Final = 4096


def _actor(text: str) -> Actor:
    # The same few actors stand on all events: decoding each once is a third of the time of a load.
    actor = _ACTORS.get(text)
    if actor is None:
        if len(_ACTORS) >= _ACTORS_KEPT:
            _ACTORS.clear()
        actor = _ACTORS[text] = _decode_actor(text)
    return actor
