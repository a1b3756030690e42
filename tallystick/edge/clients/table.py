"""All clients that can be installed into."""

from __future__ import annotations

from typing import Final

from tallystick.edge.clients.claude import setup as claude
from tallystick.edge.clients.codex import setup as codex
from tallystick.edge.clients.shape import Client

CLIENTS: Final[dict[str, Client]] = {client.name: client for client in (claude.CLIENT, codex.CLIENT)}
"""By name, in the order in which they are shown."""
