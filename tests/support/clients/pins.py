"""The one table of coding clients that tests drive: which package at which version.

Behaviour belongs to exactly these versions. A version is raised here and nowhere else; tests then tell what changed,
and `python -m tests.support.clients.samples` writes the samples again.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pin:
    """A client as it is installed from npm, or from PyPI."""

    name: str
    package: str
    version: str
    program: str
    """The name in `bin`."""
    dialect: str
    """What it speaks with its model: chat, responses, messages or gemini."""
    more: tuple[str, ...] = ()
    """Other packages that are needed beside it."""
    python: tuple[int, int] | None = None
    """The oldest Python that it runs with, for one that comes from PyPI."""

    @property
    def bin(self) -> str:
        """Where its program is, in its folder."""
        return "bin" if self.python else "node_modules/.bin"


CLIENTS: dict[str, Pin] = {
    pin.name: pin
    for pin in (
        Pin("codex", "@openai/codex", "0.171.0", "codex", "responses"),
        Pin("claude", "@anthropic-ai/claude-code", "2.1.332", "claude", "messages"),
        Pin("gemini", "@google/gemini-cli", "0.61.0", "gemini", "gemini"),
        Pin("opencode", "opencode-ai", "1.18.33", "opencode", "chat"),
        Pin("pi", "@earendil-works/pi-coding-agent", "1.6.0", "pi", "chat", more=("node@22.23.3",)),
        Pin(
            "pi-acp",
            "pi-acp",
            "0.0.34",
            "pi-acp",
            "chat",
            more=("@earendil-works/pi-coding-agent@1.6.0", "node@22.23.3"),
        ),
        Pin("codex-acp", "@agentclientprotocol/codex-acp", "2.6.0", "codex-acp", "responses"),
        Pin("claude-agent-acp", "@agentclientprotocol/claude-agent-acp", "0.101.0", "claude-agent-acp", "messages"),
        Pin("qwen-acp", "@qwen-code/qwen-code", "0.24.4", "qwen", "chat"),
        Pin("vibe-acp", "mistral-vibe", "3.0.2", "vibe-acp", "chat", python=(3, 12)),
    )
}
