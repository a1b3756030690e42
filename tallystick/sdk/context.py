"""The context slice: the little of a larger work that whoever does a part of it needs to know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import msgspec

from tallystick.sdk.errors import ReachRefused, invalid
from tallystick.sdk.reference import Reference, as_text

SLICE_BYTES = 8 * 1024
"""The largest slice as JSON: that of a brief."""

LAST = 20
"""How many earlier conclusions `last` keeps."""


class ContextSlice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a message brings along besides its payload. At most 8 KiB as JSON; larger things go by reference.

    - `goal`: what the whole work is for.
    - `related`: ids of tasks, messages or traces that have to do with it.
    - `references`: what it rests on, as `tally ask --input` takes it: `PATH`, `PATH:10-20`, `REVISION:PATH`,
      `blob:SHA256`, a URL; at most 64. The host looks them up when the message is sent, refuses it where one is not
      there, and keeps what they are now, whatever becomes of the files. In a handler each is a `Reference`.
    - `conclusions`: what earlier steps found, oldest first.
    """

    goal: str = ""
    related: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    conclusions: tuple[str, ...] = ()

    def last(self, count: int = LAST) -> Self:
        """The same with the newest `count` conclusions alone."""
        if count < 0:
            raise invalid(f"A slice cannot keep {count} conclusions.", "Give 0 or more.")
        return msgspec.structs.replace(
            self, conclusions=self.conclusions[len(self.conclusions) - min(count, len(self.conclusions)) :]
        )

    def within(self, budget: int, count: Callable[[str], int]) -> Self:
        """The same with as many of the newest conclusions as a budget of tokens allows. `count` says how many tokens a
        text has; goal, related ids and references count too and are always kept. Raises `ReachRefused` `invalid` where
        they alone are over the budget."""
        left = budget - sum(count(text) for text in (self.goal, *self.related, *self.references) if text)
        if left < 0:
            raise invalid(
                f"The goal, related ids and references take {budget - left} tokens of a budget of {budget}.",
                "Shorten the goal, or allow more.",
            )
        kept: list[str] = []
        for conclusion in reversed(self.conclusions):
            left -= count(conclusion)
            if left < 0:
                break
            kept.append(conclusion)
        return msgspec.structs.replace(self, conclusions=tuple(reversed(kept)))


class GivenSlice(ContextSlice, frozen=True, kw_only=True):
    """The slice that a message came with: what it refers to can be read."""

    references: tuple[Reference, ...] = ()


def slice_of(given: ContextSlice | Mapping[str, Any] | None) -> dict[str, Any]:
    """A slice as plain values. Raises `ReachRefused` `invalid`: not a slice (with the path), or above 8 KiB."""
    if given is None:
        return {}
    try:
        whole = msgspec.convert(msgspec.to_builtins(given, enc_hook=as_text), ContextSlice)
        encoded = msgspec.json.encode(whole)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise invalid(
            f"The context is no slice: {error}.", f"Use the fields {', '.join(ContextSlice.__struct_fields__)}."
        ) from None
    if len(encoded) > SLICE_BYTES:
        raise invalid(
            f"The context is {len(encoded)} bytes long as JSON; at most {SLICE_BYTES} are taken.",
            "Cut it with `last(n)` or `within(budget, count)`, or send larger things by reference.",
        )
    found: dict[str, Any] = msgspec.json.decode(encoded)
    return found


def slice_from(received: Any, references: tuple[Reference, ...] = ()) -> GivenSlice:
    """The slice that a message came with; what this version does not know of it is left out."""
    fields: Sequence[str] = [field for field in ContextSlice.__struct_fields__ if field != "references"]
    told = received if isinstance(received, dict) else {}
    try:
        known = msgspec.convert({key: value for key, value in told.items() if key in fields}, ContextSlice)
        return GivenSlice(**{field: getattr(known, field) for field in fields}, references=references)
    except msgspec.ValidationError as error:
        raise ReachRefused(
            "invalid", f"The context that came along is no slice: {error}.", "Have its sender send one."
        ) from None
