"""The coding clients that are known by name: what each can be told, woken by, and witness. A table, like the others.

What a client does is measured with the real one (`edge/clients` holds the how). A client that is not in the table can
still be a mailbox: its agent looks when it looks. May live here: data about clients, no rule of a task.
"""

from __future__ import annotations

from typing import Final

from tallystick.core.model import Fact, Value


class Client(Value, frozen=True, kw_only=True):
    """One coding client that people run themselves."""

    name: str
    title: str
    processes: tuple[str, ...]
    """What its processes are called, as far as the kernel or an interpreter's command line says."""
    provider: str
    """Where its model's inputs go unless the agent says otherwise; `unknown` where the client serves many."""
    pauses: tuple[str, ...] = ()
    """Its natural pauses at which a hook of ours is asked: session, prompt, tool, stop."""
    wake: str = ""
    """The formal entry by which an idle session can be started; empty: its person has to open it."""
    tells_ends: bool = False
    """Whether the host hears of the end of every turn, whatever waits: only then is it believed to be in one."""
    history: str = ""
    """What proves that a text entered its history; empty where nothing does."""
    recorded: str = "inferred: the reader acknowledged the body, or called again"
    """On what `recorded` rests for it."""

    @property
    def facts(self) -> tuple[tuple[Fact, str], ...]:
        """Each fact past the host's own, and what it rests on here."""
        return (
            (Fact.CLAIMED, f"take, or {self.wake}" if self.wake else "take"),
            (Fact.ADMITTED, "inbound policy"),
            (Fact.RECORDED, self.recorded),
            (Fact.WORKING, "tool call"),
            (Fact.SUBMITTED, "tool call, with references that resolve"),
        )


_TRANSCRIPT = "the id in its transcript; else inferred"

CLIENTS: Final[dict[str, Client]] = {
    client.name: client
    for client in (
        Client(
            name="claude",
            title="Claude Code",
            processes=("claude", "claude-agent-acp"),
            provider="anthropic",
            pauses=("session", "prompt", "stop"),
            wake="a hook that waits (asyncRewake)",
            tells_ends=True,
            history="transcript",
            recorded=_TRANSCRIPT,
        ),
        Client(
            name="codex",
            title="Codex",
            processes=("codex", "codex-acp"),
            provider="openai",
            pauses=("session", "prompt", "stop"),
            wake="the app-server's queue",
            history="rollout",
            recorded="our message id in its rollout; else inferred",
        ),
        Client(
            name="opencode",
            title="OpenCode",
            processes=("opencode",),
            provider="unknown",
            pauses=("prompt", "stop"),
            wake="its HTTP API",
            history="messages of the session",
            recorded="the text among its messages; else inferred",
        ),
        Client(
            name="pi",
            title="Pi",
            processes=("pi",),
            provider="unknown",
            pauses=("prompt", "stop"),
            wake="our extension",
            history="session file",
            recorded=_TRANSCRIPT,
        ),
        Client(
            name="gemini",
            title="Gemini CLI",
            processes=("gemini",),
            provider="google",
            pauses=("session", "prompt", "stop"),
            history="chat file",
            recorded=_TRANSCRIPT,
        ),
        Client(name="cursor", title="Cursor", processes=("cursor", "cursor-agent"), provider="unknown"),
        Client(name="qwen", title="Qwen Code", processes=("qwen",), provider="unknown", history="chat file"),
        Client(name="vibe", title="Mistral Vibe", processes=("vibe",), provider="mistral"),
    )
}
"""Every known client by its name."""

BY_PROCESS: Final[dict[str, str]] = {name: client.name for client in CLIENTS.values() for name in client.processes}
"""Process names of coding clients, and the client they stand for."""


def client_among(ancestors: tuple[str, ...]) -> str:
    """The nearest coding client among the names of a caller's ancestors; empty if there is none."""
    return next((BY_PROCESS[name] for name in ancestors if name in BY_PROCESS), "")


def execution_of(client: str, ancestors: tuple[str, ...], processes: tuple[str, ...]) -> str:
    """Which execution of a client a caller belongs to: the outermost of its nearest processes in one row, so that what
    a client starts through several processes of its own is one session. Empty if none of them is that client."""
    found = ""
    for name, process in zip(ancestors, processes, strict=False):
        if BY_PROCESS.get(name) == client:
            found = process
        elif found and name not in _WRAPPERS:
            break
    return found


_WRAPPERS = ("node", "bun", "deno", "MainThread")
