"""A stdio MCP server of the standard library with one tool, `probe_echo`: gives back what it got and who called it.

`echo_server.py LOG`: each message that comes is a line of that file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TOOL = {
    "name": "probe_echo",
    "description": "Gives the text back.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    },
}


def answer(method: str, params: dict[str, Any]) -> Any:
    """The result of a request; None for one that is not known."""
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "probe", "version": "1"},
            "instructions": "PROBE-INSTRUCTIONS: use probe_echo.",
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        text = json.dumps({"echo": params.get("arguments"), "task_id": "tsk_1", "meta": params.get("_meta")})
        return {"content": [{"type": "text", "text": text}]}
    return {} if method == "ping" else None


def main(log: Path) -> None:
    """Until the input ends."""
    for line in sys.stdin:
        message = json.loads(line)
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(message) + "\n")
        if "id" not in message or "method" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        said = {"result": result} if result is not None else {"error": {"code": -32601, "message": "unknown"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
