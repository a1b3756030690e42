"""Qwen Code: an entry in settings.json and a command. Its hooks are not verified, so none is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tallystick.app.clients import Doubt, Found, Surroundings
from tallystick.edge.clients import shape, texts
from tallystick.edge.clients.shape import KEY, Entries, Part, Program, Table, Whole


class Qwen:
    """Implements `shape.Client`."""

    name = "qwen"
    has_project = True

    def detect(self, place: Surroundings) -> Found | None:
        """By its folder or its program."""
        return shape.found(place, self.name, shape.under_home(place, ".qwen"), "qwen")

    def parts(self, place: Surroundings, program: Program, project: str) -> tuple[Part, ...]:
        """What is ours in which file."""
        folder = Path(project, ".qwen") if project else shape.under_home(place, ".qwen")
        return (
            Entries(folder / "settings.json", (Table(("mcpServers", KEY), _server(place, program)),)),
            Whole(folder / "commands" / "tally.toml", texts.toml_command("{{args}}")),
        )

    def doubts(self, place: Surroundings) -> list[Doubt]:  # noqa: ARG002 - it keeps nothing that tells
        """None."""
        return []

    def notes(self, project: str) -> tuple[str, ...]:
        """What a person has to do besides."""
        look = "It has no hook that we use: tell it to look at its inbox, or type /tally."
        return (look, *((texts.NOT_TO_COMMIT,) if project else ()))


def _server(place: Surroundings, program: Program) -> dict[str, Any]:
    words = program.server("qwen")
    trusted = {"trust": True} if place.allow else {}
    return {"command": words[0], "args": words[1:], "env": program.environment(), **trusted}


CLIENT = Qwen()
