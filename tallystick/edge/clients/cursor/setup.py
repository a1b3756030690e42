"""Cursor: an entry in mcp.json; in a workspace a rule besides. Documented, not measured: no test drives it.

It is a mailbox: its agent looks when it is told to, or when the rule makes it. The rule stands in for a prompt hook.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tallystick.app.clients import Doubt, Found, Surroundings
from tallystick.edge.clients import shape, texts
from tallystick.edge.clients.shape import KEY, Entries, Part, Program, Table, Whole


class Cursor:
    """Implements `shape.Client`."""

    name = "cursor"
    has_project = True

    def detect(self, place: Surroundings) -> Found | None:
        """By its folder or its program."""
        return shape.found(place, self.name, shape.under_home(place, ".cursor"), "cursor", "cursor-agent")

    def parts(self, place: Surroundings, program: Program, project: str) -> tuple[Part, ...]:
        """What is ours in which file."""
        folder = Path(project, ".cursor") if project else shape.under_home(place, ".cursor")
        servers = Entries(folder / "mcp.json", (Table(("mcpServers", KEY), _server(program)),))
        return (servers, Whole(folder / "rules" / f"{KEY}.mdc", texts.rule())) if project else (servers,)

    def doubts(self, place: Surroundings) -> list[Doubt]:  # noqa: ARG002 - it keeps nothing that tells
        """None."""
        return []

    def notes(self, project: str) -> tuple[str, ...]:
        """What a person has to do besides."""
        return (
            "Switch the server on in its settings, under MCP.",
            texts.NOT_TO_COMMIT if project else "It has no hook that we use: tell it to look at its inbox.",
        )


def _server(program: Program) -> dict[str, Any]:
    words = program.server("cursor")
    return {"command": words[0], "args": words[1:], "env": program.environment()}


CLIENT = Cursor()
