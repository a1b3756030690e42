"""What all sessions of a host share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tallystick.app.driving import Driving
from tallystick.app.jobs import Runner
from tallystick.app.ports import Git

if TYPE_CHECKING:
    from tallystick.edge.acp.canary import Proof

Update = dict[str, Any]
"""What a client says of its turn, as it stands in the protocol."""


class Doors(Protocol):
    """A session's own socket: whoever connects there is that session."""

    async def listen_session(self, session_id: str, path: Path) -> None: ...

    async def close_session(self, session_id: str) -> None: ...


class Around(msgspec.Struct, frozen=True):
    """What all sessions share."""

    home: Path
    sockets: Path
    """The directory of their sockets."""
    git: Git
    runner: Runner
    driving: Driving
    doors: Doors
    environment: dict[str, str]
    """What each client inherits: HOME, LANG and the like."""
    tally: tuple[str, ...]
    """The command line of our MCP server."""
    package: str
    """The directory of our own code, which that server is: seen inside of every sandbox, wherever it is installed."""
    prefixes: Callable[[str, str, str, str], tuple[str, ...]]
    """Which directories a command needs to be seen."""
    proved: dict[str, Proof]
    """What canaries showed, by client, version and mode."""
