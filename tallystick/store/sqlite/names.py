"""Texts that are stored once (ids, actors, event types) and stand elsewhere as numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import apsw

from tallystick.store.schema import named_statements

SQL: Final = named_statements("log.sql")
"""The statements of the log by name."""

_KEPT: Final = 100_000


class Names:
    """The numbers of texts as one connection sees them. A bounded cache stands in front of the table."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute: Callable[..., Any] = connection.execute
        self._executemany = connection.executemany
        self._numbers: dict[str, int] = {}
        self._texts: dict[int, str] = {}
        self._given: list[tuple[int, str]] = []
        self._last = 0

    def text(self, number: int) -> str:
        """The text of a number."""
        text = self._texts.get(number)
        return text if text is not None else self._read_text(number)

    def find(self, text: str) -> int:
        """The number of a text, 0 if it has none."""
        number = self._numbers.get(text)
        if number is None:
            row = self._execute(SQL["name_find"], (text,)).fetchall()
            number = row[0][0] if row else 0
            if number:
                self._remember(text, number)
        return number

    def give(self, text: str) -> int:
        """The number of a text, which gets one if it has none; `write` has to follow in the same transaction."""
        number = self._numbers.get(text) or self.find(text)
        if not number:
            number = self._last = self._last + 1
            self._given.append((number, text))
            self._remember(text, number)
        return number

    def write(self) -> None:
        """Write down the numbers that were given."""
        given, self._given = self._given, []
        if given:
            self._executemany(SQL["name_insert"], given)

    def forget(self) -> None:
        """Drop everything that is remembered: a transaction was rolled back, or somebody else wrote."""
        self._numbers.clear()
        self._texts.clear()
        self._given.clear()
        self._last = self._execute(SQL["name_last"]).fetchall()[0][0]

    def _read_text(self, number: int) -> str:
        rows = self._execute(SQL["name_of"], (number,)).fetchall()
        text = str(rows[0][0]) if rows else ""  # a number without a text is damage: the scan finds it by the hash
        self._remember(text, number)
        return text

    def _remember(self, text: str, number: int) -> None:
        if len(self._texts) >= _KEPT and not self._given:  # what was given stands nowhere else until `write`
            self._numbers.clear()
            self._texts.clear()
        self._numbers[text] = number
        self._texts[number] = text
