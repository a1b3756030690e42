"""One session: its process, its conversation with the client, its own socket, its work tree."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from tallystick.app.driving import About
from tallystick.core.directory import Agent, SessionState
from tallystick.core.errors import ErrorCode, Refused, unavailable
from tallystick.core.identity import Prefix, short
from tallystick.core.state import Task, Work
from tallystick.edge.acp import handover, level, place, private
from tallystick.edge.acp.around import Around, Update
from tallystick.edge.acp.errors import gone
from tallystick.edge.acp.launch import Launch
from tallystick.edge.acp.manner import set_up
from tallystick.edge.acp.reach import Reach
from tallystick.edge.acp.registry import DRIVEN, Driven
from tallystick.edge.acp.settings import Own, own
from tallystick.edge.acp.updates import Replay
from tallystick.edge.acp.usage import Sums, at_start

if TYPE_CHECKING:
    from tallystick.edge.acp.canary import Canary, Proof
    from tallystick.edge.acp.speech import Begun, Server, Speech


class Session:
    """A session of one agent in one workspace. `took` is given each update of the turn that is under way."""

    def __init__(self, session_id: str, agent: Agent, workspace: str, around: Around) -> None:
        self.session_id = session_id
        self.agent = agent
        self.workspace = workspace
        self._around = around
        self.lock = asyncio.Lock()
        """Held during a turn: prompts go one after another."""
        self.tree = place.tree_of(around.home, session_id)
        self.own = Own()
        self.client: Driven = client_of(agent)
        self.parent = ""
        """The session that it is forked from, where it is to be."""
        self.history = ""
        self.job_id = ""
        self.level = "E1"
        self.detail = ""
        self.sandbox = "none"
        self.sums = Sums()
        """What the client reported of the session so far, where it reports sums."""
        self.replay: Replay | None = None
        """What was replayed when the conversation was loaded by this host; None where it was begun by it."""
        self.took: Callable[[Update], None] = lambda _update: None
        self.permit: Callable[[Update, list[Update]], Awaitable[str]] = _nobody
        self.reach = Reach()
        self._speech: Speech | None = None
        self._loading: Replay | None = None
        self._canary: Canary | None = None
        self._listens = False

    @property
    def speech(self) -> Speech:
        """The connection with the client. Refused where there is none."""
        if self._speech is None:
            raise gone("It cannot be prompted")
        return self._speech

    @property
    def is_running(self) -> bool:
        """Whether its process is there, as far as was seen."""
        return self._speech is not None

    @property
    def can_go_on(self) -> bool:
        """Whether another process of its client can go on with its conversation."""
        return self.client.load and self._speech is not None and self._speech.loads

    @property
    def launch(self) -> Launch:
        """What its client needs to be started."""
        return Launch(self.session_id, self.agent, self.client, self.own, self._around)

    # --- beginning ----------------------------------------------------------------------------------------------

    @property
    def kept_for(self) -> str:
        """The task that its work tree is for."""
        return place.kept_for(self._around.home, self.session_id)

    async def left_by(self, work: Work) -> str:
        """What another session left of a task in its work tree, for the brief of this one."""
        return await handover.half_done(self._around.git, self._around.home, work, self.session_id)

    async def ready(self, task: Task | None, mark: str = "") -> None:
        """Its work tree at that task (None: as it is), its process and its conversation there. Refused where it cannot
        be."""
        around = self._around
        if task is not None:
            await place.put(around.git, around.home, self.session_id, task, mark)
        else:
            await asyncio.to_thread(self.tree.mkdir, 0o700, parents=True, exist_ok=True)
        if self._speech is not None:
            return
        try:
            async with asyncio.timeout(around.driving.limits.session_start_seconds):
                await self._begin()
        except TimeoutError:
            await self.close()
            seconds = around.driving.limits.session_start_seconds
            raise unavailable(
                f"{self.client.title} did not answer within {seconds:.0f} s.", "Look at its log in log/ of the home."
            ) from None
        except Refused as refusal:
            await self.close()
            raise Refused(refusal.code, f"{refusal.message}{self._last_line()}", refusal.remedy) from None
        except BaseException:
            await self.close()
            raise

    def _last_line(self) -> str:
        """What its client said last, where it said something about its end."""
        with suppress(OSError):
            lines = self.launch.log.read_bytes()[-2000:].decode("utf-8", "replace").strip().splitlines()
            return f" Its log ends: {lines[-1][:200]!r}" if lines else ""
        return ""

    async def _begin(self) -> None:
        around, alias = self._around, self.agent.alias
        self.own = await asyncio.to_thread(own, around.home, alias)
        level.refuse_below(self.launch)
        await around.driving.opened(self.session_id, self.agent, self.workspace, self.parent)
        state = around.driving.session(self.session_id)
        if state is None:
            raise Refused(ErrorCode.OFFLINE, "That session has ended.", "Ask the role instead of the session.")
        await self._listen()
        speech = await self._start()
        await speech.initialize()
        if self.client.auth:
            await speech.authenticate(self.client.auth)
        begun = await self._converse(speech, state)
        self.history = begun.session_id
        fresh, told = not (state.history or state.parent), self.replay.usage if self.replay else {}
        self.sums = at_start(self.client.reports, self.sums, fresh=fresh, told=told)
        mode = await set_up(speech, begun, self.launch)
        await around.driving.linked(self.session_id, self.history)
        await self._describe(speech, mode)

    async def _listen(self) -> None:
        if not self._listens:
            await self._around.doors.listen_session(self.session_id, self.launch.socket)
            self._listens = True

    async def _start(self) -> Speech:
        # The SDK is loaded with the first session, aside: it takes as long as a host takes to start.
        speech = await asyncio.to_thread(import_module, "tallystick.edge.acp.speech")
        launch = self.launch
        await asyncio.to_thread(launch.outside.mkdir, 0o700, parents=True, exist_ok=True)
        named = self.own.environment.get(self.client.own_mcp.variable, "") if self.client.own_mcp else ""
        await asyncio.to_thread(private.put, self.client, launch.settings, launch.home, named, launch.server())
        around = self._around
        self.job_id = f"acp-{around.driving.new_id(Prefix.TURN)[4:]}"
        await self.reach.open(launch)
        pipes = await around.runner.open(launch.job(self.job_id))
        self.sandbox = pipes.level
        begun: Speech = speech.Speech(pipes, self._updated, self._permitted)
        self._speech = begun
        return begun

    async def _converse(self, speech: Speech, state: SessionState) -> Begun:
        """Its conversation: gone on with, a fork of another one, or a new one."""
        if state.history:
            return await self._go_on(speech, state)
        self.replay = None
        if not state.parent:
            return await speech.begin(str(self.tree), self._servers())
        return await self._fork(speech, state.parent)

    def _servers(self) -> list[Server]:
        return [] if self.client.own_mcp else [self.launch.server()]

    async def _fork(self, speech: Speech, parent: str) -> Begun:
        history = self._around.driving.history_of(parent)
        if not (speech.forks and history):
            await self._around.driving.ended(self.session_id, f"{self.client.title} cannot fork a conversation")
            raise Refused(
                ErrorCode.UNSUPPORTED,
                f"{self.client.title} cannot fork the conversation of session {short(parent)}.",
                "Ask for a fresh session, or ask that one itself.",
            )
        self._loading = Replay()
        try:
            return await speech.fork(history, str(self.tree), self._servers())
        finally:
            self._loading = None

    async def _go_on(self, speech: Speech, state: SessionState) -> Begun:
        if not (self.client.load and speech.loads):
            await self._around.driving.ended(self.session_id, f"{self.client.title} cannot go on with a conversation")
            raise Refused(ErrorCode.OFFLINE, "Its client cannot go on with a conversation.", "A new session is begun.")
        await asyncio.sleep(self.client.loads_in(state.opened_at, self._around.driving.now()))
        self._loading = Replay()
        try:
            return await speech.load(state.history, str(self.tree), self._servers())
        except Refused as refusal:
            if refusal.code is ErrorCode.NOT_FOUND:
                await self._around.driving.ended(self.session_id, "its client knows no such conversation")
            raise
        finally:
            self.replay, self._loading = self._loading, None

    async def _describe(self, speech: Speech, mode: str) -> None:
        proof = await self._asks(speech, mode)
        self.level, self.detail = level.shown(self.sandbox, proof, self.launch)
        level.refuse_shown(self.agent, self.level, self.detail)
        about = About(
            client=self.client.name,
            version=speech.version,
            protocol=speech.protocol,
            mode=mode,
            model=self.agent.model,
            directory=str(self.tree),
            level=self.level,
            detail=self.detail,
            forks=speech.forks and self.client.load,
        )
        await self._around.driving.described(self.session_id, about)

    async def _asks(self, speech: Speech, mode: str) -> Proof:
        from tallystick.edge.acp.canary import Canary, Proof

        if not self.own.canary:
            return Proof(enforced=False, detail="not proved: its canary is off")
        key = "\0".join((self.client.name, *self.agent.argv, speech.version, mode, self.agent.model, self.sandbox))
        known = self._around.proved.get(key)
        if known is None:
            number = self._around.driving.new_id(Prefix.TURN)[-12:].lower()
            self._canary = Canary(speech, self.client, mode, self.tree, self.launch.outside / number)
            try:
                known = await self._canary.prove()
            finally:
                self._canary = None
            self._around.proved[key] = known
        return known

    # --- what the client says -----------------------------------------------------------------------------------

    def _updated(self, update: Update) -> None:
        if self._loading is not None:
            self._loading.take(update)
        elif update.get("sessionId") in ("", self.history, None):
            self.took(update)

    async def _permitted(self, call: Update, options: list[Update]) -> str:
        if self._canary is not None and call.get("sessionId") == self._canary.history:
            return await self._canary.permit(call, options)
        if call.get("sessionId") != self.history:
            return ""
        return await self.permit(call, options)

    # --- the end ------------------------------------------------------------------------------------------------

    async def close(self) -> bool:
        """Hang up and end its process tree. True when nothing of it is left; the conversation can be loaded again."""
        speech, self._speech = self._speech, None
        if speech is not None:
            await speech.close()
        await self.reach.close()
        if not self.job_id:
            return True
        job_id = self.job_id
        ended = await self._around.runner.end(job_id)
        if ended:
            self.job_id = ""
            with suppress(Refused):
                self._around.runner.forget(job_id)
        return ended

    async def leave(self) -> None:
        """Close it, and its socket."""
        await self.close()
        if self._listens:
            self._listens = False
            await self._around.doors.close_session(self.session_id)


def client_of(agent: Agent) -> Driven:
    """The entry of the table, or one for an agent that was joined by its command line."""
    known = DRIVEN.get(agent.client)
    if known is not None and not agent.argv:
        return known
    return Driven(name=agent.client, title=agent.client, argv=agent.argv)


async def _nobody(_call: Update, _options: list[Update]) -> str:
    return ""
