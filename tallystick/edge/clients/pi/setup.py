"""Pi: an entry in mcp.json, an extension, a skill.

The extension says at pauses what the hooks of others say, and is woken by a hook that waits: Pi takes a message of an
extension into an idle session. `direct` puts the tools into the first request; else they hide behind its code mode.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tallystick.app.clients import Doubt, Found, Surroundings
from tallystick.edge.clients import shape, texts
from tallystick.edge.clients.shape import KEY, Entries, Part, Program, Table, Whole


class Pi:
    """Implements `shape.Client`."""

    name = "pi"
    has_project = True

    def detect(self, place: Surroundings) -> Found | None:
        """By its folder or its program."""
        return shape.found(place, self.name, _folder(place), "pi")

    def parts(self, place: Surroundings, program: Program, project: str) -> tuple[Part, ...]:
        """What is ours in which file."""
        folder = Path(project, ".pi") if project else _folder(place)
        return (
            texts.hook_script(self.name, program),
            Entries(folder / "mcp.json", (Table(("mcpServers", KEY), _server(program)),)),
            Whole(folder / "extensions" / f"{KEY}.ts", texts.script("pi/extension.ts", self.name, program)),
            Whole(folder / "skills" / KEY / "SKILL.md", texts.skill()),
        )

    def doubts(self, place: Surroundings) -> list[Doubt]:  # noqa: ARG002 - it keeps nothing that tells
        """None."""
        return []

    def notes(self, project: str) -> tuple[str, ...]:
        """What a person has to do besides."""
        trust = ("Pi reads the files of a workspace only where you trusted it.", texts.NOT_TO_COMMIT)
        return ("Sessions that are open now get it by /reload.", *(trust if project else ()))


def _folder(place: Surroundings) -> Path:
    return shape.configured(place, "PI_CODING_AGENT_DIR", ".pi", "agent")


def _server(program: Program) -> dict[str, Any]:
    words = program.server("pi")
    return {
        "command": words[0],
        "args": words[1:],
        "env": program.environment(),
        "description": texts.DESCRIPTION,
        "exposure": "direct",
    }


CLIENT = Pi()
