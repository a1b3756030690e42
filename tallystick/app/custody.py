"""What keeps the record safe and readable around the write path: recovery at start, the background check, archiving,
hints, `board.json`, and the note of what was refused."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tallystick.app.clock import HighWater
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.execute import Executor
from tallystick.app.failpoints import Reached, unmoved
from tallystick.app.heads import Heads
from tallystick.app.views import Views
from tallystick.core import commands as cmd
from tallystick.core.clients import CLIENTS
from tallystick.core.directory import Directory
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.identity import CAPABILITY_PREFIX, HOST, ActorKind
from tallystick.core.limits import Limits
from tallystick.core.rows import AgentRow, NoticeRow, Row, SeenRow, TaskRow
from tallystick.store.interface import Entry, Maintenance, Store

_FIRST_LOOK = 1000
_PAGE = 250
_BREATHS = 4
_BOARD_SECONDS = 1.0
_BOARD_RESTS = 100
_ARCHIVE_SECONDS = 60.0
_REFUSAL_SECONDS = 60.0
_NOTED = frozenset({ErrorCode.NO_ROUTE, ErrorCode.OFFLINE, ErrorCode.DENIED, ErrorCode.CONFLICT})


class Custody:
    """A service: starts after the executor, stops before it."""

    def __init__(
        self,
        home: Path,
        store: Store,
        maintenance: Maintenance,
        heads: Heads,
        executor: Executor,
        views: Views,
        clock: HighWater,
        limits: Limits,
        diagnostics: Diagnostics,
        version: str,
        reached: Reached = unmoved,
    ) -> None:
        self._home = home
        self._store = store
        self._maintenance = maintenance
        self._heads = heads
        self._executor = executor
        self._views = views
        self._clock = clock
        self._limits = limits
        self._diagnostics = diagnostics
        self._version = version
        self._reached = reached
        self._tasks: list[asyncio.Task[None]] = []
        self._board_changed = asyncio.Event()
        self.damaged = ""

    # --- start and stop -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Check the newest events, note the start, raise the fences of what was held; the rest goes on behind."""
        position, _ = await self._maintenance.head()
        if await self._check(max(0, position - _FIRST_LOOK), None):
            return
        boot, known = self._clock.clock.boot_id(), await self._store.tail(0, 1, stream_prefix="host")
        started = cmd.StartHost(host_version=self._version, boot_id=boot, recovered=bool(known))
        await self._executor.execute(started, HOST)
        self._reached("custody.after_start")
        await self._raise_fences()
        self._reached("custody.after_recovery")
        self._tasks = [
            asyncio.create_task(self._check_rest(max(0, position - _FIRST_LOOK)), name="check"),
            asyncio.create_task(self._keep_board(), name="board"),
            asyncio.create_task(self._keep_archive(), name="archive"),
        ]

    async def stop(self) -> None:
        """End what goes on behind."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _raise_fences(self) -> None:
        """Whoever held something before gets one full lease; older fences are stale from here on."""
        rows = await self._store.query("sessioned")
        commands = [cmd.RecoverLease(task_id=str(row["task_id"])) for row in rows]
        results = await asyncio.gather(*map(self._recover, commands), return_exceptions=True)
        failed = [r for r in results if isinstance(r, BaseException) and not isinstance(r, Refused)]
        if failed:
            raise failed[0]

    async def _recover(self, command: cmd.RecoverLease) -> None:
        await self._executor.execute(command, HOST)
        self._reached("custody.mid_recovery")

    # --- the chain ----------------------------------------------------------------------------------------------

    async def _check(self, after: int, limit: int | None) -> bool:
        damage = await self._maintenance.scan(after, limit)
        if not damage:
            return False
        self.damaged = f"event {damage[0].position}: {damage[0].detail}"
        self._maintenance.readonly(f"The log is damaged at {self.damaged}")
        self._diagnostics.record("log damaged", position=damage[0].position, detail=damage[0].detail)
        return True

    async def _check_rest(self, until: int) -> None:
        after = 0
        try:
            while after < until:
                began = self._clock.clock.boot()
                if await self._check(after, min(_PAGE, until - after)):
                    return
                after += _PAGE
                # Whoever waits for an answer goes first: the check takes a fifth of the time at most.
                await asyncio.sleep(_BREATHS * (self._clock.clock.boot() - began))
        except Exception as error:  # noqa: BLE001 - a check that cannot be done is told, not believed
            self._diagnostics.failure("background check", error)

    # --- archive ------------------------------------------------------------------------------------------------

    async def _keep_archive(self) -> None:
        while True:
            try:
                rows = await self._store.query("archivable", limit=1000)
                if rows:
                    count = await self._maintenance.archive([str(row["trace"]) for row in rows])
                    self._diagnostics.record("archived", traces=len(rows), events=count)
            except Exception as error:  # noqa: BLE001 - archiving is tried again
                self._diagnostics.failure("archive", error)
                rows = []
            if len(rows) < 1000:
                await self._erase_outworn()
                await asyncio.sleep(_ARCHIVE_SECONDS)

    async def _erase_outworn(self) -> None:
        """Words of traces that were settled long ago are not kept for ever; what happened stays in the log."""
        before = self._clock.now() - self._limits.body_retention_seconds
        try:
            for row in await self._store.query("outworn", before=before, limit=100):
                task_id = str(row["task_id"])
                await self._maintenance.erase(task_id)
                self._heads.forget(task_id)
                await self._executor.execute(cmd.EraseTexts(task_id=task_id), HOST)
        except Exception as error:  # noqa: BLE001 - tried again at the next round
            self._diagnostics.failure("retention", error)

    # --- board.json ---------------------------------------------------------------------------------------------

    async def _keep_board(self) -> None:
        """A derived, readable snapshot of the open tasks, at most once a second: less often the longer one takes."""
        while True:
            self._board_changed.clear()
            took = 0.0
            try:
                took = await self._write_board()
            except Exception as error:  # noqa: BLE001 - a snapshot that failed is made again at the next change
                self._diagnostics.failure("board.json", error)
            await asyncio.sleep(board_rests(took))
            await self._board_changed.wait()

    async def _write_board(self) -> float:
        """Returns the seconds of the loop's time that it took."""
        began = self._clock.clock.boot()
        board = msgspec.json.encode(await self._views.board("", everything=False))
        took = self._clock.clock.boot() - began
        await asyncio.to_thread(_replace, self._home / "board.json", board)
        return took

    def task_changed(self, _row: TaskRow) -> None:
        """The snapshot is behind."""
        self._board_changed.set()


class Hints:
    """One small file per coding client with the number of things unseen by the agents bound to it, for hooks that must
    cost nothing.

    Raised before the commit and lowered after it, so a hint never says less than the log; counted anew at start.
    """

    def __init__(
        self,
        home: Path,
        path_of: Callable[[str, str], str],
        heads: Heads,
        views: Views,
        diagnostics: Diagnostics,
    ) -> None:
        self._home = home
        self._path_of = path_of
        self._heads = heads
        self._views = views
        self._diagnostics = diagnostics
        self._dirty: set[str] = set()
        self._clients: dict[str, str] = {}
        self._looked_in: Directory | None = None
        self._raised: set[str] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Remove all hints (a missing one means: look), then count anew and keep them."""
        await asyncio.to_thread(_empty, Path(self._path_of(str(self._home), "x")).parent)
        self._dirty.update(CLIENTS)
        self._wake.set()
        self._task = asyncio.create_task(self._run(), name="hints")

    async def stop(self) -> None:
        """Leave no hint behind that nobody keeps."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(_empty, Path(self._path_of(str(self._home), "x")).parent)

    def before_commit(self, batch: list[Entry]) -> None:
        """Raise the hint of every client whose agent is about to have something new."""
        clients = self._clients_in(self._heads.directory)
        if clients:
            for entry in batch:
                for row in entry.rows:
                    if not isinstance(row, SeenRow) and (client := clients.get(_party(row))):
                        self._raise(client)

    def _clients_in(self, directory: Directory) -> dict[str, str]:
        """The agents that have a client, and which: looked for again when somebody has changed."""
        if self._looked_in is not directory:
            self._looked_in = directory
            self._clients = {agent.agent_id: agent.client for agent in directory.agents.values() if agent.client}
        return self._clients

    def _raise(self, client: str) -> None:
        self._dirty.add(client)
        if client in self._raised:
            return
        self._raised.add(client)
        path = Path(self._path_of(str(self._home), client))
        try:
            _replace(path, b"1\n", lasting=False)
        except OSError:
            path.unlink(missing_ok=True)  # no hint means: look

    def inbox_changed(self, row: TaskRow | NoticeRow | SeenRow) -> None:
        """Count again for the client of whoever's inbox a row changes."""
        clients = self._clients_in(self._heads.committed_directory)
        if client := clients.get(_party(row)):
            self._dirty.add(client)
        if self._dirty:
            self._wake.set()

    def agent_changed(self, _row: AgentRow) -> None:
        """Count again for all clients: agents may have come, gone, or changed theirs."""
        self._dirty.update(CLIENTS, self._clients_in(self._heads.committed_directory).values())
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for client in list(self._dirty):
                self._dirty.discard(client)
                try:
                    await self._lower(client)
                except Exception as error:  # noqa: BLE001 - it says too much until it is counted at the next change
                    self._diagnostics.failure("hints", error)
                    self._dirty.add(client)

    async def _lower(self, client: str) -> None:
        self._raised.discard(client)
        agents = self._heads.committed_directory.agents.values()
        count = sum([await self._views.unseen(agent.agent_id) for agent in agents if agent.client == client])
        if client in self._raised:
            return  # something came meanwhile: the next round counts it
        path = Path(self._path_of(str(self._home), client))
        try:
            _replace(path, f"{count}\n".encode(), lasting=False)
        except OSError:
            await asyncio.to_thread(path.unlink, True)  # no hint means: look


def board_rests(took: float) -> float:
    """Seconds to the next board after one that took so many to make: a hundredth of the time at most goes to boards."""
    return max(_BOARD_SECONDS, _BOARD_RESTS * took)


def _party(row: Row) -> str:
    """Whose inbox a row changes."""
    if isinstance(row, TaskRow):
        return row.turn
    return row.party if isinstance(row, NoticeRow | SeenRow) else ""


class Refusals:
    """Records what was refused to authenticated actors: at most once a minute per actor, object and trace."""

    def __init__(self, executor: Executor, clock: HighWater) -> None:
        self._executor = executor
        self._clock = clock
        self._last: dict[tuple[str, ...], float] = {}
        self._missed: dict[tuple[str, ...], int] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def refused(self, waiting: Any, refusal: Refused) -> None:
        """Note one refusal, without ever holding up the write path."""
        if refusal.code not in _NOTED or waiting.actor.kind is ActorKind.HOST:
            return
        target = getattr(waiting.command, "task_id", "") or getattr(waiting.command, "agent_id", "")
        if isinstance(waiting.command, cmd.SubmitTask):
            target = waiting.command.assignee
        # A message that finds no holder has a trace of its own, and says there why it ended.
        trace = waiting.command.trace if target.startswith(CAPABILITY_PREFIX) else ""
        key = (waiting.actor.id, target, refusal.code.value, trace)
        now = self._clock.clock.boot()
        if now - self._last.get(key, -_REFUSAL_SECONDS) < _REFUSAL_SECONDS:
            self._missed[key] = self._missed.get(key, 0) + 1
            return
        self._last[key] = now
        note = cmd.NoteRefusal(
            command=type(waiting.command).__name__,
            code=refusal.code.value,
            object=target,
            message=refusal.message[:500],
            count=self._missed.pop(key, 0) + 1,
        )
        if len(self._last) > 10_000:
            self._last.clear()
        trace = refusal.trace = getattr(waiting.command, "trace", "")
        workspace = getattr(waiting.command, "workspace", "")
        task = asyncio.get_running_loop().create_task(self._note(note, waiting.actor, trace, workspace))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _note(self, note: cmd.NoteRefusal, actor: Any, trace: str, workspace: str) -> None:
        try:
            await self._executor.execute(note, actor, trace=trace, workspace=workspace)
        except Refused:
            return  # the host is stopping or the disk is full: the caller was told anyway


def _replace(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """The whole file or the old one, never half."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if lasting:
            file.flush()
    temporary.replace(path)


def _empty(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_file():
            path.unlink(missing_ok=True)
