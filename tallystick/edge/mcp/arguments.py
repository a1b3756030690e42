"""Arguments of a tool: what is tolerated of models and clients that write JSON loosely, and what is refused.

Some clients send "true", "5" or a JSON-encoded list as a string where a boolean, a number or a list is asked for: these
are taken for what they say. Everything else must be as the schema says, and a refusal names the argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tallystick.core.errors import Refused, invalid
from tallystick.core.mention import nearest

_WHOLE = re.compile(r"-?[0-9]{1,15}\Z")
_DECIMAL = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?\Z")


class Argument(msgspec.Struct, frozen=True, kw_only=True):
    """One argument: flat, of exactly one type."""

    name: str
    kind: str
    """string, boolean, integer, number, or list (of strings)."""
    help: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False
    least: float | None = None
    most: float | None = None

    def schema(self) -> dict[str, Any]:
        """Its JSON schema."""
        if self.kind == "list":
            found: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
        else:
            found = {"type": self.kind}
        if self.choices:
            found["enum"] = list(self.choices)
        found |= {"minimum": self.least} if self.least is not None else {}
        found |= {"maximum": self.most} if self.most is not None else {}
        return found | ({"description": self.help} if self.help else {})


def schema(arguments: tuple[Argument, ...]) -> dict[str, Any]:
    """The schema of a tool's arguments: an object, closed, in the order of the table."""
    found: dict[str, Any] = {"type": "object", "properties": {item.name: item.schema() for item in arguments}}
    required = [item.name for item in arguments if item.required]
    return found | ({"required": required} if required else {}) | {"additionalProperties": False}


def fit(arguments: tuple[Argument, ...], given: Any) -> dict[str, Any]:
    """What a call gave, in the types of the table; what was left away (or is null) is not in it. Raises `Refused`."""
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise invalid("The arguments are no object.", "Send them by their names, or {} for none.")
    known = {item.name: item for item in arguments}
    for name in given:
        if name not in known:
            raise _unknown(name, tuple(known))
    found = {name: _fit(item, given[name]) for name, item in known.items() if given.get(name) is not None}
    missing = [item.name for item in arguments if item.required and item.name not in found]
    if missing:
        raise invalid(f"The argument `{missing[0]}` is missing.", f"Send it: {known[missing[0]].help or 'a text'}")
    return found


def _unknown(name: Any, known: tuple[str, ...]) -> Refused:
    near = nearest(str(name)[:64], known)
    hint = f"Did you mean `{near[0]}`?" if near else f"There are: {', '.join(known) or 'none'}."
    return invalid(f"There is no argument {str(name)[:64]!r}.", hint)


def _fit(item: Argument, value: Any) -> Any:
    found = _KINDS[item.kind](item, value)
    if item.choices and found not in item.choices:
        near = nearest(str(found)[:64], item.choices)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise invalid(
            f"`{item.name}` cannot be {str(found)[:64]!r}.", f"{hint}It is one of: {', '.join(item.choices)}."
        )
    if (item.least is not None and found < item.least) or (item.most is not None and found > item.most):
        raise invalid(f"`{item.name}` cannot be {found}.", f"It is from {item.least} to {item.most}.")
    return found


def _string(item: Argument, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(item, value, "a text")
    return value  # also one that looks like JSON: it stays what it is


def _boolean(item: Argument, value: Any) -> bool:
    if isinstance(value, str) and value in ("true", "false"):
        return value == "true"
    if not isinstance(value, bool):
        raise _wrong(item, value, "true or false")
    return value


def _integer(item: Argument, value: Any) -> int:
    if isinstance(value, str) and _WHOLE.match(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)  # JSON knows one kind of number
    if type(value) is not int:
        raise _wrong(item, value, "a whole number")
    return value


def _number(item: Argument, value: Any) -> float:
    if isinstance(value, str) and _DECIMAL.match(value):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(item, value, "a number")
    return float(value)


def _list(item: Argument, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            raise _wrong(item, value, "a list of texts") from None
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise _wrong(item, value, "a list of texts")
    return tuple(value)


_KINDS: dict[str, Callable[[Argument, Any], Any]] = {
    "string": _string,
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
    "list": _list,
}


def _wrong(item: Argument, value: Any, wanted: str) -> Refused:
    kind = {str: "a text", bool: "a boolean", int: "a number", float: "a number", list: "a list"}.get(type(value))
    what = kind or "an object"
    return invalid(f"`{item.name}` must be {wanted}, and is {what}.", f"Send {wanted}, or leave it away.")
