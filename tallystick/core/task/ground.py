"""What several moves stand on: names for people, leases, whether a session can go on."""

from __future__ import annotations

from typing import Any

from tallystick.core import events as ev
from tallystick.core.errors import invalid
from tallystick.core.identity import short
from tallystick.core.state import Context, Task
from tallystick.core.task.submit import check_body


def name_of(task: Task) -> str:
    """The task's id as people read it."""
    return short(task.task_id)


def same_place(task: Task) -> dict[str, Any]:
    """State and reason for an event that leaves them as they are."""
    return {"state": task.state, "reason": task.reason}


def session_alive(task: Task, ctx: Context) -> bool:
    """Whether the session that held it can go on with it."""
    if not task.holder:
        return False
    if task.holder in ctx.directory.persons:
        return True
    session = ctx.directory.sessions.get(task.session)
    agent = ctx.directory.agents.get(task.holder)
    return session is not None and not session.ended and agent is not None and not agent.deleted


def pull_lease(task: Task, ctx: Context) -> float:
    """When a full lease of the present holder would end; 0 for a person or nobody."""
    if not task.holder or task.holder in ctx.directory.persons:
        return 0.0
    return ctx.now + (task.lease_seconds or ctx.limits.pull_lease_seconds)


def check_said(text: ev.Text, ctx: Context) -> None:
    """Words are there, and not too many."""
    check_body(text, ctx)
    if not text.body.strip():
        raise invalid("The text is empty.", "Say it in words.")
