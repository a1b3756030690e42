"""The files that a pattern names: `*`, `?`, `[…]`, and `**` for any folders.

Folders that are links are not gone into: two links to their own folder are already an endless tree. What is looked at
is bounded, in an order that stays the same, so that a pattern over a whole disk costs no more than one over a project.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterator

FILES = 1000
"""So many files of one pattern are found."""
LOOKED_AT = 50_000
"""So many entries of folders are looked at for one pattern."""
DEPTH = 100
"""Folders deeper than this are not looked into."""


def matches(pattern: str) -> list[str]:
    """The paths that an absolute pattern names, sorted."""
    parts = [part for part in pattern.split("/") if part]
    literal = next((at for at, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    search = _Search()
    found = dict.fromkeys(search.under("/" + "/".join(parts[:literal]), tuple(parts[literal:])))
    return sorted(found)


class _Search:
    """One search, with what is left of what it may look at."""

    def __init__(self) -> None:
        self._left = LOOKED_AT
        self._found = 0

    def under(self, folder: str, parts: tuple[str, ...]) -> Iterator[str]:
        """What the rest of a pattern names below a folder."""
        if not parts:
            self._found += 1
            yield folder
            return
        first, rest = parts[0], parts[1:]
        if first == "**":
            yield from self._anywhere(folder, rest)
        elif glob.has_magic(first):
            for entry in self._entries(folder, first):
                if fnmatch.fnmatchcase(entry.name, first) and (not rest or _is_folder(entry)):
                    yield from self.under(entry.path, rest)
        elif os.path.lexists(path := f"{folder.rstrip('/')}/{first}"):
            yield from self.under(path, rest)

    def _anywhere(self, folder: str, rest: tuple[str, ...]) -> Iterator[str]:
        """`**` is no folder, one, or several; at the end of a pattern, whatever is below."""
        while rest[:1] == ("**",):  # one after another means no more than one
            rest = rest[1:]
        if rest:
            yield from self.under(folder, rest)
        for entry in self._entries(folder, "**"):
            if _is_folder(entry):
                yield from self._anywhere(entry.path, rest)
            elif not rest:
                yield from self.under(entry.path, ())

    def _entries(self, folder: str, part: str) -> Iterator[os.DirEntry[str]]:
        """The entries of a folder by name; hidden ones only where the pattern says so."""
        if self._left <= 0 or self._found >= FILES or folder.count("/") > DEPTH:
            return
        found: list[os.DirEntry[str]] = []
        try:
            with os.scandir(folder or "/") as entries:
                for entry in entries:
                    self._left -= 1
                    if part.startswith(".") or not entry.name.startswith("."):
                        found.append(entry)
                    if self._left <= 0:
                        break
        except OSError:
            return
        for entry in sorted(found, key=lambda entry: entry.name):
            if self._found >= FILES:
                return
            yield entry


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
