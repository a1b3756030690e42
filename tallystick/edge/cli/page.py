"""What a rendering is written on: the reader's terminal, and a sheet that escapes whatever is put on it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from tallystick.app.calls import CallerFacts
from tallystick.core.identity import short
from tallystick.edge.cli.escape import escape, escape_lines
from tallystick.edge.cli.width import clip, pad, split, width

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
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
            for part in _chunks(line, room):
                self.lines.append(" " * indent + mark + part)

    def command(self, *words: str, indent: int = 4) -> None:
        """A command line that the reader may copy."""
        self.line(Paint(self.page.command(*words), "cyan"), indent=indent)

    def table(self, heads: Sequence[str], rows: Iterable[Sequence[Piece]], *, stretch: int = -1) -> None:
        """Aligned columns. Where the terminal is too narrow, the column `stretch` is shortened."""
        cells = [[Paint(head, "bold") for head in heads], *([_clean(cell) for cell in row] for row in rows)]
        sizes = [max(width(row[column].text) for row in cells) for column in range(len(heads))]
        stretch %= len(heads)
        if self.page.columns:
            over = sum(sizes) + 2 * (len(sizes) - 1) - self.page.columns
            sizes[stretch] = max(min(sizes[stretch], _MINIMUM), sizes[stretch] - max(0, over))
        self.lines.extend(self._row(row, sizes) for row in cells)

    def _row(self, row: Sequence[Paint], sizes: Sequence[int]) -> str:
        columns = self.page.columns
        out, left = [], columns
        for cell, size in zip(row, sizes, strict=True):
            text = pad(clip(cell.text, size), size)
            if columns:
                text = clip(text, max(0, left))
                left -= size + 2
            out.append(self._paint(Paint(text, cell.style)) if text.strip() else text)
        return "  ".join(out).rstrip()

    def _paint(self, piece: Piece) -> str:
        if isinstance(piece, str):
            return escape(piece)
        text = escape(piece.text)
        code = _STYLES.get(piece.style) if self.page.colour else None
        return f"\x1b[{code}m{text}\x1b[0m" if code else text


def _clean(cell: Piece) -> Paint:
    return Paint(escape(cell), "") if isinstance(cell, str) else Paint(escape(cell.text), cell.style)


def _chunks(text: str, columns: int) -> list[str]:
    """Already escaped text in pieces of at most that many columns."""
    if not columns or width(text) <= columns:
        return [text]
    out = []
    while text:
        head, tail = split(text, columns)
        head, tail = (head, tail) if head else (text[:1], text[1:])
        out.append(head)
        text = tail
    return out


def _fold(pieces: Sequence[Piece], columns: int) -> list[list[Piece]]:
    """Pieces in rows of at most `columns`, later ones four shorter; 0 = one row."""
    rows: list[list[Piece]] = [[]]
    left = columns
    for piece in map(_clean, pieces):
        text = piece.text
        while columns and width(text) > left:
            head, text = split(text, max(0, left))
            rows[-1].append(Paint(head, piece.style))
            rows.append([])
            left = max(8, columns - 4)
        rows[-1].append(Paint(text, piece.style))
        left -= width(text)
    return rows


def id_piece(identifier: str) -> Paint:
    """An id in its short form."""
    return Paint(short(identifier), "cyan")
