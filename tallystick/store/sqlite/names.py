"""Texts that are stored once (ids, actors, event types) and stand elsewhere as numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import apsw

from tallystick.store.schema import named_statements
from tallystick.store.sqlite import bulk

SQL: Final = named_statements("log.sql")
"""The statements of the log by name."""

_KEPT: Final = 100_000


@cache
def names_find(count: int) -> str:
    """The statement that looks up so many texts."""
    return f"SELECT id, name FROM names WHERE name IN ({', '.join('?' * count)})"  # noqa: S608 - only question marks


@cache
def name_insert(count: int) -> str:
    """The statement that writes down so many numbers."""
    return bulk.insert("names", 2, count)


class _Texts(dict[int, str]):
    """Texts by number; one that is not remembered is read. A plain look-up, because it is the inner loop of a scan."""

    def __init__(self, read: Callable[[int], str]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, number: int) -> str:
        return self._read(number)


class _Numbers(dict[str, int]):
    """Numbers by text; one that is not remembered is looked up, or given. A plain look-up: six stand in every event."""

    def __init__(self, give: Callable[[str], int]) -> None:
        super().__init__()
        self._give = give

    def __missing__(self, text: str) -> int:
        return self._give(text)


class Names:
    """The numbers of texts as one connection sees them. A bounded cache stands in front of the table."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._execute: Callable[..., Any] = connection.execute
        self.numbers = _Numbers(self._give)
        """The numbers of texts. One that has none gets one; `write` has to follow in the same transaction."""
        self.texts = _Texts(self._read_text)
        """The texts of numbers."""
        self._given: list[tuple[int, str]] = []
        self._absent: set[str] = set()
        self._last = 0

    def find(self, text: str) -> int:
        """The number of a text, 0 if it has none."""
        number = self.numbers.get(text)
        if number is None:
            if text in self._absent:
                return 0
            row = self._execute(SQL["name_find"], (text,)).fetchall()
            number = row[0][0] if row else 0
            if number:
                self._remember(text, number)
        return number

    def learn(self, texts: Iterable[str], new: Iterable[str] = ()) -> None:
        """Look up what is not remembered in few calls, for a transaction that will ask for it: until `write` nobody
        else gives numbers. `new` stands nowhere yet and is not looked up; if it does, `write` is refused."""
        self._absent.update(text for text in new if text not in self.numbers)
        unknown = [text for text in dict.fromkeys(texts) if text not in self.numbers and text not in self._absent]
        absent = set(unknown)
        for number, text in bulk.run(self._connection, names_find, [(text,) for text in unknown]):
            self._remember(text, number)
            absent.discard(text)
        self._absent |= absent

    def _give(self, text: str) -> int:
        number = self.find(text)
        if not number:
            number = self._last = self._last + 1
            self._given.append((number, text))
            self._remember(text, number)
        return number

    def write(self) -> None:
        """Write down the numbers that were given."""
        given, self._given = self._given, []
        self._absent.clear()
        bulk.run(self._connection, name_insert, given)

    def forget(self) -> None:
        """Drop everything that is remembered: a transaction was rolled back, or somebody else wrote."""
        self.numbers.clear()
        self.texts.clear()
        self._given.clear()
        self._absent.clear()
        self._last = self._execute(SQL["name_last"]).fetchall()[0][0]

    def _read_text(self, number: int) -> str:
        # Numbers are given in the order of the log, so whoever walks along it asks for the next ones next.
        found: dict[int, str] = dict(self._execute(SQL["names_from"], (number,)).fetchall())
        for known, text in found.items():
            self._remember(text, known)
        # A number without a text is damage: the scan finds it by the hash.
        return found.get(number, "")

    def _remember(self, text: str, number: int) -> None:
        if len(self.texts) >= _KEPT and not self._given:  # what was given stands nowhere else until `write`
            self.numbers.clear()
            self.texts.clear()
        self.numbers[text] = number
        self.texts[number] = text
