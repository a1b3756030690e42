"""Command agents: what ran and is no result ends as a failure that says why."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tallystick.app.desk import forms
from tallystick.core.identity import short
from tallystick.wire import WireError
from tests.support.driven import DONE, TAKE, Stage
from tests.support.ends import PATIENCE, Haven
from tests.support.hosts import eventually
from tests.support.places import Place
from tests.support.town import Town


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


def test_a_command_is_joined_by_another_connection_once_it_has_nothing_in_hand() -> None:
    with Town() as town:
        name = town.command("echo >{runs}; read _ <{gate}; echo done")
        with town.fifo(name, "gate") as gate, town.fifo(name, "runs") as runs:
            task = town.task(name)
            eventually(runs.lines, "the run")
            refused = town.refused("join", name=name, wake="/bin/true")
            assert (refused.code, short(task) in refused.message) == ("conflict", True)
            gate.open()
            town.until(task, "completed")
        assert town.call("join", name=name, wake="/bin/true")["connection"] == "wake"


def test_a_driven_session_that_waits_for_an_answer_keeps_its_agents_connection() -> None:
    with Stage() as stage:
        assert stage.start()
        stage.driven()
        stage.plan(again=[DONE])
        task = stage.ask(TAKE, {"call": "question", "args": {"text": "Which one?"}})
        stage.until(task, "input_required/question")
        with pytest.raises(WireError, match=short(task)):
            stage.call("join", name="reviewer", wake="/bin/true")
        stage.call("answer", task=task, text="That one.")
        stage.until(task, "completed")
        assert stage.call("join", name="reviewer", wake="/bin/true")["connection"] == "wake"


def command(runs: Path) -> Path:
    """A program that leaves a line for each time that it runs."""
    runs.parent.mkdir()
    os.mkfifo(runs)
    program = runs.with_name("runner")
    program.write_text(f"#!/bin/sh\necho ran >{runs}\n")
    program.chmod(0o755)
    return program
