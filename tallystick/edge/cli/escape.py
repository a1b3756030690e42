"""The one place where text of others becomes text that is safe on a terminal.

Everything a renderer shows goes through `escape`, its own words included, so that none can be forgotten.
"""

from __future__ import annotations

import re
import unicodedata

_BLANK_LETTERS = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U000e0100-\U000e01ef]")
"""Not of category C, but nothing is seen where they stand."""

_NAMED = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


class _Table(dict[int, int | str]):
    """What each character is shown as, found when it is first met. Others cannot make it grow without end."""

    def __missing__(self, point: int) -> int | str:
        shown = _shown(point)
        if len(self) < _REMEMBERED:
            self[point] = shown
        return shown


def escape(text: str) -> str:
    """One line: control, format, surrogate, private and unassigned characters, line separators and letters that
    show nothing become visible escapes such as `\\u202e`; newlines become `\\n`."""
    if text.isprintable() and (text.isascii() or _BLANK_LETTERS.search(text) is None):
        return text
    return text.translate(_TABLE)


def escape_lines(text: str) -> list[str]:
    """The lines of a body, each escaped. Only LF and CR LF end a line; tabs become spaces."""
    return [escape(line.expandtabs(4)) for line in text.replace("\r\n", "\n").split("\n")]


def _shown(point: int) -> int | str:
    character = chr(point)
    category = unicodedata.category(character)
    if category[0] != "C" and category not in ("Zl", "Zp") and _BLANK_LETTERS.match(character) is None:
        return point
    return _NAMED.get(character) or _code(point)


def _code(point: int) -> str:
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


_REMEMBERED = 8192
_TABLE = _Table()
