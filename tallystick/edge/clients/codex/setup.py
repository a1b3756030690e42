"""Codex: a table in config.toml, hooks in hooks.json beside it, a skill.

Its hooks run only after a person reviewed them in its terminal; until then they are skipped without a word.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tallystick.app.clients import Doubt, Found, Surroundings
from tallystick.edge.clients import files, shape, texts, tomltext
from tallystick.edge.clients.shape import KEY, Entries, Item, Part, Program, Table, Whole

_EVENTS = (("SessionStart", "session"), ("UserPromptSubmit", "prompt"), ("Stop", "stop"))


class Codex:
    """Implements `shape.Client`."""

    name = "codex"
    has_project = True

    def detect(self, place: Surroundings) -> Found | None:
        """By its folder or its program."""
        return shape.found(place, self.name, _folder(place), "codex")

    def parts(self, place: Surroundings, program: Program, project: str) -> tuple[Part, ...]:
        """What is ours in which file."""
        folder = Path(project, ".codex") if project else _folder(place)
        return (
            texts.hook_script(self.name, program),
            Entries(folder / "config.toml", (Table(("mcp_servers", KEY), _server(place, program)),)),
            Entries(
                folder / "hooks.json",
                items=tuple(Item(("hooks", name), _group(program, event)) for name, event in _EVENTS),
                lists=tuple(("hooks", name) for name, _ in _EVENTS),
                is_ours=shape.command_hooks(self.name),
            ),
            Whole(folder / "skills" / KEY / "SKILL.md", texts.skill()),
        )

    def doubts(self, place: Surroundings) -> list[Doubt]:
        """Whether a person trusted the hooks: Codex writes down a digest of each that it may run."""
        folder = _folder(place)
        config = folder / "config.toml"
        state = tomltext.find(files.text_of(files.look(config), str(config)), ("hooks", "state"), str(config))
        trusted = [key for key in state or {} if key.startswith(f"{folder / 'hooks.json'}:")]
        if len(trusted) >= len(_EVENTS):
            return []
        saw = "Codex has not been told that it may run the hooks, and skips them without a word"
        return [Doubt(saw=saw, fix="Start `codex` once in its terminal, and trust the hooks that it asks about.")]

    def notes(self, project: str) -> tuple[str, ...]:
        """What a person has to do besides."""
        review = "Codex asks once in its terminal whether it may run the hooks: trust them, or they never run."
        trust = ("It reads the files of a workspace only where you trusted it.", texts.NOT_TO_COMMIT)
        return (review, *(trust if project else ()))


def _folder(place: Surroundings) -> Path:
    return shape.configured(place, "CODEX_HOME", ".codex")


def _server(place: Surroundings, program: Program) -> dict[str, Any]:
    words = program.server("codex")
    allowed = {"default_tools_approval_mode": "approve"} if place.allow else {}
    return {"command": words[0], "args": words[1:], **allowed, "env": program.environment()}


def _group(program: Program, event: str) -> dict[str, Any]:
    command = program.hook("codex", event)
    return shape.group({"type": "command", "command": command, "timeout": shape.HOOK_SECONDS})


CLIENT = Codex()
