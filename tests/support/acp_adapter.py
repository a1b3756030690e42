"""An adapter in front of the scripted agent, as real ones stand in front of theirs: `acp_adapter.py STATE-FOLDER`.

It hands lines on in both directions. When the agent below it is gone it says of whatever was asked that it failed, as
the adapters of Codex and Claude do, and lives on.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

AGENT = Path(__file__).with_name("acp_agent.py")
pending: dict[object, None] = {}
speaking = threading.Lock()


def say(line: bytes) -> None:
    with speaking:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def failed(number: object) -> bytes:
    error = {"code": -32603, "message": "The agent process exited unexpectedly."}
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode() + b"\n"


def upward(child: subprocess.Popen[bytes]) -> None:
    for line in child.stdout:
        try:
            answer = json.loads(line)
        except ValueError:
            answer = {}
        if isinstance(answer, dict) and "method" not in answer:
            pending.pop(answer.get("id"), None)
        say(line)
    for number in list(pending):
        say(failed(number))


def main() -> None:
    child = subprocess.Popen([sys.executable, str(AGENT), sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    threading.Thread(target=upward, args=(child,), daemon=True).start()
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        if "method" in asked and "id" in asked:
            pending[asked["id"]] = None
        try:
            child.stdin.write(line)
            child.stdin.flush()
        except OSError:
            if "id" in asked:
                say(failed(asked["id"]))


if __name__ == "__main__":
    main()
