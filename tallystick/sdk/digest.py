"""What bodies are compared by."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec


def digest_of(*values: Any) -> str:
    """sha256 in hex over values as JSON with sorted keys, one after the other."""
    found = hashlib.sha256()
    for value in values:
        found.update(msgspec.json.encode(value, order="deterministic"))
    return found.hexdigest()
