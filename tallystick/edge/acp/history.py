"""What a client's own history says of a prompt that nobody saw the end of: was it ever there?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tallystick.app.driving import Driving
from tallystick.app.ports import Receipt
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.model import Fact, Reason
from tallystick.edge.acp.session import Session
from tallystick.edge.acp.turn import Running


class History:
    """Has a client load a conversation again, and looks for the prompt in it."""

    def __init__(self, driving: Driving, close: Callable[[str], Awaitable[None]]) -> None:
        self._driving = driving
        self._close = close
        """Ends a session for good, by its id."""

    async def look_back(self, session: Session, run: Running) -> Receipt | None:
        """Look into the client's own history: was the prompt ever there? None where the session goes on with it."""
        doubt = Receipt(outcome="unverified", detail="What became of its turn is not known.")
        try:
            await session.ready(run.envelope.work.task)
        except Refused as refusal:
            if refusal.code is ErrorCode.NOT_FOUND:  # a client keeps nothing of a conversation without a prompt
                await self._close(session.session_id)
                return self._never(run, refusal.message)
            return Receipt(outcome="unverified", detail=f"Its history cannot be read: {refusal.message}")
        if session.replay is None:
            return doubt
        work = await self._driving.work(run.envelope.task_id)
        delivery = work.delivery(run.assignment_id) if work else None
        if work is None or delivery is None:
            return Receipt(outcome="ended")
        if delivery.intent_id not in session.replay.intents:
            return self._never(run, "Its own history does not have the prompt.")
        proof = f"its own history, loaded again ({session.history})"
        await self._driving.recorded(work.task.task_id, delivery.delivery_id, session.session_id, proof)
        run.next_purpose = "answer" if work.task.reason is Reason.ANSWERED else "resumed"
        return None

    def _never(self, run: Running, detail: str) -> Receipt:
        """The client's history does not have it. Where its turn was seen to begin, that is no proof of anything."""
        delivery = run.work.delivery(run.assignment_id)
        seen = delivery is None or any(fact.fact is Fact.RECORDED for fact in delivery.facts)
        return Receipt(outcome="unverified" if seen else "returned", detail=detail)
