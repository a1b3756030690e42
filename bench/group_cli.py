"""What a command or hook costs, against `python -I -S -c pass` of the same interpreter just before."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import tallystick
from bench.load import NAMES
from bench.machine import Machine, environment
from bench.table import Row
from tallystick import wire
from tallystick.edge.clients import Program
from tallystick.edge.clients.texts import hook_script

PACKAGE = Path(tallystick.__file__).parent
TARGETS = {
    "hook-idle": (0.15, "hook with nothing unseen: sh reads the hint file"),
    "hook-python": (1.5, "hook with something unseen: python -I -S asks the host"),
    "tally-inbox": (3.0, "tally inbox --json"),
    "tally-ask": (3.0, "tally ask, durable when it returns"),
    "tally-ask-git": (3.0, "the same inside a git repository"),
}


def measure(machine: Machine, quick: bool) -> list[Row]:
    """The rows: every round runs each variant once."""
    with machine.host() as host:
        host.agents(*NAMES)
        repository = _repository(machine)
        host.agents("c0", "d0", directory=str(repository))
        commands = _commands(host.home, machine.new("hook"))
        env = {**os.environ, **environment(host.home)}
        rounds = 7 if quick else 21
        ratios: dict[str, list[float]] = {name: [] for name in TARGETS}
        for _ in range(rounds):
            floor = _time([sys.executable, "-I", "-S", "-c", "pass"], env, "/")
            for name in TARGETS:
                place = str(repository) if name.endswith("-git") else "/"
                ratios[name].append(_time(commands[name], env, place) / floor)
    note = "wall time over the wall time of `python -I -S -c pass`"
    return [Row(name, TARGETS[name][1], TARGETS[name][0], False, ratios[name], note=note) for name in TARGETS]


def _commands(home: Path, folder: Path) -> dict[str, list[str]]:
    tally = [str(Path(sys.executable).with_name("tally"))]
    if not Path(tally[0]).exists():
        tally = [sys.executable, str(PACKAGE / "_tally.py")]
    installed = hook_script("claude", Program(str(home), sys.executable, str(PACKAGE)))
    script = folder / "hook.sh"
    script.write_text(installed.text, encoding="utf-8")
    Path(wire.hint_path(str(home), "claude")).write_text("0\n", encoding="ascii")
    return {
        "hook-idle": ["/bin/sh", str(script), "stop"],
        "hook-python": [sys.executable, "-I", "-S", str(PACKAGE / "_hook.py"), "claude", "stop"],
        "tally-inbox": [*tally, "--as", "a0", "inbox", "--json"],
        "tally-ask": [*tally, "--as", "a0", "ask", "@b0", "Work"],
        "tally-ask-git": [*tally, "--as", "c0", "ask", "@d0", "Work"],
    }


def _time(argv: list[str], env: dict[str, str], place: str) -> float:
    start = time.perf_counter()
    done = subprocess.run(argv, env=env, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    took = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{argv[-4:]} failed: {done.stderr.decode()[-300:]}")
    return took


def _repository(machine: Machine) -> Path:
    """A small repository with one commit."""
    folder = machine.new("repo")
    (folder / "read.me").write_text("words\n", encoding="ascii")
    git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-C", str(folder)]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    return folder
