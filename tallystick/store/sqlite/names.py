"""Texts that are stored once (ids, actors, event types) and stand elsewhere as numbers."""

from __future__ import annotations

from typing import Final

import apsw

from tallystick.store.schema import named_statements

SQL: Final = named_statements("log.sql")
"""The statements of the log by name."""

_KEPT: Final = 50_000


class Names:
    """The numbers of texts as one connection sees them. A bounded cache stands in front of the table."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._numbers: dict[str, int] = {}
        self._texts: dict[int, str] = {}

    def text(self, number: int) -> str:
        """The text of a number."""
        text = self._texts.get(number)
        return text if text is not None else self._read_text(number)

    def find(self, text: str) -> int:
        """The number of a text, 0 if it has none."""
        number = self._numbers.get(text)
        if number is None:
            row = self._connection.execute(SQL["name_find"], (text,)).fetchall()
            number = self._remember(text, row[0][0]) if row else 0
        return number

    def give(self, text: str) -> int:
        """The number of a text, which gets one if it has none. Only inside a transaction."""
        number = self._numbers.get(text) or self.find(text)
        if not number:
            row = self._connection.execute(SQL["name_insert"], (text,)).fetchall()
            number = self._remember(text, row[0][0])
        return number

    def forget(self) -> None:
        """Drop the cache: a transaction was rolled back, or somebody else wrote."""
        self._numbers.clear()
        self._texts.clear()

    def _read_text(self, number: int) -> str:
        rows = self._connection.execute(SQL["name_of"], (number,)).fetchall()
        text = rows[0][0] if rows else ""  # a number without a text is damage: the scan finds it by the hash
        self._remember(text, number)
        return str(text)

    def _remember(self, text: str, number: int) -> int:
        if len(self._texts) >= _KEPT:
            self.forget()
        self._numbers[text] = number
        self._texts[number] = text
        return number
