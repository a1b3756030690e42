"""The transcript of Claude Code: `~/.claude/projects/<slug>/<session id>.jsonl`, and what it shows of a wake.

Measured with 2.1.332. Record types that are not named here come and go with versions and are passed over.
"""

from __future__ import annotations

import json
import os
from typing import Any

from tallystick.edge.clients.records import BYTES, Layout, Trail, Transcript, is_own, lines, opened

LAYOUT = Layout((".claude",), "CLAUDE_CONFIG_DIR", ("projects", "*"))


def entered(data: dict[str, Any]) -> str:
    """`user` holds prompts and tools' answers, `attachment` what was put into a running turn."""
    kind = data.get("type")
    return f"{kind} {data.get('uuid', '')}".strip() if kind in ("user", "attachment") else ""


TRANSCRIPT = Transcript(LAYOUT, entered)


def trail(transcript: str, history: str, wake_id: str, since: int = 0) -> Trail:
    """What is known of a wake by its id, from what was written after `since` bytes."""
    if not is_own(transcript, history, LAYOUT):
        return Trail()
    try:
        descriptor = opened(transcript, len(LAYOUT.below) + 1)
    except OSError:
        return Trail()
    try:
        return _read(descriptor, wake_id.encode(), since)
    except OSError:
        return Trail()
    finally:
        os.close(descriptor)


def _read(descriptor: int, needle: bytes, since: int) -> Trail:
    """From the newest record back to the one by which it was queued; what is found later stands earlier in the file."""
    found, after = Trail(), Trail()
    limit = min(BYTES, max(0, os.fstat(descriptor).st_size - since)) if since else BYTES
    for offset, line in lines(descriptor, limit):
        if needle in line:
            found = _with(found, _object(line), offset, after)
            if found.queued:
                return found
        elif not found.started and (b"[Request interrupted by user" in line or b'"turn_duration"' in line):
            after = _after(after, _object(line))
    return found


def _with(found: Trail, data: dict[str, Any], offset: int, after: Trail) -> Trail:
    kind, attachment = data.get("type"), data.get("attachment")
    absorbed = kind == "attachment" and isinstance(attachment, dict) and attachment.get("type") == "queued_command"
    if not found.started and (absorbed or (kind == "user" and "toolUseResult" not in data)):
        turn = str(data.get("promptId") or data.get("uuid") or "")
        how = "queued_command" if absorbed else "user"
        return after._replace(started=f"{how} at byte {offset}", turn=turn)
    if kind == "queue-operation" and data.get("operation") == "enqueue":
        return found._replace(queued=f"queue-operation at byte {offset}")
    return found


def _after(after: Trail, data: dict[str, Any]) -> Trail:
    """What came after it: somebody ended the turn, or it is over."""
    if data.get("type") == "user":
        return after._replace(interrupted=True)
    over = data.get("type") == "system" and data.get("subtype") == "turn_duration"
    return after._replace(ended=True) if over else after


def _object(line: bytes) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
