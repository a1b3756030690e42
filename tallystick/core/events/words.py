"""The base of all events and the words they may carry."""

from __future__ import annotations

import msgspec

from tallystick.core.model import Brief, Value


class Text(Value, frozen=True):
    """The words of one event. Stored as a body that can be erased without breaking the chain."""

    title: str = ""
    body: str = ""
    brief: Brief = Brief()


ERASED = Text(title="[erased]", body="[erased]")
"""What stands in place of a body that was erased."""


class Happened(msgspec.Struct, frozen=True, omit_defaults=True, tag=True, kw_only=True, gc=False):
    """Base of all events."""

    text: Text | None = None
