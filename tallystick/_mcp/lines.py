"""Bytes that come in pieces, as whole lines of a bounded length."""

from __future__ import annotations


class Lines:
    """Bytes to lines, each at most as long as the limit; a longer one becomes None, once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._skips = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines that end in these bytes."""
        found: list[bytes | None] = []
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._add(end, found)
            if not self._skips:
                found.append(b"".join(self._parts))
            self._parts, self._size, self._skips = [], 0, False
        self._add(rest, found)
        return found

    def _add(self, piece: bytes, found: list[bytes | None]) -> None:
        self._size += len(piece)
        if self._skips:
            return
        if self._size > self.limit:
            self._skips = True
            self._parts = []
            found.append(None)
        elif piece:
            self._parts.append(piece)

    def rest(self) -> list[bytes | None]:
        """What was left without an end of line."""
        left = b"".join(self._parts)
        self._parts = []
        return [left] if left else []
