"""Waking by a hook that waits: the client starts it, the host answers it once, and the client goes on with its words.

That the hook was answered proves nothing. That it was taken, and that a turn began, is read in the client's own record
of the conversation; that the turn is over, by the hook of its end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Protocol

from tallystick.app.calls import Call
from tallystick.app.desk.interface import Guest
from tallystick.app.ports import Admission, Summons
from tallystick.app.turns import Turns
from tallystick.core.directory import Agent, SessionState
from tallystick.core.limits import Limits
from tallystick.edge.clients.records import Trail, size_of

_LOOK_SECONDS = 0.25
_QUEUED = 10
"""So many times as long as for the proof that it was taken, a client may leave it in its own queue."""
_ENDS = ("Stop", "AfterAgent", "")
"""After what a hook waits again. Our own extensions name nothing: they do so once the session has settled."""

Trailing = Callable[[str, str, str, int], Trail]
"""(transcript, history, wake id, from where) → what the conversation shows of it."""


class WaitingDesk(Protocol):
    """What is needed of the desk."""

    async def turn_ended(self, guest: Guest) -> None: ...

    async def wait_to_be_woken(
        self, guest: Guest, seconds: float, gone: Callable[[], Any], *, plans: bool
    ) -> str: ...


class Waiter:
    """Holds a hook that waits, until its session is to be woken. A client that starts it at the end of a turn says by
    that, too, that the turn is over."""

    def __init__(self, desk: WaitingDesk, seconds: float) -> None:
        self._desk = desk
        self._seconds = seconds

    async def __call__(self, guest: Guest, call: Call) -> str:
        """The notice that wakes it; empty: end without waking."""
        said = _said(call)
        if said.get("hook_event_name", "") in _ENDS:  # (our own extensions name none)
            await self._desk.turn_ended(guest)
        plans = said.get("permission_mode") == "plan"
        return await self._desk.wait_to_be_woken(guest, self._seconds, call.interrupted, plans=plans)


def _said(call: Call) -> dict[str, Any]:
    """What the client told the hook, as far as it can be read."""
    given = call.arguments.get("args")
    raw = given.get("raw") if isinstance(given, dict) else None
    try:
        said = json.loads(raw) if isinstance(raw, str) else {}
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


class HookWaker:
    """Implements `app.ports.Waker` for clients whose hook or extension waits."""

    def __init__(self, turns: Turns, limits: Limits, trail: Trailing) -> None:
        self._turns = turns
        self._limits = limits
        self._trail = trail
        self._ends: dict[str, asyncio.Future[None]] = {}
        self._since: dict[str, int] = {}

    async def reachable(self, agent: Agent, session: SessionState | None) -> bool:  # noqa: ARG002 - the session tells
        """Whether a hook of that session waits, it is in no turn, and its person does not plan."""
        known = session.session_id if session is not None else ""
        held_back = self._turns.is_running(known) or self._turns.is_planning(known)
        return self._turns.is_armed(known) and not held_back

    async def wake(self, summons: Summons) -> Admission:
        """Answer the hook."""
        session = summons.session
        if session is None or not self._turns.is_armed(session.session_id):
            return Admission(outcome="refused", detail="No hook of it waits any more.")
        if self._turns.is_running(session.session_id):
            return Admission(outcome="busy", detail="It is in a turn.")
        if self._turns.is_planning(session.session_id):
            return Admission(outcome="plan_mode", detail="Its person plans.")
        wake_id = summons.wake.wake_id
        self._ends[wake_id] = self._turns.next_end(session.session_id)
        self._since[wake_id] = await asyncio.to_thread(size_of, session.transcript)
        if not self._turns.hand(session.session_id, summons.text):
            self._forget(wake_id)
            return Admission(outcome="refused", detail="Its hook went away at that moment.")
        return Admission(outcome="queued", detail="Its waiting hook was answered.")

    async def outcome(self, summons: Summons) -> Admission:
        """Read on in the conversation until it shows more."""
        session, wake = summons.session, summons.wake
        if session is None:
            return Admission(outcome="unverified", detail="Its session has ended.")
        if wake.outcome == "intended":
            return await self._reconciled(session, wake.wake_id)
        if wake.wake_id not in self._ends:
            self._ends[wake.wake_id] = self._turns.next_end(session.session_id)
        admission = await (self._started(summons) if wake.outcome == "queued" else self._over(summons))
        if admission.outcome != "started":
            self._forget(wake.wake_id)
        return admission

    async def end(self, summons: Summons) -> bool:  # noqa: ARG002
        """Nothing runs because of it but a turn in a session of a person: that is theirs."""
        return False

    async def _look(self, session: SessionState, wake_id: str) -> Trail:
        since = self._since.get(wake_id, 0)
        return await asyncio.to_thread(self._trail, session.transcript, session.history, wake_id, since)

    async def _reconciled(self, session: SessionState, wake_id: str) -> Admission:
        """An earlier host intended it: whether its words are in the conversation tells."""
        seen = await self._look(session, wake_id)
        if seen.started:
            return Admission(outcome="started", turn=seen.turn, detail=seen.started)
        if seen.queued:
            return Admission(outcome="queued", detail=seen.queued)
        return Admission(outcome="unverified", detail="Its conversation does not show it.")

    async def _started(self, summons: Summons) -> Admission:
        """Wait until the words are in the conversation. Where the client has queued them it gets more time; where a
        whole turn has passed since, it dropped them."""
        session, wake_id = summons.session, summons.wake.wake_id
        assert session is not None  # noqa: S101
        loop = asyncio.get_running_loop()
        until = loop.time() + self._limits.wake_proof_seconds
        size = -1
        while True:
            now = await asyncio.to_thread(size_of, session.transcript)
            if now != size:
                size, seen = now, await self._look(session, wake_id)
            if seen.started:
                return Admission(outcome="started", turn=seen.turn, detail=seen.started)
            passed = loop.time() - until
            waits = seen.queued and not self._has_ended(wake_id)
            if passed > (_QUEUED * self._limits.wake_proof_seconds if waits else 0):
                how = f"It was queued ({seen.queued})" if seen.queued else "Its hook was answered"
                return Admission(outcome="unverified", detail=f"{how}, and no turn of its conversation shows it.")
            await asyncio.sleep(_LOOK_SECONDS)

    def _has_ended(self, wake_id: str) -> bool:
        end = self._ends.get(wake_id)
        return end is not None and end.done()

    async def _over(self, summons: Summons) -> Admission:
        """Wait for the end of the turn: the hook of its end, or what the conversation shows."""
        session, wake = summons.session, summons.wake
        assert session is not None  # noqa: S101
        end, size = self._ends[wake.wake_id], -1
        while not end.done():
            now = await asyncio.to_thread(size_of, session.transcript)
            if now != size:
                size, seen = now, await self._look(session, wake.wake_id)
                if seen.interrupted:
                    return Admission(outcome="interrupted", turn=wake.turn, detail="Somebody interrupted the turn.")
                if seen.ended:
                    return Admission(outcome="completed", turn=wake.turn, detail="Its conversation shows the end.")
            await asyncio.wait({end}, timeout=_LOOK_SECONDS)
        if end.cancelled():
            return Admission(outcome="unverified", detail="Its session ended during the turn.")
        return Admission(outcome="completed", turn=wake.turn, detail="The hook of its end was called.")

    def _forget(self, wake_id: str) -> None:
        self._since.pop(wake_id, None)
        end = self._ends.pop(wake_id, None)
        if end is not None:
            end.cancel()
