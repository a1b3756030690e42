"""Waking OpenCode by its HTTP API: `prompt_async` to a session that is idle. Its messages show what became of it.

No message id of ours is given: they sort by time, and invented ones broke the order of its messages. The id of the wake
stands in the text. That it answered 204 says that it took the prompt, no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from tallystick.app.ports import Admission, Summons
from tallystick.core.directory import Agent, SessionState
from tallystick.core.errors import Refused
from tallystick.core.limits import Limits
from tallystick.edge.clients.opencode.server import ask, port_of

_LOOK_SECONDS = 0.5


class OpenCodeWaker:
    """Implements `app.ports.Waker`."""

    def __init__(self, limits: Limits, port: Callable[[str], int] = port_of) -> None:
        self._limits = limits
        self._port = port

    async def reachable(self, agent: Agent, session: SessionState | None) -> bool:  # noqa: ARG002 - the session tells
        """Whether its server answers and that session is idle."""
        try:
            return session is not None and await asyncio.to_thread(self._is_idle, session)
        except Refused:
            return False

    async def wake(self, summons: Summons) -> Admission:
        """Give it the prompt."""
        session = summons.session
        try:
            if session is None or not await asyncio.to_thread(self._is_idle, session):
                return Admission(outcome="busy", detail="It is in a turn, or its server does not answer.")
            status, _ = await asyncio.to_thread(self._prompt, session, summons.text)
        except Refused as refusal:
            return Admission(outcome="refused", detail=refusal.message)
        if status >= 400:
            return Admission(outcome="refused", detail=f"Its server answered {status}.")
        return Admission(outcome="queued", detail=f"Its server answered {status}.")

    async def outcome(self, summons: Summons) -> Admission:
        """Look among the messages of the session."""
        session, wake = summons.session, summons.wake
        if session is None:
            return Admission(outcome="unverified", detail="Its session has ended.")
        loop = asyncio.get_running_loop()
        until = loop.time() + self._limits.wake_proof_seconds
        while True:
            try:
                seen = _seen(await asyncio.to_thread(self._messages, session), wake.wake_id)
                if seen is not None and seen.outcome != wake.outcome:
                    is_late = wake.outcome in ("intended", "queued") and seen.outcome != "started"
                    return Admission(outcome="started", turn=seen.turn, detail=seen.detail) if is_late else seen
                if seen is not None:
                    until = loop.time() + self._limits.wake_proof_seconds
                elif wake.outcome == "intended":
                    return Admission(outcome="unverified", detail="Its messages do not show it.")
            except Refused:
                pass  # it is asked again until the time is over
            if loop.time() > until:
                return Admission(outcome="unverified", detail="Its messages do not show it, or nobody answers.")
            await asyncio.sleep(_LOOK_SECONDS)

    async def end(self, summons: Summons) -> bool:  # noqa: ARG002
        """Nothing runs because of it but a turn in a session of a person: that is theirs."""
        return False

    def _is_idle(self, session: SessionState) -> bool:
        port = self._port(session.incarnation) if session.history else 0
        if not port or ask(port, "GET", f"/session/{quote(session.history, safe='')}")[0] != 200:
            return False
        _, busy = ask(port, "GET", "/session/status")
        status = busy.get(session.history) if isinstance(busy, dict) else None
        return not isinstance(status, dict) or status.get("type") == "idle"

    def _prompt(self, session: SessionState, text: str) -> tuple[int, Any]:
        path = f"/session/{quote(session.history, safe='')}/prompt_async"
        return ask(self._port(session.incarnation), "POST", path, {"parts": [{"type": "text", "text": text}]})

    def _messages(self, session: SessionState) -> list[Any]:
        path = f"/session/{quote(session.history, safe='')}/message"
        _, found = ask(self._port(session.incarnation), "GET", path)
        return found if isinstance(found, list) else []


def _seen(messages: list[Any], wake_id: str) -> Admission | None:
    """The message that holds our words, and how the answers to it ended."""
    mine = next((_info(m) for m in reversed(messages) if _info(m).get("role") == "user" and wake_id in _text(m)), None)
    if mine is None:
        return None
    turn = str(mine.get("id", ""))
    answers = [_info(m) for m in messages if _info(m).get("parentID") == turn]
    last = answers[-1] if answers else {}
    error, time = last.get("error"), last.get("time")
    if isinstance(error, dict):
        how = "interrupted" if error.get("name") == "MessageAbortedError" else "failed"
        return Admission(outcome=how, turn=turn, detail=str(error.get("name"))[:200])
    done = isinstance(time, dict) and time.get("completed") and last.get("finish") not in ("tool-calls", None)
    return Admission(outcome="completed" if done else "started", turn=turn, detail=f"message {turn}")


def _info(message: Any) -> dict[str, Any]:
    info = message.get("info") if isinstance(message, dict) else None
    return info if isinstance(info, dict) else {}


def _text(message: dict[str, Any]) -> str:
    parts = message.get("parts")
    return "\n".join(str(p.get("text", "")) for p in parts if isinstance(p, dict)) if isinstance(parts, list) else ""


def waker(limits: Limits) -> OpenCodeWaker:
    """The entry of OpenCode."""
    return OpenCodeWaker(limits)
