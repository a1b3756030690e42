"""A coding client that sleeps: `sleeper.py HOME CLIENT SESSION TRANSCRIPT` started under that client's name.

It speaks to the host as the hooks of Claude Code do, and keeps a transcript like it. What it is told on its standard
input, a line each: `arm` (a waiting hook, as at the start of a session), `stop` (the turn ends, and arms again),
`prompt TEXT`, `deaf` (what wakes it is not written into the transcript), `drops` (it is only queued there), `hear`,
`tally WORDS…`, `quit`. It prints a
line for each thing that happened, and never ends by itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))


class Sleeper:
    def __init__(self, home: str, client: str, session: str, transcript: str) -> None:
        self.home, self.client, self.session = home, client, session
        self.transcript = Path(transcript)
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        self.deaf = self.drops = False
        self.lock = threading.Lock()

    def say(self, **what) -> None:
        with self.lock:
            print(json.dumps(what), flush=True)

    def write(self, **record) -> None:
        with self.transcript.open("a") as file:
            file.write(json.dumps({"uuid": str(uuid.uuid4()), "sessionId": self.session, **record}) + "\n")

    def hook(self, event: str, name: str, **more) -> subprocess.CompletedProcess:
        told = {
            "session_id": self.session,
            "transcript_path": str(self.transcript),
            "cwd": os.getcwd(),
            "hook_event_name": name,
            **more,
        }
        argv = [sys.executable, "-I", "-S", str(ROOT / "tallystick" / "_hook.py"), self.client, event]
        return subprocess.run(argv, input=json.dumps(told).encode(), capture_output=True, check=False)

    def arm(self, name: str = "SessionStart") -> None:
        threading.Thread(target=self._wait, args=(name,), daemon=True).start()

    def _wait(self, name: str) -> None:
        done = self.hook("wait", name)
        text = done.stderr.decode()
        if done.returncode == 2 and not self.deaf:
            self.write(type="queue-operation", operation="enqueue", content=text)
        if done.returncode == 2 and not self.deaf and not self.drops:
            self.write(type="user", origin={"kind": "task-notification"}, promptId="turn-1", message={"content": text})
        self.say(woken=done.returncode == 2, text=text)

    def obey(self, line: str) -> bool:
        word, _, rest = line.strip().partition(" ")
        if word == "quit":
            return False
        if word == "arm":
            self.arm()
        elif word == "stop":
            self.say(stop=self.hook("stop", "Stop").stdout.decode())
            self.arm("Stop")
        elif word == "prompt":
            self.say(prompt=self.hook("prompt", "UserPromptSubmit", prompt=rest).stdout.decode())
        elif word == "tally":
            from tests.support.hosts import RUN_TALLY

            argv = [sys.executable, "-c", RUN_TALLY, *json.loads(rest)]
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            self.write(type="user", message={"content": [{"type": "tool_result", "content": done.stdout}]})
            self.say(code=done.returncode, out=done.stdout, err=done.stderr)
        elif word in ("deaf", "drops", "hear"):
            self.deaf, self.drops = word == "deaf", word == "drops"
        return True


def main() -> None:
    sleeper = Sleeper(*sys.argv[1:5])
    sleeper.say(ready=os.getpid())
    for line in sys.stdin:
        if not sleeper.obey(line):
            return


if __name__ == "__main__":
    main()
