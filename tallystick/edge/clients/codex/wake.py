"""Waking Codex: the queue of its app-server, with our id as the id of the message.

Its queue is the client's own admission: what is in it starts as a turn of its own when the thread is idle, never inside
of one that runs. `queued` is said when it is stored, `started` when a turn holds our message, with that turn's id.
Threads that are not loaded are left alone, though the queue would take it: nobody knows when it would be looked at.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tallystick.app.ports import Admission, Summons
from tallystick.core.directory import Agent, SessionState
from tallystick.core.errors import Refused
from tallystick.core.limits import Limits
from tallystick.edge.clients.codex.history import LAYOUT, trail
from tallystick.edge.clients.codex.server import AppServer, Missing, socket_of
from tallystick.edge.clients.records import is_own

_LOOK_SECONDS = 0.3
_TURNS = 20
_FINAL = {"completed": "completed", "interrupted": "interrupted", "failed": "failed"}


class CodexWaker:
    """Implements `app.ports.Waker`."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._servers: dict[str, AppServer] = {}

    async def reachable(self, agent: Agent, session: SessionState | None) -> bool:  # noqa: ARG002 - the session tells
        """Whether its thread is loaded in a running app-server, and idle."""
        if session is None:
            return False
        try:
            server = await self._server(session)
            return server is not None and await _is_idle(server, session.history)
        except (Refused, Missing):
            return False

    async def wake(self, summons: Summons) -> Admission:
        """Put it into the queue of the thread."""
        session, wake = summons.session, summons.wake
        server = await self._server(session) if session else None
        if session is None or server is None:
            return Admission(outcome="refused", detail="No app-server of Codex answers.")
        if not await _is_idle(server, session.history):
            return Admission(outcome="busy", detail="Its thread is in a turn, or is not loaded any more.")
        text = {"type": "text", "text": summons.text}
        try:
            answer = await server.call(
                "thread/queue/add", threadId=session.history, input=[text], clientUserMessageId=wake.wake_id
            )
        except Missing:
            return Admission(outcome="refused", detail="This Codex has no queue (it needs 0.149 or newer).")
        queued = answer.get("queuedSubmission")
        return Admission(outcome="queued", detail=f"in its queue as {_field(queued, 'id')}")

    async def outcome(self, summons: Summons) -> Admission:
        """Look at the turns of the thread, and at its queue; where no server answers, at the rollout."""
        session, wake = summons.session, summons.wake
        if session is None:
            return Admission(outcome="unverified", detail="Its session has ended.")
        loop = asyncio.get_running_loop()
        until = loop.time() + self._limits.wake_proof_seconds
        while True:
            seen, is_known = await self._seen(session, wake.wake_id)
            if is_known:
                until = loop.time() + self._limits.wake_proof_seconds
            if seen is not None and seen.outcome != wake.outcome:
                if seen.outcome in _FINAL and wake.outcome != "started":
                    return Admission(outcome="started", turn=seen.turn, detail=seen.detail)
                return seen
            if wake.outcome == "intended" and is_known:
                return Admission(outcome="unverified", detail="Neither its queue nor its turns show it.")
            if loop.time() > until:
                return Admission(outcome="unverified", detail="Its thread does not show it, or nobody answers for it.")
            await asyncio.sleep(_LOOK_SECONDS)

    async def end(self, summons: Summons) -> bool:
        """Take it out of the queue, if it has not started. A turn in a person's session is theirs."""
        session = summons.session
        server = await self._server(session) if session else None
        if session is None or server is None:
            return False
        for queued in _list(await server.call("thread/queue/list", threadId=session.history)):
            if queued.get("clientUserMessageId") == summons.wake.wake_id:
                found = {"threadId": session.history, "queuedSubmissionId": str(queued.get("id"))}
                return bool((await server.call("thread/queue/delete", **found)).get("deleted"))
        return False

    async def _seen(self, session: SessionState, wake_id: str) -> tuple[Admission | None, bool]:
        """What is known of it, and whether anybody who would know was asked."""
        try:
            server = await self._server(session)
            if server is not None:
                return await _in_thread(server, session.history, wake_id), True
        except (Refused, Missing):
            pass
        return await asyncio.to_thread(_in_rollout, session, wake_id), False

    async def _server(self, session: SessionState | None) -> AppServer | None:
        """The app-server of the Codex home that the session's rollout lies in; None where there is none."""
        if session is None or not is_own(session.transcript, session.history, LAYOUT):
            return None
        path = await asyncio.to_thread(socket_of, Path(*Path(session.transcript).parts[: -len(LAYOUT.below) - 1]))
        known = self._servers.get(path)
        if known is not None and known.is_open:
            return known
        self._servers.pop(path, None)
        if not path:
            return None
        self._servers[path] = server = await AppServer.connect(path)
        return server


async def _is_idle(server: AppServer, thread: str) -> bool:
    loaded = (await server.call("thread/loaded/list")).get("data")
    if not isinstance(loaded, list) or thread not in loaded:
        return False
    found = (await server.call("thread/read", threadId=thread, includeTurns=False)).get("thread")
    status = found.get("status") if isinstance(found, dict) else None
    return _field(status, "type") in ("idle", "systemError")


async def _in_thread(server: AppServer, thread: str, wake_id: str) -> Admission | None:
    """What its turns and its queue show. The queue first: what leaves it in between is then among the turns."""
    queue = _list(await server.call("thread/queue/list", threadId=thread))
    turns = await server.call("thread/turns/list", threadId=thread, limit=_TURNS, itemsView="full")
    for turn in _list(turns):
        items = turn.get("items")
        if any(_field(item, "clientId") == wake_id for item in (items if isinstance(items, list) else [])):
            name = _field(turn, "id")
            outcome = _FINAL.get(_field(turn, "status"), "started")
            error = _field(turn.get("error"), "message")
            return Admission(outcome=outcome, turn=name, detail=f"turn {name} {error}".strip())
    if any(_field(queued, "clientUserMessageId") == wake_id for queued in queue):
        return Admission(outcome="queued", detail="It stands in the queue of its thread.")
    return None


def _in_rollout(session: SessionState, wake_id: str) -> Admission | None:
    seen = trail(session.transcript, session.history, wake_id)
    if not seen.started:
        return None
    outcome = "completed" if seen.ended else "interrupted" if seen.interrupted else "started"
    return Admission(outcome=outcome, turn=seen.turn, detail=seen.started)


def _list(answer: dict[str, Any]) -> list[dict[str, Any]]:
    data = answer.get("data")
    return [item for item in data if isinstance(item, dict)] if isinstance(data, list) else []


def _field(value: Any, name: str) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def waker(limits: Limits) -> CodexWaker:
    """The entry of Codex."""
    return CodexWaker(limits)
