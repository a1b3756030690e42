"""The files in which clients keep their conversations, read as proof: which record holds a word of ours.

Read from the end, bounded, one JSON object a line; what cannot be read as one is passed over. Only a plain file of this
user is opened, in the client's own place and with the conversation's id in its name: the path is only what a hook said.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

BYTES = 16 * 1024 * 1024
"""How much of the end of a file is looked at."""
LINE_BYTES = 8 * 1024 * 1024
_BLOCK = 256 * 1024


class Record(NamedTuple):
    """One line of such a file."""

    offset: int
    data: dict[str, Any]


class Layout(NamedTuple):
    """Where a client keeps its conversations: the name of its folder, a variable that moves it, and the folders below,
    from which the depth follows (`*` is any one)."""

    folder: tuple[str, ...]
    variable: str
    below: tuple[str, ...]
    id_characters: int = 0
    """How much of the conversation's id the name of its file holds; 0: all of it."""


def is_own(path: str, history: str, layout: Layout) -> bool:
    """Whether a path lies where that client keeps its conversations, and is that conversation's."""
    parts = Path(path).parts
    depth = len(layout.below) + 1
    if not path.startswith("/") or ".." in parts or len(parts) <= depth:
        return False
    root, inner = parts[:-depth], parts[-depth:-1]
    moved = os.environ.get(layout.variable, "") if layout.variable else ""
    own = root[-len(layout.folder) :] == layout.folder or (moved.startswith("/") and Path(*root) == Path(moved))
    shape = all(want in ("*", part) for want, part in zip(layout.below, inner, strict=True))
    name = history[: layout.id_characters] if layout.id_characters else history
    return own and shape and bool(name) and name in parts[-1]


def opened(path: str, root_depth: int) -> int:
    """A descriptor of a plain file of this user; links may lead anywhere inside of the client's own folder and nowhere
    else. Raises `OSError`."""
    real = os.path.realpath(path)
    root = os.path.realpath(Path(*Path(path).parts[:-root_depth]))
    if not real.startswith(root + os.sep):
        raise OSError(f"{path} leads out of {root}")
    descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
        os.close(descriptor)
        raise OSError(f"{path} is no file of this user")
    return descriptor


def records(descriptor: int, words: tuple[bytes, ...], limit: int = BYTES) -> Iterator[Record]:
    """The records near the end of a file that hold one of the words, newest first."""
    for offset, line in lines(descriptor, limit):
        if any(word in line for word in words):
            try:
                data = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(data, dict):
                yield Record(offset, data)


def lines(descriptor: int, limit: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines from the end of a file towards its beginning, with the place of each; at most `limit` bytes."""
    end = os.fstat(descriptor).st_size
    stop, rest = max(0, end - limit), b""
    while end > stop:
        start = max(stop, end - _BLOCK)
        block = os.pread(descriptor, end - start, start) + rest
        first, *whole = block.split(b"\n")
        place = start + len(block)
        for line in reversed(whole):
            place -= len(line)
            if line.strip() and len(line) <= LINE_BYTES:
                yield place, line
            place -= 1
        rest, end = first, start
        if len(rest) > LINE_BYTES:
            rest = b""  # a line that long is none of ours; what is left of it is passed over as well
    if rest.strip() and stop == 0:
        yield 0, rest


class Trail(NamedTuple):
    """What a conversation shows of one wake."""

    queued: str = ""
    """The record by which the client took it."""
    started: str = ""
    """The record by which it reached the model, at the start of a turn of its own or inside of one that ran."""
    turn: str = ""
    interrupted: bool = False
    ended: bool = False
    """The turn is over, as far as the file tells."""


def size_of(path: str) -> int:
    """How long a file is now; 0 where there is none."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


class Transcript:
    """Implements `app.ports.History` for one client. `entered` tells what a record is called if it shows that something
    entered the conversation from outside (a tool's answer, a prompt), and nothing of what the model itself wrote."""

    def __init__(self, layout: Layout, entered: Callable[[dict[str, Any]], str]) -> None:
        self._layout = layout
        self._entered = entered

    def proof(self, transcript: str, history: str, words: tuple[str, ...]) -> str:
        """Where the newest such record stands: file, place in it, what it is. Empty where there is none."""
        needles = tuple(word.encode() for word in words if word)
        if not needles or not is_own(transcript, history, self._layout):
            return ""
        try:
            descriptor = opened(transcript, len(self._layout.below) + 1)
        except OSError:
            return ""
        try:
            for record in records(descriptor, needles):
                if kind := self._entered(record.data):
                    return f"{Path(transcript).name} at byte {record.offset}: {kind}"
        except OSError:
            return ""
        finally:
            os.close(descriptor)
        return ""

    def entered(self, transcript: str, history: str, word: str) -> str:
        """What the newest record is called that shows that a word entered; empty where none does."""
        return self.proof(transcript, history, (word,)).rpartition(": ")[2]
