"""Where a spoke's store is when nobody says."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from tallystick import wire


def store_path(spoke_id: str, hub_url: str | None) -> Path:
    """In this platform's directory for the state of programs, in a folder named by a digest of the host it belongs to:
    two hosts on one machine never share a store."""
    hub = hub_url or os.path.realpath(wire.home())
    return _state() / "spokes" / hashlib.sha256(os.fsencode(hub)).hexdigest()[:12] / f"{spoke_id}.db"


def _state() -> Path:
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/tallystick").expanduser()
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (given if given.is_absolute() else Path("~/.local/state").expanduser()) / "tallystick"
