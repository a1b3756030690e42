"""Opening the record: fold the directory, make sure that there is an owner and a default workspace, set the clock."""

from __future__ import annotations

import asyncio
import re

from tallystick.app.clock import HighWater
from tallystick.app.execute import Executor
from tallystick.app.heads import Heads
from tallystick.app.ports import NewId
from tallystick.app.recording import until_recorded
from tallystick.core import commands as cmd
from tallystick.core.errors import Refused, unavailable
from tallystick.core.identity import HOST, RESERVED_ALIASES, Prefix
from tallystick.store.interface import EVERY, Store, StoreUnavailableError

_DEFAULT = "default"


class Record:
    """A service: the store with its heads. Started first, stopped last."""

    def __init__(self, store: Store, heads: Heads, clock: HighWater) -> None:
        self._store = store
        self._heads = heads
        self._clock = clock

    async def start(self) -> None:
        """Fold who and where from the log; time goes on from its newest event."""
        try:
            self._clock.not_before(await self._heads.open())
        except StoreUnavailableError as error:
            await self._store.close()
            raise unavailable(
                f"Who and where cannot be read from the log: {error}",
                "Keep a copy of this home as it is, then put tally.db back from a backup.",
            ) from error

    async def stop(self) -> None:
        """Flush and close."""
        await self._store.close()


class FirstThings:
    """A service that runs once: the owner and the default workspace, turns of parties that left."""

    def __init__(self, heads: Heads, executor: Executor, store: Store, new_id: NewId, user: str, uid: int) -> None:
        self._heads = heads
        self._executor = executor
        self._store = store
        self._new_id = new_id
        self._user = user
        self._uid = uid
        self._moving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Make what a new record lacks, and begin to move turns that a stop left behind."""
        if not self._heads.directory.owner:
            await self._join_owner()
        if not any(not w.root for w in self._heads.directory.workspaces.values()):
            workspace_id = self._new_id(Prefix.WORKSPACE)
            command = cmd.RegisterWorkspace(workspace_id=workspace_id, name=_DEFAULT)
            await self._executor.execute(command, HOST, workspace=workspace_id)
        for agent in list(self._heads.directory.agents.values()):
            self.follow_left(agent.agent_id)

    async def stop(self) -> None:
        """Move no more turns; a later start moves what is left."""
        for moving in self._moving:
            moving.cancel()
        await asyncio.gather(*self._moving, return_exceptions=True)

    async def _join_owner(self) -> None:
        alias = re.sub(r"[^a-z0-9-]+", "-", self._user.lower()).strip("-")[:60] or "owner"
        if alias in RESERVED_ALIASES:
            alias = f"{alias}-1"
        person = self._new_id(Prefix.PERSON)
        command = cmd.JoinPerson(person_id=person, alias=alias, owner=True, uid=self._uid, display_name=self._user)
        await self._executor.execute(command, HOST)

    def follow_left(self, agent_id: str) -> None:
        """An agent has left: move its turns behind the commit, also where nothing can be recorded at this moment."""
        task = asyncio.get_running_loop().create_task(self.left(agent_id))
        self._moving.add(task)
        task.add_done_callback(self._moving.discard)

    async def left(self, agent_id: str) -> None:
        """Work out again whose turn it is, for every open task that waits for it in a workspace that it has left."""
        here = self._heads.directory.agents[agent_id].workspaces
        for row in await self._store.query("inbox_turns", party=agent_id, limit=EVERY):
            if row["workspace"] in here:
                continue
            try:
                await until_recorded(self._executor, cmd.MoveTurn(task_id=str(row["task_id"])), HOST)
            except Refused:
                continue  # it was closed meanwhile
