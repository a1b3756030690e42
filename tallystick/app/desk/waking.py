"""What clients' hooks say of turns and conversations, and what is watched for an agent."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from tallystick.app.desk import forms
from tallystick.app.desk.interface import Guest
from tallystick.app.desk.members import Members
from tallystick.app.due import describe
from tallystick.app.views.people import woken_by
from tallystick.core import commands as cmd
from tallystick.core.clients import CLIENTS
from tallystick.core.directory import SessionState
from tallystick.core.errors import denied, invalid, not_found
from tallystick.core.identity import ActorKind, Prefix, short
from tallystick.core.wake import Watch


class Waking(Members):
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
        session = self._client_session(guest)
        client = CLIENTS.get(self.directory.agents[session.agent].client) if session is not None else None
        if client is not None and client.tells_ends:
            self.s.turns.began(guest.actor.session)

    async def turn_ended(self, guest: Guest) -> None:
        """A hook of the caller's session says that its turn is over."""
        if self._client_session(guest) is not None:
            self.s.turns.ended(guest.actor.session)

    async def wait_to_be_woken(
        self, guest: Guest, seconds: float, gone: Callable[[], Awaitable[None]], *, plans: bool = False
    ) -> str:
        """A hook of the caller's session waits: the text that wakes it, or nothing once its time is over, `gone`
        returned, another hook of the same session came, or the session ended. `plans`: its person plans there."""
        if self._client_session(guest) is None or guest.read_only:
            return ""
        self.s.turns.plans(guest.actor.session, now=plans)
        return await self.s.turns.wait(guest.actor.session, seconds, gone)

    def _client_session(self, guest: Guest) -> SessionState | None:
        session = self.directory.sessions.get(guest.actor.session)
        return session if session is not None and session.door == "client" and not session.ended else None

    # --- watches ------------------------------------------------------------------------------------------------

    async def watch(self, guest: Guest, form: forms.Watch) -> forms.Done:
        """Wake an agent when a file, a git reference or all of its inbox changes."""
        actor, agent = self.writer(guest), self.member(guest, form.agent)
        kind = self._kind(form)
        command = cmd.AddWatch(
            agent_id=agent.agent_id,
            watch_id=self.s.new_id(Prefix.WATCH),
            workspace=guest.workspace,
            kind=kind,
            path=self._place(guest, form.file if kind == "file" else form.repo or ".") if kind != "inbox" else "",
            ref=form.ref,
        )
        seen = await self.s.watches.look(Watch(command.watch_id, "", kind, command.path, form.ref))
        if kind == "ref" and not seen:
            raise not_found(
                f"{form.ref!r} names no commit in {command.path}.", "Name a branch or a tag, and its --repo DIR."
            )
        command = msgspec.structs.replace(command, digest=seen)
        await self.s.executor.execute(command, actor, workspace=guest.workspace)
        watch = self.directory.agents[agent.agent_id].waking.watches[command.watch_id]
        told = f"@{agent.alias} is woken when {describe(watch)} changes."
        if not woken_by(agent):
            told += " But nothing can wake it now: join it with --client of a client that can be woken, or with --wake."
        return forms.Done(detail=told, id=command.watch_id)

    def _kind(self, form: forms.Watch) -> str:
        given = [name for name, value in (("file", form.file), ("ref", form.ref), ("inbox", form.inbox)) if value]
        if len(given) != 1 or (form.repo and given != ["ref"]):
            raise invalid(
                "What is to be watched is not clear.", "Give one of --file PATH, --ref NAME (--repo DIR), --inbox."
            )
        return given[0]

    def _place(self, guest: Guest, typed: str) -> str:
        """The path as it is for everybody. An agent watches inside of the workspace alone."""
        if "\0" in typed:
            raise invalid("The path contains a NUL character.", "Name a file or a directory.")
        path = os.path.normpath(Path(guest.directory or "/", typed))
        root = self.directory.workspaces[guest.workspace].root
        real = os.path.realpath(path)
        if guest.actor.kind is ActorKind.AGENT and (not root or not Path(real).is_relative_to(os.path.realpath(root))):
            raise denied(f"{typed!r} is outside of this workspace.", "A person may watch it for you.")
        return path

    async def watches(self, guest: Guest) -> forms.Watched:
        """What is watched in this workspace."""
        found = [
            {
                "watch_id": watch.watch_id,
                "agent": f"@{agent.alias}",
                "kind": watch.kind,
                "what": describe(watch),
                "changed": bool(watch.noticed),
                "by": self.directory.alias_of(watch.by),
            }
            for agent in self.directory.members(guest.workspace)
            for watch in agent.waking.watches.values()
            if watch.workspace == guest.workspace
        ]
        return forms.Watched(watches=tuple(found))

    async def unwatch(self, guest: Guest, watch: str) -> forms.Done:
        """No longer watch something."""
        wanted = watch.removeprefix("wch_").upper()
        found = [
            (agent, known)
            for agent in self.directory.members(guest.workspace)
            for known in agent.waking.watches.values()
            if known.workspace == guest.workspace and len(wanted) >= 4 and known.watch_id.endswith(wanted)
        ]
        if len(found) != 1:
            raise not_found(f"There is no one watch {watch!r} here.", "List them: tally watch list")
        agent, known = found[0]
        command = cmd.RemoveWatch(agent_id=agent.agent_id, watch_id=known.watch_id)
        await self.s.executor.execute(command, self.writer(guest), workspace=guest.workspace)
        return forms.Done(detail=f"{short(known.watch_id)} of @{agent.alias} is watched no longer.", id=known.watch_id)
