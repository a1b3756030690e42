"""What the pinned clients were seen to do, as tables that tests hold against them.

MCP: how a tool `probe_echo` of a stdio server `probe` is called, and the configuration that loaded it.

| client | the model calls | configuration | greets with |
| --- | --- | --- | --- |
| codex | namespace `mcp__probe`, name `probe_echo` | config.toml `[mcp_servers.probe]` command, args | `initialize` |
| claude | `mcp__probe__probe_echo` | ~/.claude.json `mcpServers.probe`, `"alwaysLoad": true` | `server/discover` |
| gemini | `mcp_probe_probe_echo` | ~/.gemini/settings.json `mcpServers.probe`, `"trust": true` | `initialize` |
| opencode | `probe_probe_echo` | `mcp.probe`: type local, command (a list), enabled | `initialize` |
| pi | `mcp__probe__probe_echo` | ~/.pi/agent/mcp.json `mcpServers.probe`, `"exposure": "direct"` | `initialize` |

Without `alwaysLoad` Claude names the tools in a reminder and loads them by `ToolSearch`; a session that is woken before
its first prompt is not even told the names. Without `exposure` Pi calls them from a program in its tool `codemode`.
Codex tells thread and turn in `_meta` of each `tools/call` (`threadId`, `x-codex-turn-metadata.turn_id`).

Hooks: one answer does for Claude, Codex and Gemini,
`{"hookSpecificOutput": {"hookEventName": E, "additionalContext": T}}`,
and at the end of a turn `{"decision": "block", "reason": R}`. Codex runs none before a person trusted them (config.toml
then has `[hooks.state."<hooks.json>:stop:0:0"] trusted_hash`); its SessionStart comes with the first turn. Claude's
UserPromptSubmit also comes for what a hook woke it with; its `prompt` then begins with `<task-notification>`.

Waking, all with a person's half-typed text left alone: Claude by a hook with `asyncRewake` (standard error, exit code
2; in a running turn the text stands at the end of the last result). Codex by `thread/queue/add` at the control socket
that a plain terminal opens (not with `--dangerously-bypass-hook-trust`, which starts no daemon) or by `codex queue`;
the same `clientUserMessageId` twice makes two turns. OpenCode by `POST /session/ID/prompt_async` (terminal with
`--port`). Pi by an extension's `pi.sendUserMessage`. Gemini by nothing that was found.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hook:
    """An event: whether it comes without a terminal and in one, and what it says beside `COMMON`."""

    headless: bool = True
    terminal: bool = True
    fields: tuple[str, ...] = ()


COMMON = ("session_id", "transcript_path", "cwd", "hook_event_name")
MCP = {
    "codex": "mcp__probe.probe_echo",
    "claude": "mcp__probe__probe_echo",
    "gemini": "mcp_probe_probe_echo",
    "opencode": "probe_probe_echo",
    "pi": "mcp__probe__probe_echo",
}
_CLAUDE = ("prompt_id", "permission_mode")
_CODEX = ("turn_id", "model", "permission_mode")
_TOOL = ("tool_name", "tool_input", "tool_use_id")
HOOKS: dict[str, dict[str, Hook]] = {
    "claude": {
        "SessionStart": Hook(fields=("source",)),
        "UserPromptSubmit": Hook(fields=(*_CLAUDE, "prompt")),
        "PreToolUse": Hook(fields=(*_CLAUDE, *_TOOL)),
        "PostToolUse": Hook(fields=(*_CLAUDE, *_TOOL, "tool_response")),
        "Stop": Hook(fields=(*_CLAUDE, "stop_hook_active", "last_assistant_message")),
        # A terminal that is closed says no good-bye.
        "SessionEnd": Hook(terminal=False, fields=("reason",)),
    },
    "codex": {
        "SessionStart": Hook(fields=("model", "permission_mode", "source")),
        "UserPromptSubmit": Hook(fields=(*_CODEX, "prompt")),
        "PreToolUse": Hook(fields=(*_CODEX, *_TOOL)),
        "PostToolUse": Hook(fields=(*_CODEX, *_TOOL, "tool_response")),
        "Stop": Hook(fields=(*_CODEX, "stop_hook_active", "last_assistant_message")),
    },
    "gemini": {
        "SessionStart": Hook(fields=("source", "timestamp")),
        "BeforeAgent": Hook(fields=("prompt",)),
        "BeforeTool": Hook(fields=("tool_name", "tool_input")),
        "AfterTool": Hook(fields=("tool_name", "tool_input", "tool_response")),
        "AfterAgent": Hook(fields=("prompt", "prompt_response", "stop_hook_active")),
        "SessionEnd": Hook(terminal=False, fields=("reason",)),
    },
}
