"""What a spoke and its store are called when nobody says."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

from tallystick import wire


def store_path(spoke_id: str, hub_url: str | None) -> Path:
    """In this platform's directory for the state of programs, in a folder named by a digest of the host it belongs to:
    two hosts on one machine never share a store."""
    hub = _one_spelling(hub_url) if hub_url else os.path.realpath(wire.home())
    return _state() / "spokes" / hashlib.sha256(os.fsencode(hub)).hexdigest()[:12] / f"{spoke_id}.db"


def _one_spelling(hub_url: str) -> str:
    """However an address is written, it is one host: one store."""
    parts = urlsplit(hub_url)
    name = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{name}" + ("" if parts.port in (None, usual) else f":{parts.port}")


def anchor_name(sender: str | None, capability: str) -> str:
    """The spoke_id of a standing registration: the same each time the same sender registers for it."""
    who = sender or wire.caller_environment().get("TALLY_AGENT") or "person"
    whole = f"{who}-{capability}"
    plain = re.sub(r"[^a-z0-9]+", "-", whole.lower()).strip("-")[:48]
    if plain == whole and "-" not in who:  # else `team` and `a-b` would be called as `team-a` and `b` are
        return plain
    return f"{plain}-{hashlib.sha256(f'{who} {capability}'.encode()).hexdigest()[:8]}".lstrip("-")


def _state() -> Path:
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/tallystick").expanduser()
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (given if given.is_absolute() else Path("~/.local/state").expanduser()) / "tallystick"
