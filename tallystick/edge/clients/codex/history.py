"""The rollout of Codex: `$CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<thread id>.jsonl`. Measured with 0.171.0."""

from __future__ import annotations

import json
import os
from typing import Any

from tallystick.edge.clients.records import BYTES, Layout, Trail, Transcript, is_own, lines, opened

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


def trail(transcript: str, history: str, wake_id: str, since: int = 0) -> Trail:
    """What the rollout shows of a wake: the message with its id, and the end of that turn."""
    if not is_own(transcript, history, LAYOUT):
        return Trail()
    try:
        descriptor = opened(transcript, len(LAYOUT.below) + 1)
    except OSError:
        return Trail()
    ends: dict[str, str] = {}
    try:
        limit = min(BYTES, max(0, os.fstat(descriptor).st_size - since)) if since else BYTES
        for offset, line in lines(descriptor, limit):
            if b'"task_complete"' in line or b'"turn_aborted"' in line:
                payload = _payload(line)
                ends[str(payload.get("turn_id"))] = str(payload.get("type"))
            elif wake_id.encode() in line and b'"UserMessage"' in line:
                turn = str(_payload(line).get("turn_id", ""))
                how = ends.get(turn, "")
                return Trail(
                    started=f"UserMessage at byte {offset}",
                    turn=turn,
                    interrupted=how == "turn_aborted",
                    ended=how == "task_complete",
                )
    except OSError:
        return Trail()
    finally:
        os.close(descriptor)
    return Trail()


def _payload(line: bytes) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    payload = data.get("payload") if isinstance(data, dict) else None
    return payload if isinstance(payload, dict) else {}
