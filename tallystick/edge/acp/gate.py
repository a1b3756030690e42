"""Requests for permission: the exact action, and what the agent's own policy answers before a person is asked.

Decided outside of the model, from what the client reports. An answer is always for this once.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import msgspec

from tallystick.edge.acp.settings import Answer, Policy

ALLOW: Final = "allow_once"
REJECT: Final = "reject_once"
_ACTION: Final = 4000
_READS: Final = ("read", "search")
_EDITS: Final = ("edit", "delete", "move")
_COMMANDS: Final = ("command", "cmd", "script", "shell")
_PATHS: Final = ("path", "file_path", "filePath", "abs_path", "directory", "dir", "cwd")


class Wish(msgspec.Struct, frozen=True):
    """What a session wants to do."""

    action: str
    """For a person to read: whole, or cut with its length."""
    exact: bytes
    """What its digest is taken of."""
    kind: str
    title: str
    options: tuple[tuple[str, str], ...]
    """(id, kind) of each option that is offered."""
    paths: tuple[str, ...]
    is_command: bool
    is_ours: bool

    def option(self, kind: str) -> str:
        """The id of the offered option of a kind; empty if none is."""
        return next((option for option, offered in self.options if offered == kind), "")


def wish(call: dict[str, Any], options: list[dict[str, Any]], server: str) -> Wish:
    """A request as it came, read once. `server` is the name of our own tools' server."""
    title, raw = str(call.get("title") or ""), call.get("rawInput")
    exact = json.dumps({"call": call, "options": options}, sort_keys=True, ensure_ascii=False, default=str)
    shown = json.dumps(raw, ensure_ascii=False, default=str) if raw is not None else ""
    action = f"{title or call.get('kind') or 'a tool'} {shown}".strip()
    if len(action) > _ACTION:
        action = f"{action[:_ACTION]} [… {len(action)} characters]"
    fields = raw if isinstance(raw, dict) else {}
    located = [str(place.get("path", "")) for place in call.get("locations") or () if isinstance(place, dict)]
    named = [str(fields[name]) for name in _PATHS if isinstance(fields.get(name), str)]
    return Wish(
        action=action,
        exact=exact.encode("utf-8", "surrogatepass"),
        kind=str(call.get("kind") or ""),
        title=title,
        options=tuple((str(o.get("optionId", "")), str(o.get("kind", ""))) for o in options),
        paths=tuple(path for path in (*located, *named) if path),
        is_command=any(name in fields for name in _COMMANDS),
        is_ours=_is_ours(title, fields, server),
    )


def _is_ours(title: str, fields: dict[str, Any], server: str) -> bool:
    """Whether it is a call of our own tools, by what the client reports of the call itself."""
    named = str(fields.get("server") or fields.get("server_name") or fields.get("serverName") or "")
    if any(name in fields for name in _COMMANDS):
        return False
    return named == server or title.startswith((f"mcp__{server}__", f"mcp_{server}_", f"mcp.{server}."))


def answer(asked: Wish, policy: Policy, tree: Path) -> Answer:
    """What the policy says: allow, ask or deny."""
    if asked.is_ours:
        return policy.tally
    if asked.is_command or asked.kind == "execute":
        return policy.execute
    if asked.kind in _READS:
        inside = bool(asked.paths) and all(_inside(path, tree) for path in asked.paths)
        return policy.read if inside or policy.read != "allow" else "ask"
    if asked.kind in _EDITS:
        return policy.edit
    return policy.fetch if asked.kind == "fetch" else policy.other


def _inside(path: str, tree: Path) -> bool:
    root = os.path.realpath(tree)
    found = os.path.realpath(os.path.join(root, path))  # noqa: PTH118 - an absolute path replaces the root
    return found == root or found.startswith(root + os.sep)
