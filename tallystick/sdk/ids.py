"""Ids that are made on this side: a type prefix and a ULID, as the host's are."""

from __future__ import annotations

import os
import time

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(first + second for first in _CROCKFORD for second in _CROCKFORD)


def new_id(prefix: str) -> str:
    """A new id such as `msg_01J…`. It sorts by the millisecond in which it was made; the rest is chance."""
    number = time.time_ns() // 1_000_000 << 80 | int.from_bytes(os.urandom(10), "big")
    return f"{prefix}_" + "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])
