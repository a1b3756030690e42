"""What a spoke offers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tallystick.sdk.errors import invalid
from tallystick.sdk.schema import Schema, SchemaLike, schema_of

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,62}")
_VERSION = re.compile(r"(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){0,3}")
_OWN_VERSION = re.compile(r"(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){1,2}")
_DOMAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_BOUNDS = {"weight": 1000, "concurrency": 64}


@dataclass(frozen=True)
class Capability:
    """One thing that a spoke can do, by the name that callers reach for.

    - `name`: 1 to 63 letters, digits or `. _ -`, first a letter; also the key of its handler in `handler_map`.
    - `version`: `MAJOR.MINOR`, or `MAJOR.MINOR.PATCH`; who reaches for `Name@1.2` is served by 1.2 up to below 2.
    - `domain`: 1 to 63 of a-z, 0-9 and `. _ -`: seen only by callers that are registered for the same one, and by a
      local caller that is registered for none; empty: by all of the workspace.
    - `weight`: its share of the messages among the spokes that offer it, 1 to 1000. Exact where they come one by one;
      in a burst the free places (`concurrency`) decide.
    - `concurrency`: how many handlers of it may run at once in this spoke, 1 to 64. A handler that reaches for its own
      capability takes a second place; where there is none, it waits for itself until its time is over.
    - `idempotent`: running the handler twice for one message does no harm, so a message that was begun and has no known
      outcome may be run again, here or elsewhere. Without it such a message becomes *unverified* instead.
    - `schema`: what the payload must be: a `msgspec.Struct` class, a JSON schema as a dict, or
      `Schema(payload, result)`. Checked by the sender where it knows it, by the host, and before the handler runs.
    - `standing`: messages wait for this spoke while it is away (at most 1,000, seven days).

    Raises `ReachRefused` `invalid` for values outside these bounds.
    """

    name: str
    version: str = "1.0"
    domain: str = ""
    weight: int = 1
    concurrency: int = 1
    idempotent: bool = False
    schema: SchemaLike = None
    standing: bool = False
    checks: Schema = field(init=False, repr=False, compare=False)
    """The schema in its one form."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise invalid(f"{self.name!r} is no name of a capability.", "Use 1 to 63 letters, digits or . _ -")
        if not isinstance(self.version, str) or not _OWN_VERSION.fullmatch(self.version):
            raise invalid(
                f"Capability {self.name} has the version {self.version!r}.", 'Use MAJOR.MINOR, for example "1.0".'
            )
        if not isinstance(self.domain, str) or (self.domain and not _DOMAIN.fullmatch(self.domain)):
            raise invalid(
                f"Capability {self.name} has the domain {self.domain!r}.",
                "Use 1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit.",
            )
        for name, most in _BOUNDS.items():
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= most:
                raise invalid(f"Capability {self.name} has {name}={value!r}.", f"Use an integer from 1 to {most}.")
        object.__setattr__(self, "checks", schema_of(self.schema, self.name))


def offer_of(capability: Capability, *, has_structs: bool = True) -> dict[str, Any]:
    """How ANCHOR tells of it, with or without the schemas of Structs; what is as usual is left out."""
    told: dict[str, Any] = {"name": capability.name, "version": capability.version}
    for name, usual in (
        ("domain", ""),
        ("weight", 1),
        ("concurrency", 1),
        ("idempotent", False),
        ("standing", False),
    ):
        if getattr(capability, name) != usual:
            told[name] = getattr(capability, name)
    checks = capability.checks
    sides = {"schema": (checks.payload, checks.payload_text), "result_schema": (checks.result, checks.result_text)}
    return told | {name: text for name, (side, text) in sides.items() if text and (has_structs or type(side) is dict)}


def target_of(target: str | Capability) -> str:
    """What is reached for, as text: `Name` or `Name@1.2`. Raises `ReachRefused` `invalid`."""
    if isinstance(target, Capability):
        return f"{target.name}@{target.version}"
    name, mark, version = target.partition("@") if isinstance(target, str) else ("", "", "")
    if not _NAME.fullmatch(name) or (mark and not _VERSION.fullmatch(version)):
        raise invalid(f"{target!r} names no capability.", "Reach for `Name`, or `Name@1.2` for a compatible version.")
    return target
