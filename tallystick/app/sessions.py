"""Ends sessions whose client process is gone, and gives back what they held: nobody has to wait for a lease to run out.

A process that only stands still (stopped, swapped out, asleep with the machine) is still there: nothing moves for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tallystick.app.diagnostics import Diagnostics
from tallystick.app.execute import Executor
from tallystick.app.heads import Heads
from tallystick.app.ports import NewId
from tallystick.core import commands as cmd
from tallystick.core.directory import SessionState, sessions_of
from tallystick.core.errors import Refused
from tallystick.core.events import Recorded
from tallystick.core.identity import HOST, Prefix, short
from tallystick.core.limits import Limits
from tallystick.store.interface import Store


class Sessions:
    """A service. `is_alive` tells of a process named as `PID@START` whether it still runs."""

    def __init__(
        self,
        store: Store,
        heads: Heads,
        executor: Executor,
        new_id: NewId,
        limits: Limits,
        is_alive: Callable[[str], bool],
        diagnostics: Diagnostics,
    ) -> None:
        self._store = store
        self._heads = heads
        self._executor = executor
        self._new_id = new_id
        self._limits = limits
        self._is_alive = is_alive
        self._diagnostics = diagnostics
        self._missed: set[str] = set()
        """Sessions whose process was not seen at the last look: twice in a row, and it is gone."""
        self._loop: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()

    async def start(self) -> None:
        """Begin to look."""
        self._loop = asyncio.create_task(self._run(), name="sessions")

    async def stop(self) -> None:
        """Look no more."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

    def ended(self, _recorded: Recorded) -> None:
        """A session ended: look at once at what it held."""
        self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self.once()
            except Exception as error:  # noqa: BLE001 - looked at again at the next round
                self._diagnostics.failure("sessions", error)
            try:
                async with asyncio.timeout(self._limits.sessions_seconds):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def once(self) -> None:
        """End what is gone, and give back what ended sessions hold."""
        gone = {s.session_id: s for s in await asyncio.to_thread(self._gone, self._running())}
        for session in [gone[s] for s in gone if s in self._missed]:
            await self.end(session)
        self._missed = gone.keys() - self._missed
        await self._give_back()

    def _running(self) -> list[SessionState]:
        directory = self._heads.committed_directory
        found = [directory.sessions[s] for mine in directory.open_sessions.values() for s in mine]
        return [session for session in found if session.incarnation.partition("@")[2]]

    def _gone(self, sessions: list[SessionState]) -> list[SessionState]:
        return [session for session in sessions if not self._is_alive(session.incarnation)]

    async def end(self, session: SessionState) -> None:
        """Its process is gone: end it."""
        pid = session.incarnation.partition("@")[0]
        ended = cmd.EndSession(session_id=session.session_id, detail=f"its process {pid} is gone")
        try:
            await self._executor.execute(ended, HOST, workspace=session.workspace)
        except Refused as refusal:
            self._diagnostics.record("session not ended", session=session.session_id, detail=str(refusal))

    async def is_free(self, history: str, agent: str, but: str) -> None:
        """A process says that it goes on with a conversation: whoever had it before and is gone is ended at once."""
        directory = self._heads.committed_directory
        others = [directory.sessions[s] for s in sessions_of(history, agent, directory) if s != but]
        same = [s for s in others if s.incarnation]
        for session in await asyncio.to_thread(self._gone, same):
            await self.end(session)

    async def _give_back(self) -> None:
        sessions = self._heads.committed_directory.sessions
        for row in await self._store.query("sessioned"):
            session = sessions.get(str(row["session"]))
            if session is not None and session.ended:
                await self._lapse(str(row["task_id"]), session)

    async def _lapse(self, task_id: str, session: SessionState) -> None:
        work = await self._heads.work(task_id)
        if work is None or work.task.session != session.session_id or not work.task.lease_until:
            return
        lapse = cmd.LapseLease(
            task_id=task_id,
            delivery_id=self._new_id(Prefix.DELIVERY),
            fence=work.task.fence,
            detail=f"The session {short(session.session_id)} that held it has ended.",
        )
        try:
            await self._executor.execute(lapse, HOST)
        except Refused:
            return  # it waits for an answer or a check, or was pushed: what comes next for it says so
