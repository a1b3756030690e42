"""All clients that can be installed into."""

from __future__ import annotations

from typing import Final

from tallystick.edge.clients.claude import setup as claude
from tallystick.edge.clients.codex import setup as codex
from tallystick.edge.clients.cursor import setup as cursor
from tallystick.edge.clients.gemini import setup as gemini
from tallystick.edge.clients.opencode import setup as opencode
from tallystick.edge.clients.pi import setup as pi
from tallystick.edge.clients.qwen import setup as qwen
from tallystick.edge.clients.shape import Client

_SETUPS: Final = (claude, codex, opencode, pi, gemini, cursor, qwen)

CLIENTS: Final[dict[str, Client]] = {setup.CLIENT.name: setup.CLIENT for setup in _SETUPS}
"""By name, in the order in which they are shown."""
