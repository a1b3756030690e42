"""OpenCode: an entry in opencode.json, a plugin, a command.

The plugin says at pauses what the hooks of others say. The configuration may be `opencode.jsonc`, where that is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tallystick.app.clients import Doubt, Found, Surroundings
from tallystick.edge.clients import shape, texts
from tallystick.edge.clients.shape import KEY, Entries, Part, Program, Table, Whole


class OpenCode:
    """Implements `shape.Client`."""

    name = "opencode"
    has_project = True

    def detect(self, place: Surroundings) -> Found | None:
        """By its folder or its program."""
        return shape.found(place, self.name, _folder(place), "opencode")

    def parts(self, place: Surroundings, program: Program, project: str) -> tuple[Part, ...]:
        """What is ours in which file."""
        folder = _folder(place)
        inside = Path(project, ".opencode") if project else folder
        return (
            texts.hook_script(self.name, program),
            Entries(_config(Path(project) if project else folder), (Table(("mcp", KEY), _server(program)),)),
            Whole(inside / "plugin" / f"{KEY}.js", texts.script("opencode/plugin.js", self.name, program)),
            Whole(inside / "command" / "tally.md", texts.markdown_command("$ARGUMENTS")),
        )

    def doubts(self, place: Surroundings) -> list[Doubt]:  # noqa: ARG002 - it keeps nothing that tells
        """None."""
        return []

    def notes(self, project: str) -> tuple[str, ...]:
        """What a person has to do besides."""
        wake = "To let an idle session be woken, start it with an HTTP port: opencode --port 0"
        return (wake, *((texts.NOT_TO_COMMIT,) if project else ()))


def _folder(place: Surroundings) -> Path:
    given = place.environment.get("OPENCODE_CONFIG_DIR", "")
    if given.startswith("/"):
        return Path(given)
    return shape.configured(place, "XDG_CONFIG_HOME", ".config") / "opencode"


def _config(folder: Path) -> Path:
    """The file it has already; the newest form of its name wins, as it does there."""
    for name in ("opencode.jsonc", "opencode.json"):
        if (folder / name).exists():
            return folder / name
    return folder / "opencode.json"


def _server(program: Program) -> dict[str, Any]:
    words = program.server("opencode")
    return {"type": "local", "command": words, "environment": program.environment(), "enabled": True}


CLIENT = OpenCode()
