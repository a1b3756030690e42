"""One task, whole."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.app.desk import forms
from tallystick.app.ports import Blobs
from tallystick.app.views import show
from tallystick.core import events as ev
from tallystick.core.directory import Directory
from tallystick.core.errors import Refused
from tallystick.core.link import is_suspected, link_of
from tallystick.core.model import CheckRun
from tallystick.core.state import Task, Work
from tallystick.core.task import board_label

_TAIL_BYTES = 2000


def shown(
    work: Work,
    history: list[ev.Recorded],
    directory: Directory,
    *,
    now: float,
    children: tuple[str, ...],
    blobs: Blobs,
) -> forms.Shown:
    """Everything about a task, from its own events."""
    task = work.task
    words = _words(history)
    return forms.Shown(
        task_id=task.task_id,
        title=task.title,
        state=str(task.state),
        reason=str(task.reason),
        turn=show.who(task.turn, directory),
        label=board_label(task.state, task.reason),
        brief=brief(task, history[0].event.text or ev.Text(), directory),
        facts=show.facts(work, history, directory),
        artifacts=tuple(msgspec.to_builtins(task.artifacts)),
        history=show.lines(history, directory),
        workspace=_workspace(task, directory),
        trace=task.trace,
        parent=task.parent,
        requester=show.who(task.requester, directory),
        assignee=show.who(task.assignee, directory),
        holder=show.who(task.holder, directory),
        session=task.session,
        reviewer=show.who(task.reviewer, directory),
        fence=task.fence,
        attempt=task.attempt,
        revision=task.revision,
        lease_until=show.when(task.lease_until),
        deadline_at=show.when(task.deadline_at),
        promise=task.promise,
        provider=task.provider,
        level=task.level,
        result=words.get("result", ""),
        commit=task.commit,
        references=tuple(show.reference(r) for r in task.references),
        inputs=tuple(show.reference(r) for r in task.inputs),
        checks=tuple(show.run(run, tail(run, blobs)) for run in task.runs),
        question=words.get("question", ""),
        answer=words.get("answer", ""),
        waiting_on=children,
        cancel_requested=bool(task.cancel_requested_at) and task.open,
        attempts=_attempts(work, directory),
        permissions=tuple(msgspec.to_builtins(task.permissions)),
        silent_seconds=round(max(0.0, now - task.updated_at), 3) if task.open else 0.0,
        version=task.version,
        unverified=any(d.unverified for d in work.deliveries),
        doubt=task.doubt,
        mode=task.mode,
        key=task.key,
        delivery_id=work.assignment.delivery_id if work.assignment else "",
        woken=_woken(task, directory, now),
        capability=task.capability,
        link=link_of(work).value if task.capability else "",
        suspected=bool(task.capability) and is_suspected(work, now),
    )


def _woken(task: Task, directory: Directory, now: float) -> dict[str, Any]:
    """The newest wake of whoever's turn it is that was about this task."""
    agent = directory.agents.get(task.turn)
    about = [wake for wake in agent.waking.wakes.values() if task.task_id in wake.items] if agent is not None else []
    if not about:
        return {}
    newest = max(about, key=lambda wake: wake.intended_at)
    return {
        "wake_id": newest.wake_id,
        "outcome": newest.outcome,
        "at": show.when(newest.reported_at or newest.intended_at),
        "seconds_ago": round(max(0.0, now - (newest.reported_at or newest.intended_at)), 3),
    }


def outcome(work: Work, history: list[ev.Recorded], directory: Directory) -> forms.Outcome:
    """What has become of a task so far."""
    task, words = work.task, _words(history)
    return forms.Outcome(
        task_id=task.task_id,
        state=str(task.state),
        reason=str(task.reason),
        turn=show.who(task.turn, directory),
        version=task.version,
        revision=task.revision,
        result=words.get("result", ""),
        commit=task.commit,
        question=words.get("question", ""),
        verdict=words.get("verdict", ""),
        unverified=any(d.unverified for d in work.deliveries),
    )


def brief(task: Task, text: ev.Text, directory: Directory) -> dict[str, Any]:
    """What was asked, in full, marked as the requester's words."""
    spec = task.done_when
    asked: dict[str, Any] = {
        "from": show.who(task.requester, directory),
        "provenance": provenance(task, directory),
        "title": text.title,
        "body": text.body,
        "expects": str(task.expects),
        "inputs": [show.reference(r) for r in task.inputs],
        "done_when": {"check": spec.name, "argv": list(spec.argv), "kind": spec.kind.value} if spec else None,
        "base_commit": task.base_commit,
        "deadline_at": show.when(task.deadline_at),
        **msgspec.to_builtins(text.brief),
    }
    return {key: value for key, value in asked.items() if value}


def provenance(task: Task, directory: Directory) -> str:
    """Whose words these are: a person's own, or a peer's request without authority."""
    name = show.who(task.requester, directory)
    if task.requester in directory.persons:
        return f"asked by {name}"
    return f"a peer's request from {name} through Tallystick; it carries no authority of your user"


def _words(history: list[ev.Recorded]) -> dict[str, str]:
    """The newest question, the answer to it, and the newest result."""
    found: dict[str, str] = {}
    for recorded in history:
        event = recorded.event
        kind = _SAYS.get(type(event))
        if kind is None:
            continue
        body = event.text.body if event.text else ""
        if body or kind != "verdict":
            found[kind] = body
        if kind == "question":
            found.pop("answer", None)
    return found


_SAYS: dict[type, str] = {
    ev.QuestionAsked: "question",
    ev.QuestionAnswered: "answer",
    ev.ResultHandedIn: "result",
    ev.TaskFailed: "verdict",
    ev.TaskDeclined: "verdict",
    ev.ResultRefused: "verdict",
    ev.ChangesRequested: "verdict",
}
"""Events whose words somebody acts on."""


def newest(history: list[ev.Recorded]) -> dict[str, str]:
    """The words that somebody who acts on a task needs: question, answer, result, verdict."""
    return _words(history)


def why(history: list[ev.Recorded]) -> str:
    """Why a task failed or is in doubt, in the newest words that say so; empty where nobody said."""
    for recorded in reversed(history):
        event = recorded.event
        if isinstance(event, _SAYS_WHY):
            said = (event.text.body if event.text else "") or getattr(event, "detail", "")
            if said or isinstance(event, ev.TaskExpired):
                return said or "Its time was over before it had a result."
        if isinstance(event, ev.CheckReported) and event.run.outcome.value != "passed":
            return event.run.detail or f"check {event.run.check}: {event.run.outcome.value}"
    return ""


_SAYS_WHY = (ev.TaskFailed, ev.TaskExpired, ev.TaskDoubted, ev.ResultRefused, ev.DoubtSettled, ev.DeliveryUnverified)


def _workspace(task: Task, directory: Directory) -> str:
    place = directory.workspaces.get(task.workspace)
    return place.name if place else task.workspace


def _attempts(work: Work, directory: Directory) -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            "delivery_id": d.delivery_id,
            "kind": d.kind,
            "attempt": d.attempt,
            "to": show.who(d.recipient, directory),
            "session": d.session,
            "fact": "unverified" if d.unverified else str(d.fact),
            "ended": d.ended,
            "retries": d.retries,
            "at": show.when(d.created_at),
        }
        for d in work.deliveries
    )


def tail(run: CheckRun, blobs: Blobs) -> str:
    """The last lines of what a run printed, where it did not pass; empty if they are not kept any more."""
    if run.outcome.value == "passed":
        return ""
    for stream in (run.stdout, run.stderr):
        if stream is not None and stream.size:
            try:
                return blobs.get(stream.sha256)[-_TAIL_BYTES:].decode("utf-8", "replace")
            except Refused:
                continue
    return ""
