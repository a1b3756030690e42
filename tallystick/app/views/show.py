"""How things are written for people and programs: ids, names, times, one event as one line."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from tallystick.app.desk import forms
from tallystick.core import events as ev
from tallystick.core.directory import Directory
from tallystick.core.fold import evolve
from tallystick.core.identity import CAPABILITY_PREFIX, Assertion, short
from tallystick.core.link import link_of
from tallystick.core.model import BlobReference, CheckRun, Fact, GitReference, Reference, place
from tallystick.core.state import Work
from tallystick.core.wake import BY_OUTCOME


@lru_cache(maxsize=4096)
def when(at: float) -> str:
    """ISO 8601 UTC to the millisecond; empty for none."""
    if not at:
        return ""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def who(party: str, directory: Directory) -> str:
    """A party as people write it."""
    return directory.alias_of(party) if party else ""


def reference(found: Reference) -> dict[str, Any]:
    """A reference as JSON, with its kind under `kind`."""
    shown: dict[str, Any] = msgspec.to_builtins(found)
    shown["kind"] = shown.pop("type")
    shown["checked"] = isinstance(found, GitReference | BlobReference)
    return shown


def run(seen: CheckRun, tail: str = "") -> forms.RunShown:
    """What the host saw when it ran something."""
    counts = seen.tests
    tests = f"{counts.ran} ran, {counts.failed} failed, {counts.skipped} skipped ({counts.source})" if counts else ""
    return forms.RunShown(
        check=seen.check,
        outcome=seen.outcome.value,
        commit=seen.commit,
        argv=seen.argv,
        exit_code=seen.exit_code,
        signal=seen.signal,
        sandbox=seen.sandbox,
        seconds=round(max(0.0, seen.ended_at - seen.started_at), 3),
        stdout_sha256=seen.stdout.sha256 if seen.stdout else "",
        stdout_bytes=seen.stdout.size if seen.stdout else 0,
        stderr_sha256=seen.stderr.sha256 if seen.stderr else "",
        stderr_bytes=seen.stderr.size if seen.stderr else 0,
        environment_sha256=seen.environment_sha256,
        tests=tests,
        detail=seen.detail,
        protected_changed=seen.protected_changed,
        output_tail=tail,
    )


def what(recorded: ev.Recorded, directory: Directory) -> str:
    """The event in a few words."""
    event = recorded.event
    if isinstance(event, ev.TaskSubmitted):
        asked = f"asked {who(event.assignee, directory) or '@coordinator'}"
        return f"{asked} with the result of {short(event.forwards)}" if event.forwards else asked
    if isinstance(event, ev.ResultForwarded):
        return f"result not sent on: {event.code}" if event.code else f"result sent on as {short(event.message)}"
    name = _WORDS.get(type(event).__name__) or _spaced(type(event).__name__)
    if isinstance(event, ev.CheckReported):
        return f"check {event.run.check}: {event.run.outcome.value}"
    if isinstance(event, ev.TaskReassigned):
        return f"reassigned to {who(event.assignee, directory) or '@coordinator'}"
    if isinstance(event, ev.CommandRefused):
        return f"refused {_spaced(event.command)}: {event.code}"
    if isinstance(event, ev.TurnStarted):
        return f"prompted: {event.purpose}"
    if isinstance(event, ev.TurnEnded):
        return f"turn ended: {event.stop}"
    mode = getattr(event, "mode", "")
    return _of_place(recorded, directory) or f"{name} {mode}".strip()


def _of_place(recorded: ev.Recorded, directory: Directory) -> str:
    """An event of a party or place, where its name alone does not say it."""
    event = recorded.event
    if isinstance(event, ev.AgentJoined):
        return f"@{event.alias} joined"
    if isinstance(event, ev.SpokeTokenMade):
        return f"made the token of {event.name}{' anew' if event.replaced else ''}"
    if isinstance(event, ev.SpokeTokenRemoved):
        return f"took the token of {event.name} away"
    if isinstance(event, ev.WakeIntended):
        return f"about to wake {who(recorded.stream, directory)}"
    if isinstance(event, ev.WakeReported):
        return f"wake {event.outcome.replace('_', ' ')}"
    return f"presence {event.presence}" if isinstance(event, ev.PresenceChanged) else ""


_WORDS = {
    "TaskClaimed": "took it",
    "TaskProgressed": "progress",
    "QuestionAsked": "asked back",
    "QuestionAnswered": "answered",
    "ResultHandedIn": "handed in",
    "ResultApproved": "approved",
    "ChangesRequested": "wants changes",
    "ResultRefused": "refused the result",
    "TaskDeclined": "declined",
    "TaskFailed": "failed",
    "TaskCanceled": "canceled",
    "CancelRequested": "asked to cancel",
    "TaskReleased": "gave it back",
    "LeaseLapsed": "lease lapsed",
    "LeaseRecovered": "lease renewed after a restart",
    "TurnNoted": "says",
    "DeliveryLeased": "about to dispatch",
    "DeliveryBegun": "began",
    "DeliveryRecorded": "has the body",
    "DeliveryReturned": "did not begin",
    "DeliveryUnverified": "lost sight of it",
}


_WITH_DETAIL = (
    ev.DeliveryReturned,
    ev.DeliveryUnverified,
    ev.TurnEnded,
    ev.ResultForwarded,
    ev.TaskExpired,
    ev.TaskRestarted,
    ev.SpokeTokenRemoved,
)
"""Events whose detail says what was wrong."""


def _spaced(name: str) -> str:
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()


def line(recorded: ev.Recorded, directory: Directory, before: str, after: str, seconds: float | None) -> forms.Line:
    """One event as one line of a history, trace or feed."""
    event = recorded.event
    text = event.text.body if event.text and event.text.body else event.text.title if event.text else ""
    error = event.message if isinstance(event, ev.CommandRefused) else ""
    if isinstance(event, _WITH_DETAIL):
        error = event.detail
    if isinstance(event, ev.WakeReported) and BY_OUTCOME[event.outcome].then == "attempt":
        error = event.detail
    if isinstance(event, ev.LeaseLapsed):
        text = event.detail
    if isinstance(event, ev.CheckReported) and event.run.outcome.value != "passed":
        error = event.run.detail or f"exit {event.run.exit_code}"
    is_of_task = recorded.stream.startswith("tsk_")
    return forms.Line(
        position=recorded.position,
        at=when(recorded.at),
        who=who(recorded.actor.id, directory),
        asserted=recorded.actor.assertion is Assertion.ASSERTED,
        what=_BEGUN_AND_LOST if _is_begun_and_lost(event, before) else what(recorded, directory),
        task_id=recorded.stream if is_of_task else "",
        before=before,
        after=after,
        text=text,
        workspace=recorded.workspace,
        seconds=seconds,
        error=error,
        trace="" if is_of_task else recorded.trace,
    )


_BEGUN_AND_LOST = "its holder was lost"


def _is_begun_and_lost(event: ev.Event, before: str) -> bool:
    """Whether it goes to another holder although one began it."""
    return isinstance(event, ev.DeliveryReturned) and before.startswith("working")


def lines(history: list[ev.Recorded], directory: Directory) -> tuple[forms.Line, ...]:
    """Events in order, each with the place of its task before and after and the time since that task's last event."""
    places: dict[str, tuple[str, float]] = {}
    messages: dict[str, Work] = {}
    shown = []
    for recorded in history:
        before, at = places.get(recorded.stream, ("", 0.0))
        after = _place_after(recorded)
        seconds = round(recorded.at - at, 3) if at else None
        found = line(recorded, directory, before, after, seconds)
        shown.append(msgspec.structs.replace(found, link=_link(messages, recorded)) if after else found)
        if after:
            places[recorded.stream] = (after, recorded.at)
    return tuple(shown)


def _link(messages: dict[str, Work], recorded: ev.Recorded) -> str:
    """The link of a message to a capability before and after an event; empty for other tasks, and for a part of a
    history. `messages` are as far as they were told, and are folded on."""
    event, before = recorded.event, messages.get(recorded.stream)
    asked = isinstance(event, ev.TaskSubmitted) and (event.capability or event.assignee.startswith(CAPABILITY_PREFIX))
    if before is None and not asked:
        return ""
    after = messages[recorded.stream] = evolve(before, recorded)
    links = [link_of(work).value for work in (before, after) if work is not None]
    return " → ".join(dict.fromkeys(links))


def _place_after(recorded: ev.Recorded) -> str:
    event = recorded.event
    if not isinstance(event, ev.TaskEvent):
        return ""
    return place(event.state, event.reason)


def facts(work: Work, history: list[ev.Recorded], directory: Directory) -> tuple[forms.FactShown, ...]:
    """The facts of the newest assignment, in order, with their witnesses."""
    assignment = work.assignment
    if assignment is None:
        return ()
    persisted = _persisted(assignment.delivery_id, history)
    shown = [
        forms.FactShown(
            fact=str(seen.fact),
            at=when(seen.at),
            witness=_witness(seen.witness, directory),
            evidence=persisted if seen.fact is Fact.PERSISTED else seen.evidence,
        )
        for seen in assignment.facts
    ]
    if assignment.unverified:
        shown.append(
            forms.FactShown(
                fact="unverified",
                at=when(assignment.updated_at),
                witness="host",
                evidence=work.task.doubt or "no outcome",
            )
        )
    return tuple(shown)


def _persisted(delivery_id: str, history: list[ev.Recorded]) -> str:
    """Where in the log a delivery was written down: the first event that names it."""
    named = (r.position for r in history if getattr(r.event, "delivery_id", "") == delivery_id)
    return f"position {next(named, 0)}"


def _witness(witness: str, directory: Directory) -> str:
    session = directory.sessions.get(witness)
    if session is not None:
        return f"{directory.alias_of(session.agent)} {witness}"
    return directory.alias_of(witness)
