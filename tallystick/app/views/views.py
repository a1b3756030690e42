"""`Views`: every question that may be asked of the record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from tallystick.app.clock import HighWater
from tallystick.app.desk import forms
from tallystick.app.feed import Feed
from tallystick.app.heads import Heads
from tallystick.app.ports import Blobs
from tallystick.app.presence import Presence
from tallystick.app.views import lists, people, show, tasks
from tallystick.core import events as ev
from tallystick.core.directory import Agent, Directory
from tallystick.core.errors import Refused, invalid, not_found
from tallystick.core.fold import evolve
from tallystick.core.identity import HOST_ID, short
from tallystick.core.limits import Limits
from tallystick.core.state import Work
from tallystick.store.interface import Store

_PAGE = 500
_CONTEXT_BYTES = 16 * 1024


class Views:
    """Reads what is committed: from the heads where it is in memory. `sees` tells what a reader may see."""

    def __init__(
        self,
        store: Store,
        heads: Heads,
        presence: Presence,
        clock: HighWater,
        feed: Feed,
        blobs: Blobs,
        limits: Limits,
        sandbox: Callable[[], str],
    ) -> None:
        self._store = store
        self._heads = heads
        self._presence = presence
        self._clock = clock
        self._feed = feed
        self._blobs = blobs
        self._limits = limits
        self._sandbox = sandbox

    def _directory(self) -> Directory:
        return self._heads.committed_directory

    # --- tasks --------------------------------------------------------------------------------------------------

    async def history(self, task_id: str) -> list[ev.Recorded]:
        """A task's events in order; refused if there is none."""
        found = self._heads.histories.of(task_id) or await self._store.load(task_id)
        if not found:
            raise absent(task_id)
        return found

    async def work(self, task_id: str) -> Work:
        """The task as committed."""
        return fold(await self.history(task_id))

    async def outcome(self, task_id: str) -> forms.Outcome:
        """What has become of a task so far."""
        history = await self.history(task_id)
        return tasks.outcome(self._folded(task_id, history), history, self._directory())

    def _folded(self, task_id: str, history: list[ev.Recorded]) -> Work:
        """A task as of the last of its events: as it is in memory, if it is that one."""
        work = self._heads.committed_work(task_id)
        return work if work is not None and work.task.version == history[-1].version else fold(history)

    async def show(self, task_id: str) -> forms.Shown:
        """Everything about a task."""
        history = await self.history(task_id)
        children = self._heads.children.committed(task_id)
        if children is None:
            children = tuple(str(row["task_id"]) for row in await self._store.query("children", parent=task_id))
        return tasks.shown(
            self._folded(task_id, history),
            history,
            self._directory(),
            now=self._clock.now(),
            children=children,
            blobs=self._blobs,
        )

    async def newer(self, task_id: str, version: int, seconds: float) -> None:
        """Returns as soon as the task is newer than `version`, or after `seconds`."""
        newer = self._feed.next_of(task_id, version)
        if await self._version(task_id) > version:
            newer.cancel()
            return
        late = asyncio.get_running_loop().call_later(seconds, _wake, newer)
        try:
            await newer
        finally:
            late.cancel()

    async def _version(self, task_id: str) -> float:
        """The version of a task; without a bound where there is no such task."""
        known = self._heads.committed_work(task_id)
        if known is not None:
            return known.task.version
        rows = await self._store.query("task", task_id=task_id)
        return int(rows[0]["version"] or 0) if rows else inf

    async def follow(self, task_id: str, done: Callable[[forms.Shown], bool]) -> AsyncIterator[forms.Shown]:
        """The task now and after each further event, until `done` says so."""
        while True:
            changed = self._feed.next_of(task_id)
            shown = await self.show(task_id)
            yield shown
            if done(shown):
                changed.cancel()
                return
            await changed

    async def find(self, typed: str, sees: Callable[[str], bool]) -> str:
        """The task that a whole id, or a unique prefix or suffix of 4 or more characters, names for this reader."""
        text = typed.strip()
        bare = text[4:] if text.lower().startswith("tsk_") else text
        if len(bare) < 4:
            raise invalid(f"{typed!r} is too short for an id.", "Type at least 4 characters of its beginning or end.")
        rows = await self._store.query("tasks_prefix", prefix=f"tsk_{bare.upper()}", limit=20)
        rows = [*rows, *await self._store.query("tasks_tail", tail=bare[::-1].lower(), limit=20)]
        found = sorted({str(row["task_id"]) for row in rows if sees(str(row["workspace"]))})
        if not found:
            raise absent(text)
        if len(found) > 1:
            names = ", ".join(short(t) for t in found[:5])
            raise invalid(f"{typed!r} is not unique: {names}.", "Type more characters of the one you mean.")
        return found[0]

    async def newest(self, party: str) -> str:
        """The newest task that a party has to do with; empty if none."""
        rows = await self._store.query("newest", party=party)
        return str(rows[0]["task_id"]) if rows else ""

    # --- lists --------------------------------------------------------------------------------------------------

    async def inbox(self, party: str) -> forms.Inbox:
        """Turns and notices of a party."""
        directory, now = self._directory(), self._clock.now()
        turns, notices = [], []
        for row in await self._store.query("inbox_turns", party=party, limit=_PAGE):
            history = await self.history(str(row["task_id"]))
            turns.append(lists.turn(row, fold(history).task, history, directory, now, self._limits))
        for row in await self._store.query("inbox_notices", party=party, limit=_PAGE):
            history = await self.history(str(row["task_id"]))
            notices.append(lists.notice(row, fold(history).task, history, directory, now))
        return forms.Inbox(turns=tuple(turns), notices=tuple(notices))

    async def news(self, party: str, limit: int) -> list[forms.InboxItem]:
        """A few of the things that a party has not looked at."""
        directory, now = self._directory(), self._clock.now()
        found = []
        for row in await self._store.query("news", party=party, limit=limit):
            history = await self.history(str(row["task_id"]))
            found.append(lists.turn(row, fold(history).task, history, directory, now, self._limits))
        for row in await self._store.query("inbox_notices", party=party, limit=limit - len(found)):
            history = await self.history(str(row["task_id"]))
            found.append(lists.notice(row, fold(history).task, history, directory, now))
        return found

    async def is_new(self, party: str, task_id: str) -> bool:
        """Whether a task holds something that this party has not seen yet."""
        rows = await self._store.query("seen", party=party, task_id=task_id)
        if not rows:
            return False
        row = rows[0]
        mine = row["turn"] == party and row["open"]
        return bool(row["unread"]) or bool(mine and int(row["turn_version"] or 0) > int(row["seen"] or 0))

    async def unseen(self, party: str) -> int:
        """What a hint counts: turns with something new, and unread notices."""
        rows = await self._store.query("unseen", party=party)
        return int(rows[0]["count"] or 0)

    async def board(self, workspace: str, *, everything: bool) -> forms.Board:
        """Open tasks of a workspace (empty: of all), or all tasks, newest first."""
        if workspace:
            name = "board_all" if everything else "board"
            rows = await self._store.query(name, workspace=workspace, limit=_PAGE)
        else:
            rows = await self._store.query("board_every_all" if everything else "board_every", limit=_PAGE)
        return self._board(rows)

    async def failed(self, sees: Callable[[str], bool]) -> forms.Board:
        """Failed and unverified tasks with why, newest first."""
        rows = await self._store.query("failed", limit=_PAGE)
        board = self._board([row for row in rows if sees(str(row["workspace"]))])
        told = [tasks.why(await self.history(task.task_id)) for task in board.tasks]
        return forms.Board(
            tasks=tuple(msgspec.structs.replace(task, why=said) for task, said in zip(board.tasks, told, strict=True))
        )

    def _board(self, rows: list[lists.Cells]) -> forms.Board:
        directory, now = self._directory(), self._clock.now()
        return forms.Board(tasks=tuple(lists.board_task(row, directory, now) for row in rows))

    async def permissions(self, sees: Callable[[str], bool]) -> forms.Permissions:
        """What waits for a person's yes: permissions, and tasks held by an inbound policy."""
        now = self._clock.now()
        found = [
            forms.PermissionShown(
                permission_id=str(row["permission_id"]),
                task_id=str(row["task_id"]),
                title=str(row["title"]),
                action=str(row["action"]),
                digest=str(row["digest"]),
                age=round(now - float(row["requested_at"] or now), 3),
                kind="permission",
            )
            for row in await self._store.query("permissions", limit=_PAGE)
            if sees(str(row["workspace"]))
        ]
        rows = await self._store.query("board_every", limit=_PAGE)
        found += [self._held(row, now) for row in rows if row["reason"] == "inbound" and sees(str(row["workspace"]))]
        return forms.Permissions(permissions=tuple(found))

    def _held(self, row: lists.Cells, now: float) -> forms.PermissionShown:
        directory = self._directory()
        return forms.PermissionShown(
            permission_id=str(row["task_id"]),
            task_id=str(row["task_id"]),
            title=str(row["title"]),
            action=f"let in a task from {show.who(str(row['requester']), directory)} "
            f"for {show.who(str(row['assignee']), directory)}",
            digest="",
            age=round(now - float(row["updated_at"] or now), 3),
            kind="inbound",
        )

    # --- events -------------------------------------------------------------------------------------------------

    async def trace(self, trace: str, sees: Callable[[str], bool]) -> forms.Lines:
        """Every event of a trace, one line each, across agents."""
        found: list[ev.Recorded] = []
        after = 0
        while page := await self._store.tail(after, _PAGE, trace=trace):
            found += [r for r in page if sees(r.workspace)]
            after = page[-1].position
        if not found:
            raise not_found(f"There is no trace {short(trace)} here.", "Find it with `tally show ID`.")
        return forms.Lines(events=show.lines(found, self._directory()))

    async def refusal(self, typed: str, sees: Callable[[str], bool]) -> str:
        """The trace that an end of 4 or more characters names among those of what was refused; empty for none."""
        end, after, found = typed.strip()[4:].upper(), 0, set[str]()
        while len(end) >= 4 and (
            page := await self._store.tail(after, _PAGE, stream_prefix=HOST_ID, types=("CommandRefused",))
        ):
            found |= {r.trace for r in page if r.trace.endswith(end) and sees(r.workspace)}
            after = page[-1].position
        if len(found) > 1:
            names = ", ".join(sorted(found)[:5])
            raise invalid(f"{typed!r} is not unique: {names}.", "Type the whole id of the one you mean.")
        return found.pop() if found else ""

    async def activity(self, after: int, limit: int, sees: Callable[[str], bool]) -> forms.Lines:
        """The newest events, oldest of them first; `after` a position: what came since."""
        start = after or max(0, self._feed.position - limit * 4)
        found: list[ev.Recorded] = []
        while page := await self._store.tail(start, _PAGE):
            found += [r for r in page if sees(r.workspace)]
            start = page[-1].position
            if after and len(found) >= limit:
                break
        found = found[:limit] if after else found[-limit:]
        return forms.Lines(events=show.lines(found, self._directory()))

    async def feed(self, after: int, sees: Callable[[str], bool]) -> AsyncIterator[forms.Line]:
        """Events as they come."""
        while True:
            changed = self._feed.next()
            for recorded in await self._store.tail(after, _PAGE):
                after = recorded.position
                if sees(recorded.workspace):
                    yield show.lines([recorded], self._directory())[0]
            if self._feed.position <= after:
                await changed

    # --- people and places --------------------------------------------------------------------------------------

    async def agent(self, found: Agent, workspace: str) -> forms.AgentShown:
        """One agent, with its track record."""
        record = people.track_record(await self._store.query("outcomes", agent=found.agent_id, limit=1000))
        rows = await self._store.query("assigned_count", party=found.agent_id)
        return people.agent(
            found,
            workspace,
            self._directory(),
            self._presence,
            record,
            open_tasks=int(rows[0]["count"] or 0),
            sandbox=self._sandbox(),
        )

    async def agents(self, workspace: str) -> forms.Agents:
        """The members of a workspace and what its `CONTEXT.md` says."""
        directory = self._directory()
        shown = [await self.agent(a, workspace) for a in directory.members(workspace)]
        place = directory.workspaces.get(workspace)
        return forms.Agents(agents=tuple(shown), context=_context(place.root) if place and place.root else "")

    def workspaces(self, visible: list[str], current: str) -> forms.Workspaces:
        """The workspaces a reader sees."""
        directory = self._directory()
        found = sorted((directory.workspaces[w] for w in visible), key=lambda w: w.name)
        shown = [people.workspace(w, directory, current=w.workspace_id == current) for w in found]
        return forms.Workspaces(workspaces=tuple(shown))

    def checks(self, workspace: str) -> forms.Checks:
        """The registered checks of a workspace."""
        place = self._directory().workspaces[workspace]
        return forms.Checks(checks=tuple(people.check(spec) for _, spec in place.checks))

    async def commit_tasks(self, repository: str, commit: str) -> list[str]:
        """The tasks that a commit was made under."""
        rows = await self._store.query("commit", repository=repository, commit_id=commit)
        return [str(row["task_id"]) for row in rows]

    async def rows(self, name: str, **values: Any) -> list[lists.Cells]:
        """A named query, for those who need no more."""
        return await self._store.query(name, **values)


def fold(history: list[ev.Recorded]) -> Work:
    """The work after these events."""
    work: Work | None = None
    for recorded in history:
        work = evolve(work, recorded)
    if work is None:
        raise ValueError("no events")
    return work


def absent(typed: str) -> Refused:
    """Absent and not visible are told in the same words."""
    return not_found(
        f"There is no task {short(typed)} here.",
        "List what is there with `tally board`, or name its workspace with --workspace.",
    )


def _context(root: str) -> str:
    """The workspace's CONTEXT.md: read without following a link, up to a cap."""
    path = Path(root) / "CONTEXT.md"
    try:
        if path.is_symlink() or not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_CONTEXT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _wake(waiter: asyncio.Future[None]) -> None:
    """Let whoever waits look for itself."""
    if not waiter.done():
        waiter.set_result(None)
