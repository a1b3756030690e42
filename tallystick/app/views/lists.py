"""Inbox and board: whose turn it is, and what there is."""

from __future__ import annotations

from collections.abc import Mapping

from tallystick.app.desk import forms
from tallystick.app.views import show, tasks
from tallystick.core import events as ev
from tallystick.core.directory import Directory
from tallystick.core.limits import Limits
from tallystick.core.model import Reason, TaskState
from tallystick.core.state import Task
from tallystick.core.task import board_label
from tallystick.store.interface import Cell

Cells = Mapping[str, Cell]

_ASKS = {
    "submitted/new": "take",
    "submitted/rework": "rework",
    "submitted/unassigned": "reassign",
    "submitted/compensating": "make good",
    "working": "work",
    "working/answered": "work",
    "working/checking": "wait",
    "input_required/question": "answer",
    "input_required/review": "review",
    "input_required/frozen": "say how to go on",
    "input_required/unverified": "check the outcome",
    "auth_required/permission": "decide",
    "auth_required/grant": "decide",
    "auth_required/inbound": "admit",
}


def board_task(row: Cells, directory: Directory, now: float) -> forms.BoardTask:
    """One line of the board."""
    workspace = directory.workspaces.get(str(row["workspace"]))
    return forms.BoardTask(
        task_id=str(row["task_id"]),
        title=str(row["title"]),
        state=str(row["state"]),
        reason=str(row["reason"]),
        turn=show.who(str(row["turn"]), directory),
        from_=show.who(str(row["requester"]), directory),
        age=_age(row["created_at"], now),
        label=board_label(TaskState(str(row["state"])), Reason(str(row["reason"]))),
        assignee=show.who(str(row["assignee"]), directory),
        workspace=workspace.name if workspace else str(row["workspace"]),
        updated_at=show.when(float(row["updated_at"] or 0.0)),
        parent=str(row["parent"]),
    )


def _age(at: Cell, now: float) -> float:
    return round(max(0.0, now - float(at or 0.0)), 3)


def turn(
    row: Cells, task: Task, history: list[ev.Recorded], directory: Directory, now: float, limits: Limits
) -> forms.InboxItem:
    """One task that waits for the reader."""
    age = _age(task.updated_at, now)
    waits = task.state is TaskState.INPUT_REQUIRED
    return _item(
        task,
        history,
        directory,
        kind=_ASKS.get(task.place, "look"),
        new=int(row["turn_version"] or 0) > int(row["seen"] or 0),
        age=age,
        overdue=waits and age > limits.question_reminder_seconds,
    )


def notice(row: Cells, task: Task, history: list[ev.Recorded], directory: Directory, now: float) -> forms.InboxItem:
    """Something the reader should know."""
    return _item(task, history, directory, kind=str(row["kind"]), new=True, age=_age(row["at"], now), overdue=False)


def _item(
    task: Task,
    history: list[ev.Recorded],
    directory: Directory,
    *,
    kind: str,
    new: bool,
    age: float,
    overdue: bool,
) -> forms.InboxItem:
    words = tasks.newest(history)
    workspace = directory.workspaces.get(task.workspace)
    text = history[0].event.text if history else None
    return forms.InboxItem(
        task_id=task.task_id,
        from_=show.who(task.requester, directory),
        state=task.state.value,
        reason=task.reason.value,
        title=task.title,
        asks=(text.body if text else "")[:500],
        references=tuple(show.reference(r) for r in (*task.inputs, *task.references)),
        question=words.get("question", "") if task.reason is Reason.QUESTION or words.get("answer") else "",
        answer=words.get("answer", ""),
        new=new,
        kind=kind,
        age=age,
        workspace=workspace.name if workspace else task.workspace,
        version=task.version,
        overdue=overdue,
        result=words.get("verdict") or words.get("result", ""),
    )
