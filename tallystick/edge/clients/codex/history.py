"""The rollout of Codex: `$CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<thread id>.jsonl`. Measured with 0.171.0."""

from __future__ import annotations

from typing import Any

from tallystick.edge.clients.records import Layout, Transcript

LAYOUT = Layout((".codex",), "CODEX_HOME", ("sessions", "*", "*", "*"))


def entered(data: dict[str, Any]) -> str:
    """Prompts and tools' answers: items of the request, and the events that report them."""
    payload = data.get("payload")
    if not isinstance(payload, dict):
        return ""
    kind = payload.get("type")
    if data.get("type") == "response_item":
        own = kind == "message" and payload.get("role") not in ("user", "developer")
        return f"response_item {kind}" if isinstance(kind, str) and kind in _ITEMS and not own else ""
    item = payload.get("item")
    if data.get("type") == "event_msg" and isinstance(item, dict) and item.get("type") in _REPORTED:
        return f"{item['type']} {item.get('id', '')}".strip()
    return ""


_ITEMS = ("message", "function_call_output", "custom_tool_call_output", "mcp_tool_call_output")
_REPORTED = ("UserMessage", "McpToolCall", "CommandExecution")

TRANSCRIPT = Transcript(LAYOUT, entered)
