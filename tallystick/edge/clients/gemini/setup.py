"""Gemini CLI: an extension of the user; in a workspace entries of `.gemini/settings.json`.

The extension is its own packaging: a folder that is ours altogether, with the server, hooks, a skill and a command. Its
hooks count in milliseconds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tallystick import __version__
from tallystick.app.clients import Doubt, Found, Surroundings
from tallystick.edge.clients import shape, texts
from tallystick.edge.clients.shape import KEY, Entries, Item, Part, Program, Table, Whole

_EVENTS = (("SessionStart", "session"), ("BeforeAgent", "prompt"), ("AfterAgent", "stop"))


class Gemini:
    """Implements `shape.Client`."""

    name = "gemini"
    has_project = True

    def detect(self, place: Surroundings) -> Found | None:
        """By its folder or its program."""
        return shape.found(place, self.name, shape.under_home(place, ".gemini"), "gemini")

    def parts(self, place: Surroundings, program: Program, project: str) -> tuple[Part, ...]:
        """What is ours in which file."""
        parts = _project(program, project) if project else _own(place, program)
        return (texts.hook_script(self.name, program), *parts)

    def doubts(self, place: Surroundings) -> list[Doubt]:  # noqa: ARG002 - it keeps nothing that tells
        """None."""
        return []

    def notes(self, project: str) -> tuple[str, ...]:
        """What a person has to do besides."""
        trust = ("It reads the files of a workspace only where you trusted it.", texts.NOT_TO_COMMIT)
        return ("Nothing wakes an idle session of Gemini CLI: it looks at its next pause.", *(trust if project else ()))


def _own(place: Surroundings, program: Program) -> tuple[Part, ...]:
    folder = shape.under_home(place, ".gemini", "extensions", KEY)
    manifest = {
        "name": KEY,
        "version": __version__,
        "description": texts.DESCRIPTION,
        "mcpServers": {KEY: _server(program)},
    }
    hooks = {"hooks": {name: [_group(program, event)] for name, event in _EVENTS}}
    return (
        Whole(folder / "gemini-extension.json", _json(manifest)),
        Whole(folder / "hooks" / "hooks.json", _json(hooks)),
        Whole(folder / "skills" / KEY / "SKILL.md", texts.skill()),
        Whole(folder / "commands" / "tally.toml", texts.toml_command("{{args}}")),
    )


def _project(program: Program, project: str) -> tuple[Part, ...]:
    folder = Path(project, ".gemini")
    return (
        Entries(
            folder / "settings.json",
            (Table(("mcpServers", KEY), _server(program)),),
            items=tuple(Item(("hooks", name), _group(program, event)) for name, event in _EVENTS),
            lists=tuple(("hooks", name) for name, _ in _EVENTS),
            is_ours=shape.command_hooks("gemini"),
        ),
        Whole(folder / "skills" / KEY / "SKILL.md", texts.skill()),
        Whole(folder / "commands" / "tally.toml", texts.toml_command("{{args}}")),
    )


def _server(program: Program) -> dict[str, Any]:
    words = program.server("gemini")
    return {"command": words[0], "args": words[1:], "env": program.environment()}


def _group(program: Program, event: str) -> dict[str, Any]:
    command, name = program.hook("gemini", event), f"{KEY}-{event}"
    return shape.group({"name": name, "type": "command", "command": command, "timeout": shape.HOOK_SECONDS * 1000})


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


CLIENT = Gemini()
