"""Looks for the proof that a body entered the conversation of its reader: in the client's own record of it.

Until it is found `recorded` rests on what was inferred. A small job behind everything else: it holds up nobody, gives
up after a while, and what it was looking for is looked for again after a restart of the host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from tallystick.app.diagnostics import Diagnostics
from tallystick.app.execute import Executor
from tallystick.app.heads import Heads
from tallystick.app.ports import History
from tallystick.core import commands as cmd
from tallystick.core.errors import Refused
from tallystick.core.events import DeliveryRecorded, Recorded, ResultHandedIn, TaskClaimed
from tallystick.core.identity import HOST
from tallystick.store.interface import Store

_WAITS = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0)
_MOST = 1000

PROVABLE = (TaskClaimed, DeliveryRecorded, ResultHandedIn)
"""Events after which a body must stand in the conversation of its reader."""


class _Sought(NamedTuple):
    task_id: str
    delivery_id: str
    session: str
    tries: int = 0


class Proofs:
    """A service. `histories` by client."""

    def __init__(
        self,
        store: Store,
        heads: Heads,
        executor: Executor,
        histories: Mapping[str, History],
        diagnostics: Diagnostics,
    ) -> None:
        self._store = store
        self._heads = heads
        self._executor = executor
        self._histories = histories
        self._diagnostics = diagnostics
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """By delivery."""

    async def start(self) -> None:
        """Look again for what was taken and has not ended."""
        for row in await self._store.query("sessioned"):
            work = await self._heads.work(str(row["task_id"]))
            if work is not None and work.assignment is not None:
                self._seek(_Sought(work.task.task_id, work.assignment.delivery_id, work.task.session))

    async def stop(self) -> None:
        """Look no more."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def committed(self, recorded: Recorded) -> None:
        """A body was handed over, or its reader acted on it: one of `PROVABLE`."""
        event = recorded.event
        if isinstance(event, TaskClaimed) and event.delivery_id:
            self._seek(_Sought(recorded.stream, event.delivery_id, event.session))
        elif isinstance(event, DeliveryRecorded) and event.proof.startswith("inferred"):
            self._seek(_Sought(recorded.stream, event.delivery_id, recorded.actor.session))
        elif isinstance(event, ResultHandedIn):
            work = self._heads.committed_work(recorded.stream)
            if work is not None and work.assignment is not None:
                self._seek(_Sought(recorded.stream, work.assignment.delivery_id, event.session))

    def _seek(self, sought: _Sought) -> None:
        if sought.delivery_id in self._tasks or len(self._tasks) >= _MOST or self._history(sought.session) is None:
            return
        task = asyncio.create_task(self._look(sought), name="proof")
        self._tasks[sought.delivery_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(sought.delivery_id, None))

    def _history(self, session_id: str) -> tuple[History, str] | None:
        """Where the conversation of a session is kept, if its client has such a place."""
        directory = self._heads.committed_directory
        session = directory.sessions.get(session_id)
        if session is None or session.door != "client":
            return None
        agent = directory.agents.get(session.agent)
        history = self._histories.get(agent.client) if agent is not None else None
        return None if history is None else (history, session_id)

    async def _look(self, sought: _Sought) -> None:
        try:
            for wait in _WAITS:
                await asyncio.sleep(wait)
                proof = await self._proof(sought)
                if proof:
                    await self._record(sought, proof)
                    return
        except Exception as error:  # noqa: BLE001 - what cannot be proved stays inferred
            self._diagnostics.failure("proof", error)

    async def _proof(self, sought: _Sought) -> str:
        found = self._history(sought.session)
        session = self._heads.committed_directory.sessions.get(sought.session)
        if found is None or session is None or not session.transcript:
            return ""
        words = (sought.delivery_id, sought.task_id)
        return await asyncio.to_thread(found[0].proof, session.transcript, session.history, words)

    async def _record(self, sought: _Sought, proof: str) -> None:
        record = cmd.RecordDelivery(
            task_id=sought.task_id, delivery_id=sought.delivery_id, witness=sought.session, proof=proof
        )
        try:
            await self._executor.execute(record, HOST)
        except Refused as refusal:
            self._diagnostics.record("proof not recorded", task=sought.task_id, detail=str(refusal))
