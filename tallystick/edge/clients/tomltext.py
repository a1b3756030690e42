"""TOML files of other people, changed as text: our table is put at the end and cut out again, nothing else moves.

The standard library reads TOML and does not write it. Because a table can always stand at the end of a file, appending
text is enough; what it then means is proved with that reader after every change.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from tallystick.core.errors import Refused, invalid

Path = tuple[str, ...]

_HEADER = re.compile(r"[ \t]*\[(?!\[)\s*(.*?)\s*\][ \t]*(?:#.*)?\r?\Z")
_ANY_HEADER = re.compile(r"[ \t]*\[")
_KEY = re.compile(r'\s*(?:([A-Za-z0-9_-]+)|"((?:[^"\\]|\\.)*)"|\'([^\']*)\')\s*(\.|\Z)')
_MARKS = re.compile(r'"""|\'\'\'|#|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')


def read(text: str, name: str) -> dict[str, Any]:
    """What a file means; `Refused` with the line where it is no TOML."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise invalid(
            f"{name} is no TOML: {error}. Nothing was changed.", "Mend that line, then repeat the command."
        ) from None


def find(text: str, path: Path, name: str) -> Any:
    """The value at a path; None where there is none."""
    value: Any = read(text, name)
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def put(text: str, path: Path, table: dict[str, Any], name: str) -> str:
    """The text with this table at the end, in place of one that was there."""
    before = drop(text, path, name)
    newline = "\r\n" if "\r\n" in before else "\n"
    gap = "" if not before else newline if before.endswith("\n") else newline * 2
    made = before + gap + newline.join(_lines(path, table)) + newline
    _prove(made, _with(read(before, name), path, table, name), name)
    return made


def drop(text: str, path: Path, name: str) -> str:
    """The text without this table and those below it."""
    before = read(text, name)
    if find(text, path, name) is None:
        return text
    lines = text.splitlines(keepends=True)
    ours = _ours(lines, path)
    first = min(ours, default=0)
    while first and not lines[first - 1].strip():
        first -= 1  # the blank lines before it came with it
        ours.add(first)
    cut = "".join(line for number, line in enumerate(lines) if number not in ours)
    _prove(cut, _without(before, path), name)
    return cut


def _ours(lines: list[str], path: Path) -> set[int]:
    """The numbers of the lines of a table, up to the next header and what is written above that."""
    ours: set[int] = set()
    is_inside, quote = False, ""
    pending: set[int] = set()
    for number, line in enumerate(lines):
        header = not quote and _ANY_HEADER.match(line)
        if header:
            is_inside = _keys(line)[: len(path)] == path
        is_text = bool(quote) or bool(line.strip() and not line.lstrip().startswith("#"))
        quote = _quote_after(line, quote)
        if not is_inside:
            pending.clear()
        elif is_text:
            ours |= pending | {number}
            pending.clear()
        else:
            pending.add(number)  # comments and blank lines before the next table are that one's
    return ours


def _keys(line: str) -> Path:
    found = _HEADER.match(line.rstrip("\n"))
    rest, keys = found.group(1) if found else "", []
    while rest and (key := _KEY.match(rest)):
        bare, double, single = key.group(1), key.group(2), key.group(3)
        keys.append(bare if bare is not None else json.loads(f'"{double}"') if double is not None else single)
        rest = rest[key.end() :]
    return tuple(keys)


def _quote_after(line: str, quote: str) -> str:
    """Which multi-line string is open after a line."""
    at = 0
    while at < len(line):
        if quote:
            at = _end_of(line, quote, at)
            if at < 0:
                return quote
            quote = ""
            continue
        mark = _MARKS.search(line, at)
        if mark is None or mark.group() == "#":
            return ""
        at = mark.end()
        quote = mark.group() if mark.group() in ('"""', "'''") else ""
    return quote


def _end_of(line: str, quote: str, at: int) -> int:
    while True:
        end = line.find(quote, at)
        if end < 0:
            return -1
        slashes = len(line[:end]) - len(line[:end].rstrip("\\"))
        if quote == "'''" or slashes % 2 == 0:
            return end + 3
        at = end + 1


def _lines(path: Path, table: dict[str, Any]) -> list[str]:
    lines = ["[" + ".".join(_key(key) for key in path) + "]"]
    lines += [f"{_key(key)} = {_written(value)}" for key, value in table.items() if not isinstance(value, dict)]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += ["", *_lines((*path, key), value)]
    return lines


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _written(key)


def _written(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _with(value: dict[str, Any], path: Path, new: Any, name: str) -> dict[str, Any]:
    inner = value.get(path[0], {})
    if not isinstance(inner, dict):
        raise _unable(name)
    return {**value, path[0]: _with(inner, path[1:], new, name) if path[1:] else new}


def _without(value: dict[str, Any], path: Path) -> dict[str, Any]:
    if len(path) == 1:
        return {key: item for key, item in value.items() if key != path[0]}
    inner = _without(value[path[0]], path[1:])
    return {**{k: v for k, v in value.items() if k != path[0]}, **({path[0]: inner} if inner else {})}


def _prove(text: str, wanted: dict[str, Any], name: str) -> None:
    try:
        means = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise _unable(name) from None
    if _settled(means) != _settled(wanted):
        raise _unable(name)


def _settled(value: Any) -> Any:
    """Without empty tables: `[a.b]` also makes `a`, and cutting it out takes that along."""
    if isinstance(value, dict):
        kept = {key: _settled(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item != {}}
    return value


def _unable(name: str) -> Refused:
    return invalid(
        f"{name} is written in a form that our table cannot be put into or taken from alone. Nothing was changed.",
        "Add or remove by hand what `tally install --print` shows.",
    )
