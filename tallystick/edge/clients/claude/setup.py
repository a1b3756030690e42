"""Claude Code: its MCP entry, hooks in settings.json, a skill.

`~/.claude.json` holds the servers of the user, `.mcp.json` those of a workspace; hooks are in `settings.json` and, for
one person in a workspace, `settings.local.json`. `alwaysLoad` keeps the tools in the prompt: without it the model sees
their names only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tallystick.app.clients import Doubt, Found, Surroundings
from tallystick.edge.clients import shape, texts
from tallystick.edge.clients.shape import KEY, Entries, Item, Part, Program, Table, Whole

WAIT_SECONDS = 86_400
"""How long the waiting hook may run: after that an idle session can no longer be woken until its next stop."""

_EVENTS = (("SessionStart", "session"), ("UserPromptSubmit", "prompt"), ("Stop", "stop"))
_WAITS = ("SessionStart", "Stop")
_ALLOWED = ("permissions", "allow")
_TOOLS = f"mcp__{KEY}"
_LISTS = tuple(("hooks", event) for event, _ in _EVENTS)


class Claude:
    """Implements `shape.Client`."""

    name = "claude"
    has_project = True

    def detect(self, place: Surroundings) -> Found | None:
        """By its folder or its program."""
        return shape.found(place, self.name, _folder(place), "claude")

    def parts(self, place: Surroundings, program: Program, project: str) -> tuple[Part, ...]:
        """What is ours in which file."""
        folder = Path(project, ".claude") if project else _folder(place)
        return (
            texts.hook_script(self.name, program),
            Entries(_servers(place, project), (Table(("mcpServers", KEY), _server(program)),)),
            Entries(
                folder / ("settings.local.json" if project else "settings.json"),
                items=(
                    *(Item(("hooks", event), group) for event, group in _hooks(program)),
                    *((Item(_ALLOWED, _TOOLS),) if place.allow else ()),
                ),
                lists=_LISTS,
                granted=(_ALLOWED,),
                is_ours=_is_ours,
            ),
            Whole(folder / "skills" / KEY / "SKILL.md", texts.skill()),
        )

    def doubts(self, place: Surroundings) -> list[Doubt]:  # noqa: ARG002 - it keeps nothing that tells
        """None."""
        return []

    def notes(self, project: str) -> tuple[str, ...]:
        """What a person has to do besides."""
        asks = ("Claude Code asks once whether it may use the server of .mcp.json.", texts.NOT_TO_COMMIT)
        return ("Sessions that are open now get it when they are started again.", *(asks if project else ()))


def _is_ours(item: Any) -> bool:
    return item == _TOOLS or shape.command_hooks("claude")(item)


def _folder(place: Surroundings) -> Path:
    return shape.configured(place, "CLAUDE_CONFIG_DIR", ".claude")


def _servers(place: Surroundings, project: str) -> Path:
    if project:
        return Path(project, ".mcp.json")
    moved = place.environment.get("CLAUDE_CONFIG_DIR", "").startswith("/")
    return _folder(place) / ".claude.json" if moved else shape.under_home(place, ".claude.json")


def _server(program: Program) -> dict[str, Any]:
    words = program.server("claude")
    environment = program.environment()
    return {"type": "stdio", "command": words[0], "args": words[1:], "env": environment, "alwaysLoad": True}


def _hooks(program: Program) -> list[tuple[str, dict[str, Any]]]:
    groups = []
    for name, event in _EVENTS:
        hooks = [{"type": "command", "command": program.hook("claude", event), "timeout": shape.HOOK_SECONDS}]
        if name in _WAITS:
            command = program.hook("claude", "wait")
            hooks.append({"type": "command", "command": command, "asyncRewake": True, "timeout": WAIT_SECONDS})
        groups.append((name, shape.group(*hooks)))
    return groups


CLIENT = Claude()
