"""What a rendering is written on: the reader's terminal, and a sheet that escapes whatever is put on it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from tallystick.app.calls import CallerFacts
from tallystick.core.identity import short
from tallystick.edge.cli.escape import escape, escape_lines
from tallystick.edge.cli.width import chunks, clip, pad, split, width

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_WHOLE = frozenset({"ID", "TASK", "NAME", "AT", "AGE", "TOOK"})
"""Columns that are never shortened."""
_LONG_LINE = 8000
"""Characters after which a single line on a terminal is cut: what has more is a body."""
_MINIMUM = 12
"""The fewest columns that a stretching column of a table keeps."""


class Paint(msgspec.Struct, frozen=True):
    """A piece of text in a style; plain where the page has no colour."""

    text: str
    style: str


Piece = str | Paint


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Where the output goes. `columns` 0: not a terminal, so nothing is cut or folded."""

    now: datetime
    columns: int = 0
    colour: bool = False
    tally: str = "tally"
    """How this reader calls the command, with `--as` where it used it."""

    def command(self, *words: str) -> str:
        """A command line to be copied."""
        return " ".join([self.tally, *words])

    def when(self, iso: str) -> str:
        """A time as short as the day allows: `14:03:22`, `11-30 14:03`, `2026-11-30`."""
        try:
            at = datetime.fromisoformat(iso).astimezone(self.now.tzinfo)
        except ValueError:
            return iso
        if at.date() == self.now.date():
            return f"{at:%H:%M:%S}"
        return f"{at:%m-%d %H:%M}" if at.year == self.now.year else f"{at:%Y-%m-%d}"


def page_for(facts: CallerFacts, now: datetime, as_name: str) -> Page:
    """The page of a caller. Colour only on a terminal, without NO_COLOR, and not on a dumb one."""
    environment, terminal = facts.environment, facts.terminal
    colour = terminal.stdout and "NO_COLOR" not in environment and environment.get("TERM") != "dumb"
    tally = f"tally --as {shlex.quote(as_name)}" if as_name else "tally"
    return Page(now=now, columns=max(20, terminal.columns) if terminal.stdout else 0, colour=colour, tally=tally)


def age(seconds: float) -> str:
    """A duration in its largest unit: `42s`, `3m`, `2h`, `4d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def took(seconds: float | None) -> str:
    """How long something took: `0.3s`, `42s`, `3m`."""
    if seconds is None:
        return ""
    return f"{seconds:.1f}s" if seconds < 10 else age(seconds)


def place(state: str, reason: str) -> str:
    """State and reason as one word."""
    return f"{state}/{reason}" if reason else state


class Sheet:
    """Lines in the making. All text is escaped here, and here alone."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.lines: list[str] = []

    def text(self) -> str:
        """All lines, each ended."""
        return "".join(f"{line}\n" for line in self.lines)

    def line(self, *pieces: Piece, indent: int = 0) -> None:
        """One line; on a terminal folded, with what follows set further in, so that no fold looks like a line."""
        for number, row in enumerate(_fold(pieces, self.page.columns - indent if self.page.columns else 0)):
            self.lines.append(" " * (indent + 4 * (number > 0)) + "".join(map(self._paint, row)))

    def heading(self, text: str) -> None:
        """A heading, with a blank line before it unless it is the first line."""
        self.blank()
        self.line(Paint(text, "bold"))

    def blank(self) -> None:
        """A blank line, never two and never first."""
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def field(self, name: str, *values: Piece) -> None:
        """`name  value`, left out where all values are empty."""
        if any(value if isinstance(value, str) else value.text for value in values):
            self.line(Paint(pad(name, 11), "dim"), " ", *values, indent=2)

    def body(self, text: str, *, indent: int = 2) -> None:
        """Text with lines of its own: each is marked at its beginning, so that none can pass for ours."""
        mark = self._paint(Paint("│ ", "dim"))
        room = max(1, self.page.columns - indent - 2) if self.page.columns else 0
        for line in escape_lines(text.rstrip("\n")):
            for part in chunks(line, room):
                self.lines.append(" " * indent + mark + part)

    def command(self, *words: str, indent: int = 4) -> None:
        """A command line that the reader may copy."""
        self.line(Paint(self.page.command(*words), "cyan"), indent=indent)

    def table(self, heads: Sequence[str], rows: Iterable[Sequence[Piece]], *, stretch: int = -1) -> None:
        """Aligned columns. Where the terminal is too narrow, the column `stretch` is shortened."""
        cells = [[Paint(head, "bold") for head in heads], *([_clean(cell) for cell in row] for row in rows)]
        sizes = [max(width(row[column].text) for row in cells) for column in range(len(heads))]
        if self.page.columns:
            sizes = [min(size, self.page.columns) for size in sizes]
            _shrink(sizes, heads, stretch % len(heads), self.page.columns - 2 * (len(sizes) - 1))
        self.lines.extend(self._row(row, sizes) for row in cells)

    def _row(self, row: Sequence[Paint], sizes: Sequence[int]) -> str:
        out = []
        for cell, size in zip(row, sizes, strict=True):
            text = clip(cell.text, size)
            out.append(self._paint(Paint(text, cell.style)) + " " * (size - width(text)))
        return "  ".join(out).rstrip()

    def _paint(self, piece: Piece) -> str:
        if isinstance(piece, str):
            return escape(piece)
        text = escape(piece.text)
        code = _STYLES.get(piece.style) if self.page.colour else None
        return f"\x1b[{code}m{text}\x1b[0m" if code and text else text


def _shrink(sizes: list[int], heads: Sequence[str], stretch: int, room: int) -> None:
    """Make columns fit: first the stretching one, then the widest of those that nobody copies from."""
    over = sum(sizes) - room
    give = min(max(0, over), max(0, sizes[stretch] - _MINIMUM))
    sizes[stretch] -= give
    able = [column for column, head in enumerate(heads) if head not in _WHOLE]
    for _ in range(over - give):
        widest = max(able, key=lambda column: sizes[column], default=stretch)
        if sizes[widest] <= 1:
            return
        sizes[widest] -= 1


def _clean(cell: Piece) -> Paint:
    return Paint(escape(cell), "") if isinstance(cell, str) else Paint(escape(cell.text), cell.style)


def _fold(pieces: Sequence[Piece], columns: int) -> list[list[Piece]]:
    """Pieces in rows of at most `columns`, later ones four shorter; 0 = one row."""
    rows: list[list[Piece]] = [[]]
    left = columns
    for piece in map(_clean, pieces):
        text = clip(piece.text, _LONG_LINE) if columns else piece.text
        while columns and width(text) > left:
            head, text = _break(text, max(0, left))
            rows[-1].append(Paint(head, piece.style))
            rows.append([])
            left = max(8, columns - 4)
        rows[-1].append(Paint(text, piece.style))
        left -= width(text)
    return rows


def _break(text: str, columns: int) -> tuple[str, str]:
    """A row and the rest, parted at a space where one is in the last third of it."""
    head, tail = split(text, columns)
    at = head.rfind(" ")
    if tail.startswith(" ") or at <= 2 * len(head) // 3:
        return head, tail.removeprefix(" ")
    return head[:at], head[at + 1 :] + tail


def id_piece(identifier: str) -> Paint:
    """An id in its short form."""
    return Paint(short(identifier), "cyan")
