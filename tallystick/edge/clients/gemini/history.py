"""The chat file of Gemini CLI: `~/.gemini/tmp/<project>/chats/session-<minute>-<id8>.jsonl`. Measured with 0.61.0."""

from __future__ import annotations

from typing import Any

from tallystick.edge.clients.records import Layout, Transcript

LAYOUT = Layout((".gemini",), "", ("tmp", "*", "chats"), 8)


def entered(data: dict[str, Any]) -> str:
    """A prompt, or a message of the model with what its tools answered."""
    if data.get("type") == "user":
        return f"user message {data.get('id', '')}".strip()
    calls = data.get("toolCalls")
    answered = isinstance(calls, list) and any(isinstance(call, dict) and call.get("result") for call in calls)
    return f"tool calls {data.get('id', '')}".strip() if answered else ""


TRANSCRIPT = Transcript(LAYOUT, entered)
