"""Command agents: what ran and is no result ends as a failure that says why."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tallystick.app.desk import forms
from tests.support.ends import PATIENCE, Haven
from tests.support.places import Place


def test_a_command_that_changes_nothing_where_a_change_was_asked_for_fails() -> None:
    with Place() as place:
        assert place.start()
        repo = str(place.repository())
        place.call("join", cwd=repo, name="idler", run=["true"])
        task = place.call("ask", cwd=repo, address="@idler", title="change it", expect="change")["task_id"]
        shown = place.until(task, "failed/error")
        assert "changes nothing" in shown["history"][-1]["text"]
        assert shown["checks"][-1]["exit_code"] == 0


@pytest.mark.parametrize("place", ["command.prepared", "process.after_launch"])
async def test_nothing_runs_of_what_is_taken_back_before_it_began_and_it_is_tried_later(
    tmp_path: Path, place: str
) -> None:
    loop, asked, said = asyncio.get_running_loop(), asyncio.Event(), []

    async def take_back() -> None:
        await asked.wait()
        guest = await haven.person()
        said.append((await haven.desk.retreat(guest, task)).link)

    def reached(there: str) -> None:
        if there != place or said:
            return
        if place == "process.after_launch":  # a thread of its own: nothing goes on there before it was taken back
            asyncio.run_coroutine_threadsafe(take_back(), loop).result(PATIENCE)
        else:
            taking.append(loop.create_task(take_back()))

    taking: list[asyncio.Task[None]] = []
    runs = tmp_path / "bin" / "runs"
    haven = Haven(tmp_path / "home", reached=reached, retry_seconds=(0.01,))
    async with haven:
        person = await haven.person()
        await haven.desk.join(person, forms.Join(name="runner", run=(str(command(runs)),), capabilities=("Run",)))
        counted = os.open(runs, os.O_RDONLY | os.O_NONBLOCK)
        task = (await haven.desk.ask(person, forms.Ask(address="cap:Run", title="run"))).task_id
        asked.set()
        async with asyncio.timeout(PATIENCE):
            shown = await haven.desk.show(person, task)
            while shown.state not in ("completed", "failed"):
                shown = await haven.desk.wait(person, task, version=shown.version, seconds=1.0)
        assert (said, shown.state) == (["IDLE"], "completed")
        assert os.read(counted, 100) == b"ran\n"
        os.close(counted)


def command(runs: Path) -> Path:
    """A program that leaves a line for each time that it runs."""
    runs.parent.mkdir()
    os.mkfifo(runs)
    program = runs.with_name("runner")
    program.write_text(f"#!/bin/sh\necho ran >{runs}\n")
    program.chmod(0o755)
    return program
