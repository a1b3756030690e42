"""What clients' hooks say of turns and conversations, and what is watched for an agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tallystick.app.desk.ground import Ground
from tallystick.app.desk.interface import Guest
from tallystick.core import commands as cmd
from tallystick.core.directory import SessionState


class Waking(Ground):
    """Turns, waiting hooks, conversations, watches."""

    async def link_conversation(self, guest: Guest, history: str, transcript: str) -> None:
        """Which conversation of its client the caller's session is. Refused where another process that still runs has
        it open; one that is gone is ended first."""
        session = self._client_session(guest)
        if session is None or (session.history, session.transcript) == (history, transcript):
            return
        if history:
            await self.s.sessions.is_free(history, session.agent, session.session_id)
        command = cmd.LinkSession(session_id=session.session_id, history=history, transcript=transcript)
        await self.s.executor.execute(command, guest.actor, workspace=session.workspace)

    async def turn_began(self, guest: Guest) -> None:
        """A hook of the caller's session says that a turn begins: it sees what is new without being woken."""
        if self._client_session(guest) is not None:
            self.s.turns.began(guest.actor.session)

    async def turn_ended(self, guest: Guest) -> None:
        """A hook of the caller's session says that its turn is over."""
        if self._client_session(guest) is not None:
            self.s.turns.ended(guest.actor.session)

    async def wait_to_be_woken(self, guest: Guest, seconds: float, gone: Callable[[], Awaitable[None]]) -> str:
        """A hook of the caller's session waits: the text that wakes it, or nothing once its time is over, `gone`
        returned, another hook of the same session came, or the session ended."""
        if self._client_session(guest) is None or guest.read_only:
            return ""
        return await self.s.turns.wait(guest.actor.session, seconds, gone)

    def _client_session(self, guest: Guest) -> SessionState | None:
        session = self.directory.sessions.get(guest.actor.session)
        return session if session is not None and session.door == "client" and not session.ended else None


