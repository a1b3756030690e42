"""The one table of coding clients that tests drive: which package at which version, and what a call of its looks like.

Behaviour belongs to exactly these versions. A version is raised here and nowhere else; tests then tell what changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Pin:
    """A client as it is installed from npm, and the names that its model has to use."""

    name: str
    package: str
    version: str
    program: str
    """The name in node_modules/.bin."""
    dialect: str
    """What it speaks with its model: chat, responses, messages or gemini."""
    shell: str
    """Its shell tool as the model calls it."""
    command: str
    """The argument of the shell tool that holds the command."""
    mcp: str
    """How a tool of an MCP server is called: a format of server and tool."""
    more: tuple[str, ...] = field(default=())
    """Other packages that are needed beside it."""


CLIENTS: dict[str, Pin] = {
    pin.name: pin
    for pin in (
        Pin("codex", "@openai/codex", "0.171.0", "codex", "responses", "exec_command", "cmd", "mcp__{server}.{tool}"),
        Pin(
            "claude",
            "@anthropic-ai/claude-code",
            "2.1.332",
            "claude",
            "messages",
            "Bash",
            "command",
            "mcp__{server}__{tool}",
        ),
        Pin(
            "gemini",
            "@google/gemini-cli",
            "0.61.0",
            "gemini",
            "gemini",
            "run_shell_command",
            "command",
            "mcp_{server}_{tool}",
        ),
        Pin("opencode", "opencode-ai", "1.18.33", "opencode", "chat", "bash", "command", "{server}_{tool}"),
        Pin(
            "pi",
            "@earendil-works/pi-coding-agent",
            "1.6.0",
            "pi",
            "chat",
            "bash",
            "command",
            "",
            more=("node@22.23.3",),
        ),
        Pin(
            "codex-acp",
            "@agentclientprotocol/codex-acp",
            "2.6.0",
            "codex-acp",
            "responses",
            "exec_command",
            "cmd",
            "mcp__{server}.{tool}",
        ),
        Pin(
            "claude-agent-acp",
            "@agentclientprotocol/claude-agent-acp",
            "0.101.0",
            "claude-agent-acp",
            "messages",
            "Bash",
            "command",
            "mcp__{server}__{tool}",
        ),
    )
}
