"""Requests for permission: the exact action, and what the agent's own policy answers before a person is asked.

Decided outside of the model, from what the client reports. An answer is always for this once.
"""

from __future__ import annotations

import json
import os
import re
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


def wish(known: dict[str, Any], call: dict[str, Any], options: list[dict[str, Any]], server: str) -> Wish:
    """A request as it came, read once. Some clients say what they want in an earlier update of the same call (`known`),
    and ask by its id alone. `server` is the name of our own tools' server."""
    whole = {**known, **{key: value for key, value in call.items() if value not in (None, "", [], {})}}
    title, raw = str(whole.get("title") or ""), whole.get("rawInput")
    told = {"call": whole, "options": options}
    exact = json.dumps(told, sort_keys=True, ensure_ascii=False, default=str)
    shown = json.dumps(raw, ensure_ascii=False, default=str) if raw is not None else ""
    action = f"{title or whole.get('kind') or 'a tool'} {shown}".strip()
    if len(action) > _ACTION:
        action = f"{action[:_ACTION]} [… {len(action)} characters]"
    fields = raw if isinstance(raw, dict) else {}
    located = [str(place.get("path", "")) for place in whole.get("locations") or () if isinstance(place, dict)]
    named = [str(fields[name]) for name in _PATHS if isinstance(fields.get(name), str)]
    is_command = any(name in fields for name in _COMMANDS)
    is_known = _is_ours(whole, title, fields, server) or _is_geminis(whole, title, options, server)
    return Wish(
        action=action,
        exact=exact.encode("utf-8", "surrogatepass"),
        kind=str(whole.get("kind") or ""),
        title=title,
        options=tuple((str(o.get("optionId", "")), str(o.get("kind", ""))) for o in options),
        paths=tuple(path for path in (*located, *named) if path),
        is_command=is_command,
        is_ours=not is_command and is_known,
    )


def _is_ours(call: dict[str, Any], title: str, fields: dict[str, Any], server: str) -> bool:
    """Whether it is a call of our own tools. A title alone may be a model's words, so it counts only where the client
    says of no other kind what it is."""
    meta = call.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    claude = meta.get("claudeCode")
    if isinstance(claude, dict):
        named = claude.get("mcpServer")
        return isinstance(named, dict) and named.get("name") == server
    if meta.get("is_mcp_tool_call") is True:
        return fields.get("server") == server
    if "toolName" in meta:  # Qwen says there which tool is called, and makes a title of what the model gave it
        return re.fullmatch(rf"mcp__{server}__[a-z_]{{1,24}}", str(meta["toolName"])) is not None
    plain = call.get("kind") in (None, "", "other")
    return plain and re.fullmatch(rf"(mcp_{{0,2}})?{server}[_.]{{1,2}}[a-z_]{{1,24}}", title) is not None


def _is_geminis(call: dict[str, Any], title: str, options: list[dict[str, Any]], server: str) -> bool:
    """Gemini says it by the title, and offers to trust the whole server for calls of MCP tools alone."""
    offered = any(option.get("optionId") == "proceed_always_server" for option in options)
    plain = call.get("kind") in (None, "", "other")
    return plain and offered and re.fullmatch(rf"[a-z_]{{1,24}} \({server} MCP Server\)", title) is not None


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
