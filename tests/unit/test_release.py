"""Giving a task back: whoever has nothing to give back is told what is so."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.core import commands as cmd
from tallystick.core.errors import ErrorCode
from tests.build import ANN, ASKER, SECOND, WORKER, World, agent


def _released(world: World) -> str:
    task_id = world.taken()
    world.act(cmd.ReleaseTask, task_id, WORKER)
    return task_id


def _corrected(world: World) -> str:
    task_id = world.taken()
    world.act(cmd.CorrectTask, task_id, ANN, state="submitted", reason="new")
    return task_id


def _canceled(world: World) -> str:
    task_id = world.taken()
    world.act(cmd.CancelTask, task_id, ASKER)
    world.act(cmd.ReleaseTask, task_id, WORKER)
    return task_id


def _released_and_canceled(world: World) -> str:
    task_id = _released(world)
    world.act(cmd.CancelTask, task_id, ASKER)
    return task_id


@pytest.mark.parametrize(
    ("bring", "by", "told", "remedy"),
    [
        (_released, WORKER, "was already released with another reason", "tally show"),
        (_released, agent(WORKER, SECOND), "was already released by another session", "tally show"),
        (World.in_rework, WORKER, "Nobody holds", "tally decline"),
        (_corrected, WORKER, "it is submitted/new", "tally show"),
        (_canceled, WORKER, "it is canceled/by requester", "tally show"),
        (_released_and_canceled, WORKER, "it is canceled/by requester", "tally show"),
    ],
)
def test_whoever_has_nothing_to_give_back_is_told_why(
    world: World, bring: Any, by: Any, told: str, remedy: str
) -> None:
    refused = world.refuses(ErrorCode.CONFLICT, cmd.ReleaseTask, bring(world), by, note="another reason")
    assert told in refused.message
    assert remedy in refused.remedy
