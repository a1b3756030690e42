"""Twenty sessions at once: each has its own process, conversation and task, and the host stays small."""

from __future__ import annotations

from pathlib import Path

from tests.support.driven import DONE, TAKE, Stage
from tests.support.hosts import eventually

SESSIONS = 20
SECONDS = 600
"""On a machine that does much else, twenty programs take long to start."""
MEBIBYTES = 400
"""Of the host; measured: about 110."""


def resident(pid):
    """Memory of a process, in MiB: the most it ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def test_twenty_sessions_work_at_once_and_the_hosts_memory_is_bounded() -> None:
    with Stage(session_start_seconds=float(SECONDS), push_queue=SESSIONS + 1) as stage:
        assert stage.start()
        stage.driven(more="canary = false\n", concurrency=SESSIONS)
        steps = (TAKE, {"flood": 500}, {"large": 1_000_000}, {"wait": "go-on"}, DONE)
        tasks = [stage.ask(*steps, title=f"part {number}") for number in range(SESSIONS)]

        def all_at_once():
            prompts = [p for p in stage.log("prompt") if "A task for you" in p["text"]]
            return prompts if len(prompts) >= SESSIONS else None

        def why_not():
            lines = [line for task in tasks for line in stage.show(task)["history"]]
            failed = [line["text"] for line in lines if line["what"] == "did not begin"]
            return f"{SESSIONS} prompts", failed, stage.said()

        prompts = eventually(all_at_once, why_not, SECONDS)
        assert len(prompts) == len({p["session"] for p in prompts}) == SESSIONS
        assert not [p for p in prompts if p["busy"]]
        for task in tasks:
            stage.until(task, "working", seconds=SECONDS)
        stage.opens("go-on")
        for task in tasks:
            stage.until(task, "completed", seconds=SECONDS)
        assert resident(stage.host.pid) < MEBIBYTES
        stage.stop()
