"""The verbs of those who look. A notice is no read; what was shown counts once the reader acknowledged it."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from tallystick.app.desk import forms
from tallystick.app.desk.ground import Ground
from tallystick.app.desk.interface import Guest
from tallystick.app.views import show
from tallystick.core import commands as cmd
from tallystick.core.directory import Workspace
from tallystick.core.errors import Refused, invalid, not_found
from tallystick.core.identity import ActorKind, short
from tallystick.core.model import FINAL_STATES

_SHOWN_KEPT = 10_000
"""What readers were last shown is kept in memory; who was shown more since looks again."""


class Reading(Ground):
    """inbox, show, follow, board, trace, activity, failed, why, agents, whoami, workspaces."""

    async def inbox(self, guest: Guest) -> forms.Inbox:
        """Whose turn it is: mine."""
        return await self.s.views.inbox(guest.actor.id)

    async def saw_inbox(self, guest: Guest, inbox: forms.Inbox) -> None:
        """Items shown count as seen; an event only if one was new."""
        shown = [i.task_id for i in (*inbox.turns, *inbox.notices)]
        if shown:
            self.remember(guest, max(shown))
        if guest.read_only:
            return
        now = await self.inbox(guest)  # what was shown is only said: it may be old, of others, or made up
        new = {i.task_id: i.version for i in (*now.turns, *now.notices) if i.new}
        saw = ((i.task_id, min(i.version, new[i.task_id])) for i in (*inbox.turns, *inbox.notices) if i.task_id in new)
        await self._saw(guest, tuple(saw))

    async def saw_outcomes(self, guest: Guest, items: tuple[tuple[str, int], ...]) -> None:
        """A program acknowledged that it has these outcomes."""
        await self._saw(guest, items)

    async def _saw(self, guest: Guest, items: tuple[tuple[str, int], ...]) -> None:
        if not items or guest.read_only:
            return
        command = cmd.MarkSeen(party=guest.actor.id, items=items)
        await self.s.executor.execute(command, guest.actor)

    async def show(self, guest: Guest, task: str) -> forms.Shown:
        """Everything about a task."""
        task_id = await self.task_id(guest, task)
        shown = await self.s.views.show(task_id)
        waits_for = self.s.routing.waits_for(await self.s.views.work(task_id)) if shown.capability else ""
        return msgspec.structs.replace(shown, waits_for=waits_for)

    async def wait(self, guest: Guest, task: str, *, version: int, seconds: float) -> forms.Shown:
        """The task as soon as it is newer than `version`, or as it is after `seconds`."""
        task_id = await self.task_id(guest, task)
        await self.s.views.newer(task_id, version, min(seconds, self.s.limits.wait_seconds))
        return await self.s.views.show(task_id)

    async def outcome(self, guest: Guest, task: str, *, version: int, seconds: float) -> forms.Outcome:
        """As `wait`, but only what became of it."""
        task_id = await self.task_id(guest, task)
        await self.s.views.newer(task_id, version, min(seconds, self.s.limits.wait_seconds))
        return await self.s.views.outcome(task_id)

    async def saw(self, guest: Guest, shown: forms.Shown) -> None:
        """The reader acknowledged a `show` after its flush."""
        self._shown_revision[guest.actor.id, shown.task_id] = shown.revision
        if len(self._shown_revision) > _SHOWN_KEPT:
            del self._shown_revision[next(iter(self._shown_revision))]
        if await self.s.views.is_new(guest.actor.id, shown.task_id):
            await self._saw(guest, ((shown.task_id, shown.version),))

    async def follow(self, guest: Guest, task: str) -> AsyncIterator[forms.Shown]:
        """The task now and after each further event, ending once it is closed or waits for the follower."""
        task_id = await self.task_id(guest, task)
        me = self.directory.alias_of(guest.actor.id)

        def done(shown: forms.Shown) -> bool:
            closed = shown.state in FINAL_STATES
            return closed or (shown.turn == me and shown.state in ("input_required", "auth_required"))

        async for shown in self.s.views.follow(task_id, done):
            yield shown

    async def board(self, guest: Guest, *, everything: bool = False) -> forms.Board:
        """Open tasks here; for a person outside of any workspace, of all."""
        place = self.directory.workspaces[guest.workspace]
        person = guest.actor.kind is ActorKind.PERSON
        return await self.s.views.board("" if person and not place.root else place.workspace_id, everything=everything)

    async def failed(self, guest: Guest) -> forms.Board:
        """Failed and unverified tasks."""
        return await self.s.views.failed(self.sees(guest))

    async def trace(self, guest: Guest, identifier: str) -> forms.Lines:
        """By trace or by task id."""
        trace = await self.trace_id(guest, identifier)
        lines = await self.s.views.trace(trace, self.sees(guest))
        return msgspec.structs.replace(lines, waiting=await self._waiting(lines))

    async def _waiting(self, lines: forms.Lines) -> tuple[str, ...]:
        """What the messages of a trace wait for that nobody has begun."""
        told = []
        for task_id in dict.fromkeys(line.task_id for line in lines.events if line.task_id.startswith("tsk_")):
            waits_for = self.s.routing.waits_for(await self.s.views.work(task_id))
            told += [f"{short(task_id)} waits; {waits_for}"] if waits_for else []
        return tuple(told)

    async def activity(self, guest: Guest, *, after: int = 0, limit: int = 50) -> forms.Lines:
        """What happened lately."""
        return await self.s.views.activity(after, max(1, min(limit, 1000)), self.sees(guest))

    async def feed(self, guest: Guest, *, after: int) -> AsyncIterator[forms.Line]:
        """Events as they come."""
        async for line in self.s.views.feed(after, self.sees(guest)):
            yield line

    async def permissions(self, guest: Guest) -> forms.Permissions:
        """What waits for a person's yes."""
        return await self.s.views.permissions(self.sees(guest))

    # --- where a line comes from --------------------------------------------------------------------------------

    async def why(self, guest: Guest, place: str) -> forms.Source:
        """From `PATH:LINE` to the commit, the task, the agent, and how to ask it."""
        path, mark, number = place.rpartition(":")
        if not mark or not re.fullmatch(r"0*[1-9][0-9]{0,17}", number):
            raise invalid(f"{place!r} is not PATH:LINE.", "Name a file and a line, like src/app.py:42.")
        root, inside = await self._tracked(guest, path)
        line = await self.s.git.trace_line(root, inside, int(number))
        repository = self._repository_of(guest)
        found = [] if line.uncommitted else await self._tasks_of(guest, repository.repository, line.commit, root)
        return forms.Source(
            path=inside,
            line=int(number),
            text=line.text,
            commit=line.commit,
            uncommitted=line.uncommitted,
            tasks=tuple([await self._maker(task_id) for task_id in found]),
        )

    def _repository_of(self, guest: Guest) -> Workspace:
        place = self.directory.workspaces[guest.workspace]
        if not place.repository:
            raise invalid("This workspace is not a git repository.", "Run it inside one.")
        return place

    async def _tracked(self, guest: Guest, typed: str) -> tuple[Path, str]:
        place = self._repository_of(guest)
        here = Path(guest.directory or place.root)
        found = await self.s.git.locate(here)
        own = found is not None and place.common_directory in ("", found.common_directory)
        root = Path(found.root) if found is not None and own else Path(place.root)
        try:
            return root, str(real(here, typed).relative_to(root))
        except ValueError:
            raise not_found(f"{typed!r} is outside of this workspace.", "Name a file inside it.") from None

    async def _tasks_of(self, guest: Guest, repository: str, commit: str, root: Path) -> list[str]:
        found = await self.s.views.commit_tasks(repository, commit)
        if not found:
            try:
                await self.s.git.fetch(repository, root, commit)
                claimed = (await self.s.git.trailers(repository, [commit])).get(commit)
            except Refused:
                claimed = None
            found = [claimed] if claimed else []
        sees = self.sees(guest)
        return [t for t in found if (w := await self.s.heads.work(t)) is not None and sees(w.task.workspace)]

    async def _maker(self, task_id: str) -> dict[str, object]:
        task = (await self.s.views.work(task_id)).task
        agent = self.directory.alias_of(task.last_holder or task.assignee)
        return {
            "task_id": task_id,
            "title": task.title,
            "state": task.state.value,
            "reason": task.reason.value,
            "agent": agent,
            "session": task.last_session,
            "requester": show.who(task.requester, self.directory),
            "ask": f'tally ask {agent} "…" --retry-of {short(task_id)}',
        }

    # --- people and places --------------------------------------------------------------------------------------

    async def agents(self, guest: Guest) -> forms.Agents:
        """Who is here, what they are good at, and what they have done."""
        return await self.s.views.agents(guest.workspace)

    async def whoami(self, guest: Guest) -> forms.WhoAmI:
        """Who the host takes the caller for, and by what."""
        place = self.directory.workspaces[guest.workspace]
        return forms.WhoAmI(
            name=self.directory.alias_of(guest.actor.id),
            id=guest.actor.id,
            kind=guest.actor.kind.value,
            workspace=place.name,
            workspace_id=place.workspace_id,
            session=guest.actor.session,
            assertion=guest.actor.assertion.value,
            because=guest.because,
            read_only=guest.read_only,
        )

    async def workspaces(self, guest: Guest) -> forms.Workspaces:
        """The workspaces this reader sees."""
        sees = self.sees(guest)
        visible = [w for w in self.directory.workspaces if sees(w)]
        return self.s.views.workspaces(visible, guest.workspace)

    async def checks(self, guest: Guest) -> forms.Checks:
        """The registered checks here."""
        return self.s.views.checks(guest.workspace)

    async def names(self, guest: Guest, kind: str) -> list[str]:
        """For completion."""
        if kind == "agent":
            return [f"@{a.alias}" for a in self.directory.members(guest.workspace)]
        if kind == "check":
            return [name for name, _ in self.directory.workspaces[guest.workspace].checks]
        if kind == "workspace":
            return sorted(self.directory.workspaces[w].name for w in self.directory.workspaces if self.sees(guest)(w))
        if kind == "token":
            return sorted({*self.directory.tokens, *(kept.name for kept in self.s.tokens.all())})
        if kind == "session":
            mine = self.directory.sessions.values()
            return [s.session_id for s in mine if s.workspace == guest.workspace and not s.ended]
        if kind == "permission":
            return [short(p.permission_id) for p in (await self.permissions(guest)).permissions]
        return [short(t.task_id) for t in (await self.board(guest)).tasks]


def real(here: Path, typed: str) -> Path:
    """Where a path as typed leads, links resolved."""
    return Path(os.path.realpath(Path(here, typed)))
