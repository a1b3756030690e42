"""Cursors of event streams: a position in the log, sealed. It says nothing to whoever holds it (how much happens in
places that he does not see), holds for one reader alone, and cannot be made up."""

from __future__ import annotations

import base64
import hmac

from tallystick.core.errors import invalid

_TAG = 16


class Cursors:
    """Seals and opens cursors."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, reader: str, position: int) -> str:
        """The cursor of a position for a reader (an actor's id): always the same text."""
        plain = position.to_bytes(8, "big")
        tag = self._tag(reader, plain)
        return base64.urlsafe_b64encode(tag + self._mask(tag, plain)).decode("ascii")

    def open(self, reader: str, cursor: str) -> int:
        """The position that a cursor stands for. Raises `Refused` `invalid`."""
        try:
            raw = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
        except ValueError:
            raw = b""
        tag, plain = raw[:_TAG], self._mask(raw[:_TAG], raw[_TAG:])
        if len(raw) != _TAG + 8 or not hmac.compare_digest(tag, self._tag(reader, plain)):
            raise invalid(
                "The cursor was not given to this reader by this host.",
                "Begin without a cursor, and look at `board` or `inbox` for what is there.",
            )
        return int.from_bytes(plain, "big")

    def _tag(self, reader: str, plain: bytes) -> bytes:
        return hmac.digest(self._key, b"tag\0" + plain + reader.encode(), "sha256")[:_TAG]

    def _mask(self, tag: bytes, text: bytes) -> bytes:
        stream = hmac.digest(self._key, b"mask" + tag, "sha256")
        return bytes(a ^ b for a, b in zip(text, stream, strict=False))
