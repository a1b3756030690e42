"""Hands messages to spokes that are connected, and stays until each has an outcome. See `app.ports.Transport`."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

import msgspec

from tallystick.app.ports import Began, Envelope, Plan, Receipt
from tallystick.app.shapes import payload_of
from tallystick.core.directory import Agent
from tallystick.core.identity import short
from tallystick.core.model import Fact
from tallystick.core.offers import Offer
from tallystick.core.state import Work
from tallystick.edge.spoke import frames as f
from tallystick.edge.spoke.carried import RETREAT_SECONDS, Carried, Terms, Turn
from tallystick.edge.spoke.fetching import referred
from tallystick.edge.spoke.hub import Hub

ACK_SECONDS: Final = 5.0
"""How long a spoke may take to say that it has a message; a third of the message's time where that is less. Where the
sender did not say so (`ack_timeout_ms`)."""


_UNKNOWN: Final = Offer("none")
"""What is not offered any more has no shape to be judged by."""


class SpokeTransport:
    """One for all spokes of a host."""

    reconciles = True

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def plan(self, agent: Agent, work: Work) -> Plan | None:  # noqa: ARG002 - any session of it will do
        """The session in which the spoke is connected; None while it is not, or takes nothing new."""
        spoke = self._hub.of_agent(agent.agent_id)
        if spoke is None or spoke.is_draining:
            return None
        return Plan(spoke.session, self._hub.limits.presence_seconds)

    def unplanned(self, plan: Plan) -> None:
        """Nothing was kept for it."""

    async def send(self, envelope: Envelope, began: Began) -> Receipt:
        """From SAIL to the outcome."""
        delivery = envelope.work.delivery(envelope.delivery_id)
        if envelope.adopted and (delivery is None or delivery.fact is not Fact.WORKING):
            return Receipt(outcome="returned", detail="The host stopped before it was begun.")
        hub = self._hub
        send = partial(hub.send, envelope.session)
        carried = Carried(envelope, self._terms(envelope), send, began, hub.noted)
        hub.carries(carried)
        return await carried.carry()

    def _terms(self, envelope: Envelope) -> Terms:
        task, payload = envelope.work.task, payload_of(envelope.text)
        offer = envelope.offer or _UNKNOWN
        left = max(0.1, task.deadline_at - self._hub.now()) if task.deadline_at else self._hub.limits.reach_seconds
        return Terms(
            sail=_sail(envelope, left, payload),
            ack_seconds=min(task.ack_seconds, left) if task.ack_seconds else min(ACK_SECONDS, left / 3),
            sail_seconds=task.ack_seconds or None,
            begin_seconds=self._hub.limits.presence_seconds,
            check_payload=partial(self._hub.shapes.wrong, payload, offer.schema),
            check_result=partial(self._hub.shapes.wrong, schema=offer.result_schema),
        )

    async def end(self, delivery_id: str) -> bool:
        """Ask the spoke to stop it. True when nothing of it runs any more; what has not begun never will."""
        carried = self._hub.carried.get(delivery_id)
        if carried is None:
            return not self._hub.is_elsewhere(delivery_id)
        carried.hear(Turn.ENDED)
        try:
            async with asyncio.timeout(2 * RETREAT_SECONDS):
                await carried.stopped.wait()
        except TimeoutError:
            return False
        return not (carried.is_lost or carried.is_unknown)

    async def settled(self, delivery_id: str) -> None:
        """Its outcome is recorded: the spoke may forget it."""
        self._hub.settled(delivery_id)

    def found(self) -> list[str]:
        """What a spoke still holds it tells itself when it is back."""
        return []


def _sail(envelope: Envelope, left: float, payload: bytes) -> f.Frame:
    task = envelope.work.task
    body = f.Deliver(
        delivery=envelope.delivery_id,
        task_id=envelope.task_id,
        fence=envelope.fence,
        attempt=_attempt(envelope.work),
        revision=task.revision,
        changes=_changes(envelope),
        payload=msgspec.Raw(payload),
        context=_context(envelope.text.brief.context),
        references=tuple(map(referred, task.inputs)),
        deadline_at=task.deadline_at,
        caller=envelope.caller,
        workspace=task.workspace,
    )
    return f.frame(
        "SAIL",
        task.messages[0].message_id,
        body,
        target_capability=task.capability,
        reply_to=task.reply_to,
        dedup_key=task.key,
        timeout_ms=round(left * 1000) if task.deadline_at else 0,
        trace_id=task.trace,
        traceparent=task.traceparent,
    )


def _attempt(work: Work) -> int:
    """How often the work was handed over, this time included: each delivery of it once, and once for each retry."""
    handed = [d for d in work.deliveries if d.kind in ("assignment", "change") and d.has(Fact.CLAIMED)]
    return max(1, len(handed) + sum(d.retries for d in work.deliveries))


def _changes(envelope: Envelope) -> str:
    """The words of who wants it changed; of very many the first, and where all of them are."""
    said, most = envelope.note, f.TEXT_CHARACTERS
    if len(said) <= most:
        return said
    return f"{said[:most]} … {len(said) - most} more characters: tally show {short(envelope.task_id)}"


def _context(text: str) -> dict[str, Any]:
    """The slice of context of a message; that which people wrote stands under `goal`."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any]) if text else {}
    except msgspec.DecodeError:
        return {"goal": text}
