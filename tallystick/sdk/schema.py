"""Typed payloads: a `msgspec.Struct` or a JSON schema says what a payload or a result must be."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import msgspec

from tallystick.sdk.errors import ReachRefused, invalid

Side: TypeAlias = type[msgspec.Struct] | dict[str, Any] | None
"""What one side must be: a Struct class, a JSON schema, or anything."""


@dataclass(frozen=True)
class Schema:
    """What goes in and what comes out: `Schema(payload, result)`, each a `msgspec.Struct` class, a JSON schema as a
    dict, or None for anything.

    With a Struct the handler gets its payload, and the caller its result, as an instance of it. A JSON schema needs
    the extra `tallystick[schema]`. Raises `ReachRefused`: `invalid` for what is no schema, `unsupported` where the
    extra is not installed."""

    payload: Side = None
    result: Side = None
    payload_text: str = field(init=False, repr=False, compare=False)
    result_text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("payload", "result"):
            object.__setattr__(self, f"{name}_text", _text(getattr(self, name)))

    def check_payload(self, value: Any, where: str) -> Any:
        """The payload, as an instance of its Struct where it has one. Raises `ReachRefused` `invalid` with the path."""
        return _checked(self.payload, self.payload_text, value, f"The payload for {where}")

    def check_result(self, value: Any, where: str) -> Any:
        """The result, likewise."""
        return _checked(self.result, self.result_text, value, f"The result of {where}")


SchemaLike: TypeAlias = Side | Schema
"""What `Capability(schema=…)` takes; one side alone is that of the payload."""


def schema_of(given: SchemaLike, where: str) -> Schema:
    """In its one form. Raises `ReachRefused` `invalid` for what is none."""
    if isinstance(given, Schema):
        return given
    if given is None or isinstance(given, dict) or _is_struct(given):
        return Schema(payload=given)
    raise invalid(
        f"Capability {where} has a schema of type {type(given).__name__}.",
        "Give a msgspec.Struct class, a JSON schema as a dict, or Schema(payload, result).",
    )


def _is_struct(side: Any) -> bool:
    return isinstance(side, type) and issubclass(side, msgspec.Struct)


def _text(side: Side) -> str:
    """As the text of a JSON schema."""
    if side is None:
        return ""
    if isinstance(side, dict):
        text = msgspec.json.encode(side, order="deterministic").decode()
        _validator(text)
        return text
    if not _is_struct(side):
        raise invalid(f"{side!r} is no schema.", "Give a msgspec.Struct class or a JSON schema as a dict.")
    return msgspec.json.encode(msgspec.json.schema(side), order="deterministic").decode()


def _checked(side: Side, text: str, value: Any, what: str) -> Any:
    if side is None:
        return value
    if isinstance(side, dict):
        worst = _validator(text).worst(value)
        if worst:
            raise invalid(f"{what} does not fit its schema: {worst}.", "Correct it at that place.")
        return value
    try:
        return msgspec.convert(value, side, str_keys=True)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at ")
        raise invalid(
            f"{what} does not fit its schema: {reason} at {path.strip('`') or '$'}.", "Correct it at that place."
        ) from None


class _Validator(Protocol):
    def worst(self, value: Any) -> str: ...


@lru_cache(maxsize=256)
def _validator(text: str) -> _Validator:
    """What checks values against a JSON schema. The library is loaded when the first such schema is met."""
    try:
        from tallystick.sdk.jsonschemas import JsonSchema
    except ImportError:
        raise ReachRefused(
            "unsupported",
            "A JSON schema as a dict needs the library jsonschema, which is not installed.",
            "Install `tallystick[schema]`, or give a msgspec.Struct class.",
        ) from None
    return JsonSchema(text)
