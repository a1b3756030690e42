"""The frames of who reaches for a capability, and how what becomes of it is told while it happens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tallystick.app.desk import reach
from tallystick.app.desk.interface import Guest
from tallystick.core.errors import invalid, unavailable
from tallystick.edge.spoke import frames as f
from tallystick.edge.spoke.seen import Outcome

if TYPE_CHECKING:
    from tallystick.edge.spoke.visit import Visit

OPEN: Final = 10_000
"""Messages of one connection whose outcome is waited for."""


class Voyages:
    """What one program waits for, by message."""

    def __init__(self) -> None:
        self.open: set[str] = set()
        """Messages whose outcome is waited for."""
        self._told: dict[str, tuple[Guest, list[Outcome]]] = {}
        """By message: who waits for it, and outcomes that the program was told and has not acknowledged."""

    def told(self, msg_id: str, guest: Guest, outcome: Outcome) -> None:
        """The program was sent an outcome of that message."""
        if len(self._told) < OPEN:
            self._told.setdefault(msg_id, (guest, []))[1].append(outcome)

    def acknowledged(self, msg_id: str) -> tuple[Guest, list[Outcome]] | None:
        """It has all that it was sent of that message: for whom, and what; None where that was nothing."""
        return self._told.pop(msg_id, None)


async def sail(visit: Visit, frame: f.Frame) -> f.Ack:
    """SAIL: the message is stored; who waits is then told what becomes of it."""
    header, body = frame.header, frame.body
    assert isinstance(body, f.Sail)  # noqa: S101 - the table of frames says so
    if len(visit.voyages.open) >= OPEN:
        raise unavailable(f"{OPEN} messages of this connection are still open.", "Wait until some have ended.")
    context, inputs = _slice(body.context)
    form = reach.Sail(
        capability=header.target_capability,
        payload=_text(body.payload),
        msg_id=header.msg_id,
        key=header.dedup_key,
        context=_text(context) if context else "",
        inputs=inputs,
        timeout_ms=header.timeout_ms or None,
        to=body.to,
        retry=body.retry,
        domain=body.domain,
        title=body.title,
        parent=body.parent,
        group=body.group,
        trace=header.trace_id,
        on_failure=body.on_failure,
        review_by=body.review_by,
        stall_after_ms=body.stall_after_ms,
        ack_timeout_ms=body.ack_timeout_ms,
        reply_to=header.reply_to,
        traceparent=header.traceparent,
    )
    sailed = await visit.hub.desk.sail(await visit.guest(), form)
    return f.Ack(
        of="SAIL",
        task_id=sailed.task_id,
        trace_id=sailed.trace_id,
        duplicate=sailed.duplicate,
        link=sailed.link,
        promise=sailed.promise,
        tasks=sailed.tasks,
    )


async def retreat(visit: Visit, frame: f.Frame) -> f.Ack:
    """RETREAT: take a message back, as far as it has not begun."""
    shown = await visit.hub.desk.retreat(await visit.guest(), frame.header.msg_id)
    if shown.changed:
        visit.hub.withdrawn(shown.task_id)
    return f.Ack(of="RETREAT", task_id=shown.task_id, link=shown.link)


async def settle(visit: Visit, frame: f.Frame) -> f.Ack:
    """SETTLE: a trace is finished."""
    await visit.hub.desk.settle(await visit.guest(), frame.header.trace_id)
    return f.Ack(of="SETTLE", trace_id=frame.header.trace_id)


# --- telling ----------------------------------------------------------------------------------------------------


async def follow(visit: Visit, sail: f.Frame, ack: f.Ack) -> None:
    """Tell what becomes of a message that was taken; of one that is told already nothing is told twice."""
    msg_id, waited_for = sail.header.msg_id, visit.voyages.open
    if msg_id in waited_for:
        return
    waited_for.add(msg_id)
    try:
        guest = await visit.guest()
        if ack.tasks:
            await asyncio.gather(*(_tell(visit, guest, sail, task_id, ack) for task_id in ack.tasks))
        else:
            await _tell(visit, guest, sail, ack.task_id, ack)
    finally:
        waited_for.discard(msg_id)


async def _tell(visit: Visit, guest: Guest, sail: f.Frame, task_id: str, ack: f.Ack) -> None:
    msg_id, about = sail.header.msg_id, {"trace_id": ack.trace_id, "traceparent": sail.header.traceparent}
    async for reached in await visit.hub.desk.reaches(guest, task_id):
        told = _frame(reached)
        if told is not None:
            msg_type, body = told
            if reached.what in reach.ENDS and not reached.duplicate:
                visit.voyages.told(msg_id, guest, (reached.task_id, reached.version))
            await visit.reply(msg_type, msg_id, body, **about)


def _frame(reached: reach.Reached) -> tuple[str, f.Shape] | None:
    """How one thing that happened is told; None where it is not."""
    task_id = reached.task_id
    if reached.what == "begun":
        return "BEGIN", f.Begun(task_id=task_id)
    if reached.what == "progress":
        return "PROGRESS", f.Told(task_id=task_id, text=reached.text, fraction=reached.fraction)
    if reached.what == "result":
        payload = msgspec.Raw(reached.payload.encode() or b"null")
        return "RESULT", f.Outcome(task_id=task_id, payload=payload, duplicate=reached.duplicate, spoke=reached.spoke)
    if reached.what in ("failed", "unverified"):
        return "FAIL", f.Refusal(
            code=reached.code,
            message=reached.message,
            remedy=reached.remedy,
            task_id=task_id,
            link=reached.link,
        )
    return None


def _slice(context: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The context without what it refers to, and that: it travels as the inputs of the task."""
    if "references" not in context:
        return context, ()
    rest = {key: value for key, value in context.items() if key != "references"}
    try:
        return rest, msgspec.convert(context["references"], f.References)
    except msgspec.ValidationError as error:
        raise invalid(f"The references of the context are not valid: {error}.", _REFERENCES) from None


_REFERENCES: Final = "Name each by a path, a revision, REV:PATH, blob:SHA256 or a URL."


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
