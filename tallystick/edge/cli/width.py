"""How many columns text takes on a terminal: wide, zero-width and combining characters counted as they are shown."""

from __future__ import annotations

import unicodedata

ELLIPSIS = "…"


def width(text: str) -> int:
    """Columns that already escaped text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    joins = unicodedata.category(character) in ("Mn", "Me", "Cf") or "\u1160" <= character <= "\u11ff"
    return 0 if joins else 1


def split(text: str, columns: int) -> tuple[str, str]:
    """The longest beginning of at most that many columns, and the rest. Marks stay with their letter."""
    if text.isascii():
        return text[:columns], text[columns:]
    used = 0
    for index, character in enumerate(text):
        used += _columns(character)
        if used > columns:
            return text[:index], text[index:]
    return text, ""


def chunks(text: str, columns: int) -> list[str]:
    """The text in pieces of at most that many columns (a wide character may stand over); 0 = one piece."""
    if not columns or not text:
        return [text]
    if text.isascii():
        return [text[start : start + columns] for start in range(0, len(text), columns)]
    out, start, used = [], 0, 0
    for index, character in enumerate(text):
        size = _columns(character)
        if used + size > columns and index > start:
            out.append(text[start:index])
            start, used = index, 0
        used += size
    return [*out, text[start:]]


def clip(text: str, columns: int) -> str:
    """The text, shortened to that many columns with an ellipsis where it is longer."""
    if not split(text, columns)[1]:
        return text
    return split(text, max(0, columns - 1))[0] + ELLIPSIS if columns > 0 else ""


def pad(text: str, columns: int) -> str:
    """The text, filled up with spaces to that many columns."""
    return text + " " * (columns - width(text))
