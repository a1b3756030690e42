"""The base of all commands."""

from __future__ import annotations

import msgspec


class Asked(msgspec.Struct, frozen=True, tag=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of all commands."""
