"""The session file of Pi: `~/.pi/agent/sessions/--<cwd>--/<time>_<id>.jsonl`. Measured with 1.6.0."""

from __future__ import annotations

from typing import Any

from tallystick.edge.clients.records import Layout, Trail, Transcript

LAYOUT = Layout((".pi", "agent"), "PI_CODING_AGENT_DIR", ("sessions", "*"))


def entered(data: dict[str, Any]) -> str:
    """Messages that the model did not write."""
    message = data.get("message")
    role = message.get("role") if isinstance(message, dict) else None
    return f"{role} message {data.get('id', '')}".strip() if isinstance(role, str) and role != "assistant" else ""


TRANSCRIPT = Transcript(LAYOUT, entered)


def trail(transcript: str, history: str, wake_id: str, since: int = 0) -> Trail:  # noqa: ARG001 - these files are short
    """What is known of a wake by its id: our extension hands it over as a message of its own."""
    shown = TRANSCRIPT.entered(transcript, history, wake_id)
    return Trail(started=shown, turn=shown.rpartition(" ")[2])
