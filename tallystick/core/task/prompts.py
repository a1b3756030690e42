"""Turns of sessions that the host drives: when a prompt may be sent, and that only one is under way for a task.

A turn says nothing about the task: what its session says by its tools does.
"""

from __future__ import annotations

from typing import Final

from tallystick.core import commands as cmd
from tallystick.core import events as ev
from tallystick.core.directory import Agent, Directory
from tallystick.core.errors import conflict, invalid
from tallystick.core.identity import short
from tallystick.core.model import Reason as R
from tallystick.core.model import TaskState as S
from tallystick.core.route import agent_mode
from tallystick.core.state import Context, Task, Unchanged, Work, same_place
from tallystick.core.task.ground import check_still_wanted, name_of

PURPOSES: Final = ("work", "changes", "answer", "refuted", "parts", "reminder", "resumed")
"""What a prompt is for."""
REMINDERS: Final = 1
"""How often a session is reminded of a task that it left open, before its requester is asked."""
RESUMES: Final = 2
"""How often an interrupted turn is gone on with, before a person has to look."""


def start(work: Work, c: cmd.StartTurn, ctx: Context) -> ev.TurnStarted:
    """A prompt may go out: nothing else is under way, nobody holds it back, and it is for this session."""
    task = work.task
    if c.purpose not in PURPOSES:
        raise invalid(f"{c.purpose!r} is no purpose of a prompt.", f"Use one of: {', '.join(PURPOSES)}.")
    agent = ctx.directory.agents.get(task.assignee)
    if agent is None or agent.connection != "drive":
        raise conflict(f"Task {name_of(task)} is with nobody whom the host drives.", "Nothing is to be done.")
    if task.running and task.running != c.lost:
        raise conflict(f"A turn for task {name_of(task)} is under way.", "Wait until it has ended.")
    if not c.session or task.session != c.session:
        raise conflict(f"Task {name_of(task)} is not with session {short(c.session)}.", "Nothing is to be done.")
    delivery = work.delivery(c.delivery_id)
    handed_over = delivery is not None and (task.state is S.WORKING or delivery.in_flight)
    if delivery is None or not handed_over or (c.purpose in ("work", "changes") and delivery.intent != "intended"):
        raise conflict(f"Delivery {short(c.delivery_id)} is not being dispatched.", "Nothing is to be done.")
    if c.purpose in ("work", "changes") and delivery.prompted:
        raise conflict(f"Delivery {short(c.delivery_id)} was handed over already.", "Remind of it, or go on with it.")
    _check_free(task, agent, c.session, ctx)
    _check_again(task, c.purpose)
    return ev.TurnStarted(
        **same_place(task),
        turn_id=c.turn_id,
        session=c.session,
        delivery_id=c.delivery_id,
        purpose=c.purpose,
        lost=c.lost,
    )


def is_held_back(task: Task, agent: Agent, session: str, directory: Directory) -> bool:
    """Whether a person paused or stopped the task, its session, or what these belong to: no prompt goes out."""
    modes = {agent_mode(agent, directory, task.workspace, session), task.mode}
    return bool(modes & {"paused", "stopped"})


def _check_free(task: Task, agent: Agent, session: str, ctx: Context) -> None:
    if is_held_back(task, agent, session, ctx.directory):
        raise conflict(f"A person holds task {name_of(task)} back.", "Wait until a person says `tally resume`.")
    check_still_wanted(task, ctx)
    over = task.spent.over(task.budget)
    if over:
        raise conflict(f"The budget of task {name_of(task)} is used up: {over}.", "Ask anew with a larger one.")


def _check_again(task: Task, kind: str) -> None:
    if kind == "reminder" and task.reminders >= REMINDERS:
        raise conflict(f"The session was reminded of task {name_of(task)}.", "Ask its requester.")
    if kind == "resumed" and not may_resume(task):
        raise conflict(f"Task {name_of(task)} was interrupted {task.resumes} times.", "A person has to look at it.")


def may_resume(task: Task) -> bool:
    """Whether an interrupted turn may be gone on with once more."""
    return task.resumes < RESUMES


def note(work: Work, c: cmd.NoteTurn, _ctx: Context) -> ev.TurnNoted:
    """What was said and done since the last note."""
    return ev.TurnNoted(**same_place(work.task), turn_id=c.turn_id, text=c.text, spent=c.spent, updates=c.updates)


def end(work: Work, c: cmd.EndTurn, _ctx: Context) -> ev.TurnEnded:
    """It is over, however it ended."""
    return ev.TurnEnded(
        **same_place(work.task), turn_id=c.turn_id, stop=c.stop, text=c.text, spent=c.spent, detail=c.detail
    )


def too_late(task: Task, c: cmd.NoteTurn | cmd.EndTurn, _ctx: Context) -> Unchanged | None:
    """What comes of a turn that has ended changes nothing."""
    return None if task.running == c.turn_id else Unchanged(task.task_id)


def wanted(work: Work) -> str:
    """The kind of prompt that a task needs which its session holds while nothing is under way; empty for none."""
    task = work.task
    doubted = work.assignment is not None and work.assignment.open and work.assignment.unverified
    if doubted or task.running or task.state is not S.WORKING or task.reason is R.CHECKING or task.cancel_requested_at:
        return ""
    if task.reason is R.ANSWERED:
        return "answer"
    return "refuted" if task.refuted else "resumed"
