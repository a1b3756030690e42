"""Settings of one session for a client that takes MCP servers from its own settings alone.

The person's directory is shown entry by entry, so that log-ins, models and histories are theirs; only the file that
names servers is another: theirs, and ours.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.core.errors import invalid
from tallystick.edge.acp.registry import Driven

if TYPE_CHECKING:
    from tallystick.edge.acp.speech import Server

_KEY = "mcpServers"


def variable(client: Driven, folder: Path) -> dict[str, str]:
    """What makes the client look there."""
    return {client.own_mcp.variable: str(folder)} if client.own_mcp else {}


def shown(client: Driven, folder: Path) -> tuple[str, ...]:
    """What its sandbox has to show of it."""
    return (str(folder),) if client.own_mcp else ()


def put(client: Driven, folder: Path, home: Path, named: str, server: Server) -> None:
    """Write it, for the owner alone to read. `named`: the directory that the agent's own file names, if it does."""
    if client.own_mcp is None:
        return
    theirs = Path(named) if named else home / client.own_mcp.folder
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for entry in sorted(theirs.iterdir()) if theirs.is_dir() else ():
        link = folder / entry.name
        if entry.name != client.own_mcp.file and not os.path.lexists(link):
            link.symlink_to(entry)
    found = _read(theirs / client.own_mcp.file)
    ours = {
        "command": server.command,
        "args": list(server.arguments),
        "env": server.environment,
        **dict(client.own_mcp.more),
    }
    found[_KEY] = {**_servers(found), server.name: ours}
    target = folder / client.own_mcp.file
    draft = target.with_name(f".{target.name}.new")
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(found, indent=2))
    draft.replace(target)


def _servers(found: dict[str, Any]) -> dict[str, Any]:
    servers = found.get(_KEY)
    return servers if isinstance(servers, dict) else {}


def _read(file: Path) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, RecursionError):
        raise invalid(f"{file} cannot be read, or is no JSON.", "Put it right; the client needs it as well.") from None
    return found if isinstance(found, dict) else {}
