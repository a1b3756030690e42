"""Write tests/support/samples again, when a version was raised: `python -m tests.support.clients.samples [CLIENT…]`.

For each client what its hooks are told (`hooks/EVENT.json`, the next calls with their number) and its own history
(`transcript.jsonl`, for OpenCode `messages.json`), from one session with: a prompt, a shell command, a call of a
server's tool, an answer; for Claude a wake when idle and one in a running turn; for Codex a message by the queue, with
our id. Places, and long texts that are the client's own, are replaced.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.clients import observed, rpc
from tests.support.clients.install import CHOICE
from tests.support.clients.seat import Seat
from tests.support.clients.terminal import Terminal
from tests.support.model import Model, Rule, script

HERE = Path(__file__).parent
SAMPLES = HERE.parent / "samples"
LONGEST = 600
WORK = [
    {"shell": "echo one''two"},
    {"mcp": "probe.probe_echo", "args": {"text": "你好"}},
    {"text": "It gave {{result.task_id}}."},
]
LOOK = Rule("look at your inbox", [{"mcp": "probe.probe_echo", "args": {"text": "inbox"}}, {"text": "I looked."}])


class Take:
    """One client at work, and what it leaves."""

    def __init__(self, name: str, model: Model, place: Path) -> None:
        self.name, self.model, self.place = name, model, place
        (place / "hooks").mkdir()
        hooks = {event: self.recorder(event) for event in observed.HOOKS.get(name, ())}
        rewake = ["SessionStart", "Stop"] if name == "claude" else []
        for event in rewake:
            os.mkfifo(place / event)
            hooks[event] = self.recorder(event, place / event)
        mcp = {"probe": [sys.executable, str(HERE / "echo_server.py"), str(place / "mcp.log")]}
        self.seat = Seat(name, model, mcp=mcp, hooks=hooks, rewake=rewake)

    def recorder(self, event: str, *more: Path) -> str:
        return shlex.join(
            [sys.executable, str(HERE / "recorder.py"), str(self.place / "hooks"), event, *map(str, more)]
        )

    def said(self, text: str, since: int = 0) -> None:
        self.model.wait_for(lambda ask: ask.answer and ask.answer.text == text and ask.outcome == "sent", since=since)

    def clean(self, value: Any) -> Any:
        """Without the places of this machine and without long texts."""
        if isinstance(value, dict):
            return {self.clean(key): self.clean(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.clean(inner) for inner in value]
        if not isinstance(value, str):
            return value
        base = str(self.seat.base)
        for old, new in (
            (re.escape(self.recorder("EVENT")).replace("EVENT", r"\w+(?: \S+)?"), "the-hook"),
            (re.escape(f"{base}/work"), "/home/alice/project"),
            (re.escape(f"{base}/home"), "/home/alice"),
            (re.escape(base), "/home/alice/.seat"),
            (re.escape(sys.executable), "/usr/bin/python3"),
            (re.escape(str(HERE)), "/opt/tests"),
            (re.escape(base.replace("/", "-")) + "-work", "-home-alice-project"),
            (re.escape(f"{base[1:]}/work"), "home/alice/project"),
            (re.escape(str(self.seat.folder)), "/opt/client"),
            (re.escape(str(self.place)), "/home/alice/.take"),
            (r"Linux \d[\w.-]*", "Linux"),
            (r"127\.0\.0\.1:\d+", "127.0.0.1:1"),
        ):
            value = re.sub(old, new, value)
        return value if len(value) <= LONGEST else f"{value[: LONGEST // 2]}… (cut)"

    def keep(self, history: Path | Any) -> None:
        """Write what there is into the samples."""
        into = SAMPLES / self.name
        shutil.rmtree(into, ignore_errors=True)
        (into / "hooks").mkdir(parents=True)
        found = sorted((self.place / "hooks").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in found:
            event, _, number = path.stem.rpartition("-")
            named = f"{event}.json" if number == "1" else f"{event}-{number}.json"
            (into / "hooks" / named).write_text(_line(self.clean(json.loads(path.read_text()))))
        if not found:
            (into / "hooks").rmdir()
        if isinstance(history, Path):
            lines = [json.loads(line) for line in history.read_text().splitlines()]
            (into / "transcript.jsonl").write_text("".join(_line(self.clean(line)) for line in lines))
        else:
            (into / "messages.json").write_text(json.dumps(self.clean(history), indent=1, ensure_ascii=False) + "\n")


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def _claude(take: Take) -> None:
    model = take.model
    with take.seat.open() as screen:
        screen.say(script(*WORK))
        take.said("It gave tsk_1.")
        history = next(take.seat.home.glob(".claude/projects/*/*.jsonl"))
        _idle(screen)
        (take.place / "Stop").write_text("Please look at your inbox (idle)")
        take.said("I looked.")
        _idle(screen)
        seen = len(model.requests)
        screen.say(script({"shell": "true"}, {"shell": "true", "gate": "busy"}, {"text": "Nobody woke me."}))
        model.wait_for(lambda ask: ask.answer and ask.answer.gate == "busy", since=seen)
        (take.place / "Stop").write_text("Please look at your inbox (busy)")
        screen.wait(lambda _: "inbox (busy)" in history.read_text())
        model.open("busy")
        take.said("I looked.", since=seen)
        _idle(screen)
        screen.wait(lambda _: history.read_text().count('"turn_duration"') >= 3)
    take.keep(history)


def _idle(screen: Terminal) -> None:
    screen.wait(lambda shown: "esc to interrupt" not in shown)


def _codex(take: Take) -> None:
    with take.seat.open() as screen:
        screen.say(script(*WORK))
        take.said("It gave tsk_1.")
        sock = take.seat.home / ".codex" / "app-server-control" / "app-server-control.sock"
        screen.wait(lambda _: sock.exists())
        history = next(take.seat.home.rglob("rollout-*.jsonl"))

        async def queue() -> None:
            async with rpc.connected(sock) as line:
                name = json.loads(history.read_text().splitlines()[0])["payload"]["id"]
                message = [{"type": "text", "text": "look at your inbox"}]
                await line.call("thread/resume", threadId=name)
                await line.call("thread/queue/add", threadId=name, input=message, clientUserMessageId="msg-1")
                await line.note("turn/completed")

        asyncio.run(queue())
        screen.wait(lambda _: history.read_text().count('"task_complete"') >= 2)
        screen.wait(lambda _: (take.place / "hooks" / "Stop-2.json").exists())
    take.keep(history)


def _gemini(take: Take) -> None:
    assert take.seat.headless(script(*WORK)).code == 0
    take.keep(next(take.seat.home.glob(".gemini/tmp/*/chats/*.jsonl")))


def _pi(take: Take) -> None:
    assert take.seat.headless(script(*WORK)).code == 0
    take.keep(next(take.seat.home.glob(".pi/agent/sessions/*/*.jsonl")))


def _opencode(take: Take) -> None:
    server = take.seat.start("serve", "--port", "0")
    assert server.stdout is not None
    url = ""
    while not url:
        url = next(iter(re.findall(r"http://127\.0\.0\.1:\d+", server.stdout.readline())), "")

    def ask(path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url + path, data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    name = ask("/session", {})["id"]
    ask(f"/session/{name}/message", {"parts": [{"type": "text", "text": script(*WORK)}]})
    take.keep(ask(f"/session/{name}/message"))


TAKES = {"claude": _claude, "codex": _codex, "gemini": _gemini, "opencode": _opencode, "pi": _pi}


def main(names: list[str]) -> None:
    """The samples of these clients, or of all."""
    os.environ[CHOICE] = "all"
    for name in names or TAKES:
        with tempfile.TemporaryDirectory(prefix="take-") as place, Model(LOOK) as model:
            take = Take(name, model, Path(place))
            with take.seat:
                TAKES[name](take)
        print(f"{name}: {', '.join(sorted(str(p.relative_to(SAMPLES)) for p in (SAMPLES / name).rglob('*.json*')))}")


if __name__ == "__main__":
    main(sys.argv[1:])
