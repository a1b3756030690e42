"""What a driven session pays: from an ask to its prompt on the wire, and many sessions at once."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import sys
import time
from pathlib import Path

from bench.machine import ROOT, Machine
from bench.table import Row, Skip
from tallystick import wire

SECONDS = 0.1
SESSIONS = 20
GROWTH_MB = 120.0
_AGENT = ROOT / "tests" / "support" / "acp_agent.py"
_DO = '@@DO [{"call": "take"}, {"call": "submit", "args": {"text": "done"}}] @@'
_WAITS = 120.0


def measure(machine: Machine, quick: bool) -> list[Row]:
    """The rows: asks of one live session, then one ask of each of many."""
    if importlib.util.find_spec("acp") is None:
        raise Skip("to drive sessions: pip install 'tallystick[acp]'")
    folder, home = machine.new("agent"), machine.new("home")
    (home / "config.toml").write_text('person_verbs = "uid"\n', encoding="utf-8")
    (home / "agents").mkdir(mode=0o700)
    names = [f"d{number}" for number in range(4 if quick else SESSIONS)]
    for name in names:
        _own(home / "agents" / f"{name}.toml")
    with machine.host(home) as host:
        line = host.connect()
        command = shlex.join([sys.executable, str(_AGENT), str(folder)])
        for name in names:
            line.call("join", args={"name": name, "drive": command}, env={"PATH": os.environ["PATH"]})
        _done(line, [_ask(line, names[0])])  # its session begins
        before = host.memory()
        waits = [_to_the_wire(line, names[0], folder) for _ in range(5 if quick else 25)]
        begun = time.monotonic()
        _done(line, [_ask(line, name) for name in names])
        together = time.monotonic() - begun
        growth = host.memory() - before
    note = "a live session, the scripted agent; by the agent's own clock when the prompt was read"
    return [
        Row("acp-prompt", "ask → prompt on the wire", SECONDS, False, waits, "s", note),
        Row(
            "acp-memory",
            f"memory of the host: {len(names)} sessions at once, begun and done",
            GROWTH_MB,
            False,
            [growth],
            "MB",
            f"in {together:.1f} s, their start included",
        ),
    ]


def _own(file: Path) -> None:
    file.write_text("sandbox = false\ncanary = false\n", encoding="utf-8")
    file.chmod(0o600)


def _ask(line: wire.Connection, name: str) -> str:
    return str(line.call("ask", args={"address": f"@{name}", "title": "t", "body": _DO})["task_id"])


def _done(line: wire.Connection, tasks: list[str]) -> None:
    until = time.monotonic() + _WAITS
    for task in tasks:
        while line.call("show", args={"task": task})["state"] != "completed":
            if time.monotonic() > until:
                raise RuntimeError(f"{task} was not done within {_WAITS} s")
            time.sleep(0.02)


def _to_the_wire(line: wire.Connection, name: str, folder: Path) -> float:
    begun = time.time()
    task = _ask(line, name)
    _done(line, [task])
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    prompts = [found for found in map(json.loads, lines) if found["what"] == "prompt" and task in found["text"]]
    return float(prompts[0]["at"]) - begun
