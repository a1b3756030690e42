"""JSON files of other people, changed as text: what is not ours keeps its bytes, comments and order.

Comments (`//`, `/* */`) and trailing commas are read, as most clients do. Every change is minimal, and is proved after
it was made: the new text is read again and must mean exactly what was wanted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tallystick.core.errors import Refused, invalid

DEPTH = 200
"""Deeper nesting is refused: no client has it."""

Path = tuple[str | int, ...]
"""Keys of objects and places in arrays."""

_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLAIN = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")


class Node(NamedTuple):
    """A value and where it stands: `text[start:end]`."""

    start: int
    end: int
    value: Any
    parts: tuple[Part, ...] = ()
    """Members of an object, items of an array."""


class Part(NamedTuple):
    """A member or an item. `start` is that of its key, if it has one."""

    start: int
    key: str
    node: Node


class Broken(Exception):
    """The text is no JSON."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.why = why


# --- reading ------------------------------------------------------------------------------------------------------


def read(text: str, name: str) -> Node:
    """The document. `Refused` with the line where it is no JSON; an empty file is an empty object."""
    try:
        start = _skip(text, 0)
        if start == len(text):
            return Node(start, start, {})
        return _whole(text, start)
    except Broken as broken:
        line = text.count("\n", 0, broken.at) + 1
        raise _malformed(name, line, broken.why) from None


def _whole(text: str, start: int) -> Node:
    node = _value(text, start, 0)
    rest = _skip(text, node.end)
    if rest != len(text):
        raise Broken(rest, "there is something after its end")
    return node


def _malformed(name: str, line: int, why: str) -> Refused:
    return invalid(f"{name}, line {line}: {why}. Nothing was changed.", "Mend that line, then repeat the command.")


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    at = found.end() if found else at
    if text.startswith("/*", at):
        raise Broken(at, "a comment does not end")
    return at


def _value(text: str, at: int, depth: int) -> Node:
    if depth > DEPTH:
        raise Broken(at, f"it is nested deeper than {DEPTH} levels")
    first = text[at : at + 1]
    if first == "{":
        return _object(text, at, depth)
    if first == "[":
        return _array(text, at, depth)
    found = _STRING.match(text, at) or _PLAIN.match(text, at)
    if not found:
        raise Broken(at, "a value was expected" if first else "it ends too early")
    return Node(at, found.end(), _scalar(found.group(), at))


def _scalar(text: str, at: int) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Broken(at, f"a value cannot be read ({error})") from None


def _object(text: str, at: int, depth: int) -> Node:
    parts: list[Part] = []
    value: dict[str, Any] = {}
    here = _skip(text, at + 1)
    while text[here : here + 1] != "}":
        start = here
        found = _STRING.match(text, start)
        if not found:
            raise Broken(start, "a key in quotes was expected" if text[start:] else "an object does not end")
        key = _scalar(found.group(), start)
        if key in value:
            raise Broken(start, f"the key {found.group()} is there twice")
        here = _skip(text, found.end())
        if text[here : here + 1] != ":":
            raise Broken(here, "a colon was expected")
        node = _value(text, _skip(text, here + 1), depth + 1)
        value[key] = node.value
        parts.append(Part(start, key, node))
        here = _next(text, node.end, "}")
    return Node(at, here + 1, value, tuple(parts))


def _array(text: str, at: int, depth: int) -> Node:
    parts: list[Part] = []
    here = _skip(text, at + 1)
    while text[here : here + 1] != "]":
        node = _value(text, here, depth + 1)
        parts.append(Part(node.start, "", node))
        here = _next(text, node.end, "]")
    return Node(at, here + 1, [part.node.value for part in parts], tuple(parts))


def _next(text: str, at: int, closing: str) -> int:
    """The start of the next part, or the closing bracket."""
    here = _skip(text, at)
    if text[here : here + 1] == ",":
        return _skip(text, here + 1)
    if text[here : here + 1] != closing:
        raise Broken(here, f"a comma or {closing} was expected" if text[here:] else "it ends too early")
    return here


def find(node: Node, path: Path) -> Node | None:
    """The value at a path."""
    for key in path:
        kind = list if isinstance(key, int) else dict
        parts = enumerate(node.parts) if isinstance(node.value, kind) else ()
        part = next((p for at, p in parts if key == (at if kind is list else p.key)), None)
        if part is None:
            return None
        node = part.node
    return node


# --- changing -----------------------------------------------------------------------------------------------------


def put(text: str, path: Path, value: Any, name: str) -> str:
    """The text with that value at that path; objects on the way are made."""
    root = read(text, name)
    if find(root, path) is not None and find(root, path).value == value:  # type: ignore[union-attr]
        return text
    wanted = _with(root.value, path, value, name)
    if root.start == root.end:
        made = text + _written(wanted, "", "  ", _newline(text)) + _newline(text)
        return _proved(made, wanted, name)
    known, rest = _known_part(root, path)
    if not rest:
        changed = text[: known.start] + _written_at(text, known.start, value) + text[known.end :]
        return _proved(changed, wanted, name)
    for key in reversed(rest[1:]):
        value = {key: value}
    return _proved(_insert(text, known, value, str(rest[0])), wanted, name)


def add(text: str, path: Path, value: Any, name: str) -> str:
    """The text with one more item in the array at a path, which is made where it is absent."""
    array = find(read(text, name), path)
    if array is None:
        return put(text, path, [value], name)
    if not isinstance(array.value, list):
        raise _other_shape(name, path)
    return _proved(_insert(text, array, value), _with(read(text, name).value, path, [*array.value, value], name), name)


def drop(text: str, path: Path, name: str) -> str:
    """The text without the member at a path."""
    root = read(text, name)
    parent = find(root, path[:-1])
    index = next((i for i, p in enumerate(parent.parts) if p.key == path[-1]), -1) if parent else -1
    if parent is None or index < 0 or not isinstance(parent.value, dict):
        return text
    kept = {key: value for key, value in parent.value.items() if key != path[-1]}
    wanted = _with(root.value, path[:-1], kept, name) if path[:-1] else kept
    return _proved(_cut(text, parent, index), wanted, name)


def drop_items(text: str, path: Path, ours: Callable[[Any], bool], name: str) -> str:
    """The text without those items of the array at a path."""
    while True:
        root = read(text, name)
        array = find(root, path)
        if array is None or not isinstance(array.value, list):
            return text
        index = next((i for i, value in enumerate(array.value) if ours(value)), -1)
        if index < 0:
            return text
        kept = [value for i, value in enumerate(array.value) if i != index]
        text = _proved(_cut(text, array, index), _with(root.value, path, kept, name), name)


def _known_part(root: Node, path: Path) -> tuple[Node, Path]:
    """The deepest value on a path that is there, and the keys that are not."""
    for count in range(len(path), 0, -1):
        found = find(root, path[:count])
        if found is not None:
            return found, path[count:]
    return root, path


def _with(value: Any, path: Path, new: Any, name: str) -> Any:
    """The meaning that a change must lead to."""
    if not path:
        return new
    key, *rest = path
    if isinstance(key, int) and isinstance(value, list) and key < len(value):
        return [*value[:key], _with(value[key], tuple(rest), new, name), *value[key + 1 :]]
    if isinstance(key, int) or not isinstance(value, dict):
        raise _other_shape(name, path)
    return {**value, key: _with(value.get(key, {}), tuple(rest), new, name)}


def _other_shape(name: str, path: Path) -> Refused:
    return invalid(
        f"{name} has another shape than its client reads, at {'.'.join(map(str, path))}. Nothing was changed.",
        "Mend it, or add by hand what `tally install --print` shows.",
    )


def _proved(text: str, wanted: Any, name: str) -> str:
    if read(text, name).value != wanted:
        raise invalid(
            f"{name} could not be changed without touching what is not ours. Nothing was changed.",
            "Add by hand what `tally install --print` shows.",
        )
    return text


# --- text ---------------------------------------------------------------------------------------------------------


def _newline(text: str) -> str:
    end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def _unit(text: str) -> str:
    """What one level is indented by: the first indentation that the file has."""
    found = re.search(r"^([ \t]{1,32})[\"\[{]", text, re.MULTILINE)
    return found.group(1) if found else "  "


def _indent(text: str, at: int) -> str:
    """The white space that the line of a place begins with; of a line that is nothing else, no more than some."""
    start = text.rfind("\n", 0, at) + 1
    found = re.compile(r"[ \t]{0,64}").match(text, start)
    return found.group() if found else ""


def _written(value: Any, indent: str, unit: str, newline: str) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=unit)
    return text.replace("\n", newline + indent)


def _written_at(text: str, at: int, value: Any) -> str:
    """A value in the file's own manner, for a place on a line that begins as this one."""
    if "\n" not in text.strip():
        return json.dumps(value, ensure_ascii=False)
    return _written(value, _indent(text, at), _unit(text), _newline(text))


def _insert(text: str, inside: Node, value: Any, key: str | None = None) -> str:
    """The text with one more part at the end of an object or array."""
    if isinstance(inside.value, dict) != (key is not None):
        raise invalid("A value has another kind than was expected.", "Add by hand what `tally install --print` shows.")
    head = f"{json.dumps(key, ensure_ascii=False)}: " if key is not None else ""
    close = inside.end - 1
    if inside.parts and "\n" not in text[inside.start : inside.end]:
        last = inside.parts[-1].node.end
        return f"{text[:last]}, {head}{json.dumps(value, ensure_ascii=False)}{text[last:]}"
    outer, unit, newline = _indent(text, inside.start), _unit(text), _newline(text)
    inner = _indent(text, inside.parts[-1].start) if inside.parts else outer + unit
    written = newline + inner + head + _written(value, inner, unit, newline)
    if not inside.parts:
        kept = text[inside.start + 1 : close].rstrip()
        return f"{text[: inside.start + 1]}{kept}{written}{newline}{outer}{text[close:]}"
    last = inside.parts[-1].node.end
    after = _skip(text, last)
    has_comma = text[after : after + 1] == ","
    ended = len(text[:close].rstrip())
    comma, trailing = ("", ",") if has_comma else (",", "")
    tail = text[ended:close] if "\n" in text[ended:close] else newline + outer
    return f"{text[:last]}{comma}{text[last:ended]}{written}{trailing}{tail}{text[close:]}"


def _cut(text: str, inside: Node, index: int) -> str:
    """The text without one part, its comma and its line."""
    part = inside.parts[index]
    close = inside.end - 1
    before = inside.parts[index - 1].node.end if index else inside.start + 1
    after = _skip(text, part.node.end)
    has_comma = text[after : after + 1] == ","
    start = len(text[: part.start].rstrip(" \t"))
    if text[start - 1 : start] == "\n":
        start -= 2 if text[start - 2 : start] == "\r\n" else 1
    end = after + 1 if has_comma else part.node.end
    if index + 1 < len(inside.parts):
        return text[: max(start, before)] + text[end:] if start >= before else text[: part.start] + text[end:]
    if index and not has_comma:  # the last one: the comma before it goes, what stands around it stays
        comma = _skip(text, before)
        return text[:comma] + text[comma + 1 : max(start, comma + 1)] + text[end:]
    if not index and not text[inside.start + 1 : part.start].strip() and not text[end:close].strip():
        return text[: inside.start + 1] + text[close:]
    return text[: max(start, before)] + text[end:]
