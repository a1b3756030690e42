"""One session: its process, its conversation with the client, its own socket, its work tree."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from tallystick.app.driving import About, Driving
from tallystick.app.ports import Git, Job, Runner, Sandbox
from tallystick.core.directory import Agent
from tallystick.core.errors import ErrorCode, Refused, denied, unavailable
from tallystick.core.identity import Prefix
from tallystick.core.model import Spent
from tallystick.core.state import Task
from tallystick.edge.acp import place, private
from tallystick.edge.acp.errors import gone
from tallystick.edge.acp.reach import Reach
from tallystick.edge.acp.registry import DRIVEN, Driven
from tallystick.edge.acp.settings import Own, own
from tallystick.edge.acp.updates import Replay

if TYPE_CHECKING:
    from tallystick.edge.acp.canary import Canary, Proof
    from tallystick.edge.acp.speech import Begun, Server, Speech

SERVER: Final = "tally"
"""What our own tools' server is called in a session."""
_LONGEST: Final = 30 * 86400.0
_LOG_BYTES: Final = 4 * 1024 * 1024
_GRACE: Final = 5.0

Update = dict[str, Any]


class Doors(Protocol):
    """A session's own socket: whoever connects there is that session."""

    async def listen_session(self, session_id: str, path: Path) -> None: ...

    async def close_session(self, session_id: str) -> None: ...


class Around(msgspec.Struct, frozen=True):
    """What all sessions share."""

    home: Path
    sockets: Path
    """The directory of their sockets."""
    git: Git
    runner: Runner
    driving: Driving
    doors: Doors
    environment: dict[str, str]
    """What each client inherits: HOME, LANG and the like."""
    tally: tuple[str, ...]
    """The command line of our MCP server."""
    package: str
    """The directory of our own code, which that server is: seen inside of every sandbox, wherever it is installed."""
    prefixes: Callable[[str, str, str, str], tuple[str, ...]]
    """Which directories a command needs to be seen."""
    proved: dict[str, Proof]
    """What canaries showed, by client, version and mode."""


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
        self.history = ""
        self.job_id = ""
        self.level = "E1"
        self.detail = ""
        self.sandbox = "none"
        self.spent = Spent()
        """What the client reported of the session so far, where it reports sums."""
        self.replay: Replay | None = None
        """What was replayed when the conversation was loaded by this host; None where it was begun by it."""
        self.took: Callable[[Update], None] = lambda _update: None
        self.permit: Callable[[Update, list[Update]], Awaitable[str]] = _nobody
        self.reach = Reach(session_id, around.sockets, around.driving.diagnostics)
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

    # --- beginning ----------------------------------------------------------------------------------------------

    @property
    def kept_for(self) -> str:
        """The task that its work tree is for."""
        return place.kept_for(self._around.home, self.session_id)

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
            lines = self._log.read_bytes()[-2000:].decode("utf-8", "replace").strip().splitlines()
            return f" Its log ends: {lines[-1][:200]!r}" if lines else ""
        return ""

    @property
    def _log(self) -> Path:
        return self._around.home / "log" / f"session-{self.session_id[-12:].lower()}.log"

    async def _begin(self) -> None:
        around, alias = self._around, self.agent.alias
        self.own = await asyncio.to_thread(own, around.home, alias)
        self._refuse_below(sandboxed=around.runner.level() == "E3")
        await around.driving.opened(self.session_id, self.agent, self.workspace)
        state = around.driving.session(self.session_id)
        if state is None:
            raise Refused(ErrorCode.OFFLINE, "That session has ended.", "Ask the role instead of the session.")
        await self._listen()
        speech = await self._start()
        await speech.initialize()
        if self.client.auth:
            await speech.authenticate(self.client.auth)
        begun = await self._converse(speech, state.history, state.opened_at)
        self.history = begun.session_id
        mode = await self._set_up(speech, begun)
        await around.driving.linked(self.session_id, self.history)
        await self._describe(speech, mode)

    def _refuse_below(self, *, sandboxed: bool) -> None:
        if self.agent.required == "E3" and self._is_apart and self.own.sandbox is None:
            raise denied(
                f"{self.client.title} runs commands in a sandbox of its own, which does not start inside of ours here.",
                f"Join it with --require E2; or turn it off, and say sandbox = true in agents/{self.agent.alias}.toml.",
            )
        if self.agent.required == "E3" and not sandboxed:
            raise denied(
                f"@{self.agent.alias} requires E3, and this machine has no sandbox: {self._around.runner.explain()}",
                "Install bubblewrap, or join it again with --require E2.",
            )

    @property
    def _is_apart(self) -> bool:
        """Whether its client's own sandbox would fail inside of ours."""
        return self.client.own_sandbox and not self._around.runner.nests()

    async def _listen(self) -> None:
        if not self._listens:
            path = self._around.sockets / f"{self.session_id[-12:].lower()}.sock"
            await self._around.doors.listen_session(self.session_id, path)
            self._listens = True

    async def _start(self) -> Speech:
        # The SDK is loaded with the first session, aside: it takes as long as a host takes to start.
        speech = await asyncio.to_thread(import_module, "tallystick.edge.acp.speech")
        await asyncio.to_thread(self._outside.mkdir, 0o700, parents=True, exist_ok=True)
        named = self.own.environment.get(self.client.own_mcp.variable, "") if self.client.own_mcp else ""
        await asyncio.to_thread(private.put, self.client, self._private, self._home, named, self._server())
        around = self._around
        self.job_id = f"acp-{around.driving.new_id(Prefix.TURN)[4:]}"
        missing = "" if around.runner.level() == "E3" else around.runner.explain()
        await self.reach.open(self.own.network, self.agent.alias, missing)
        pipes = await around.runner.open(self._job())
        self.sandbox = pipes.level
        begun: Speech = speech.Speech(pipes, self._updated, self._permitted)
        self._speech = begun
        return begun

    def _job(self) -> Job:
        around, agent = self._around, self.agent
        argv = list(agent.argv or self.client.argv)
        path = agent.search_path or around.environment.get("PATH", "")
        program = argv[0] = shutil.which(argv[0], path=path) or argv[0]
        sandbox = self._sandbox(program, path)
        if sandbox is not None:
            # A sandboxed job gets a home of its own; this one's state is where its person logged in.
            argv = ["/usr/bin/env", f"HOME={self._home}", *argv]
        return Job(
            job_id=self.job_id,
            argv=tuple(argv),
            directory=str(self.tree),
            environment=self._environment(path),
            seconds=_LONGEST,
            output_bytes=_LOG_BYTES,
            grace_seconds=_GRACE,
            sandbox=sandbox,
            label=self.session_id,
            log=str(self._log),
        )

    @property
    def _home(self) -> Path:
        """The home directory of its client."""
        return Path(self.own.environment.get("HOME") or self._around.environment.get("HOME", "/"))

    @property
    def _outside(self) -> Path:
        """A directory that is not its work tree, which its sandbox lets it write: where the canary is tried."""
        return self._around.home / "sessions" / f"{self.session_id}.canary"

    def _environment(self, path: str) -> dict[str, str]:
        alias, given = self.agent.alias, self._around.environment
        who = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", f"@{alias}"), ("EMAIL", f"{alias}@tallystick.invalid"))
        }
        model = (
            {self.client.model_variable: self.agent.model} if self.client.model_variable and self.agent.model else {}
        )
        client = {**dict(self.client.environment), **model, **self.own.environment}
        return {**given, "PATH": path, **who, **client, **private.variable(self.client, self._private)}

    @property
    def _private(self) -> Path:
        """The client's settings for this session alone, where it needs some."""
        return self._around.home / "sessions" / f"{self.session_id}.settings"

    def _sandbox(self, program: str, path: str) -> Sandbox | None:
        wanted = self.own.sandbox if self.own.sandbox is not None else not self._is_apart
        if not wanted and self.agent.required != "E3" and self.own.network is None:
            return None
        return self.reach.of(self._confined(program, path))

    def _confined(self, program: str, path: str) -> Sandbox:
        around = self._around
        seen = around.prefixes(program, path, self.agent.virtual_env, "")
        own_python = around.prefixes(around.tally[0], path, "", "")
        state = [str(self._home / name) for name in self.client.state]
        for folder in state:
            if not Path(folder).suffix:  # what it would make itself would be gone with its sandbox
                Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        socket = str(around.sockets / f"{self.session_id[-12:].lower()}.sock")
        mirrors = str(around.home / "mirrors")
        return Sandbox(
            read_only=(*seen, *own_python, around.package, mirrors, *self.own.readable),
            writable=(
                str(self.tree),
                str(self._outside),
                *private.shown(self.client, self._private),
                socket,
                *[name for name in state if Path(name).exists()],
                *self.own.writable,
            ),
            required=self.agent.required == "E3",
            nests=self.client.own_sandbox,
        )

    async def _converse(self, speech: Speech, history: str, opened_at: float) -> Begun:
        servers = [] if self.client.own_mcp else [self._server()]
        if not history:
            self.replay = None
            return await speech.begin(str(self.tree), servers)
        if not (self.client.load and speech.loads):
            await self._around.driving.ended(self.session_id, f"{self.client.title} cannot go on with a conversation")
            raise Refused(ErrorCode.OFFLINE, "Its client cannot go on with a conversation.", "A new session is begun.")
        early = opened_at + self.client.load_after - self._around.driving.now()
        if early > 0:
            await asyncio.sleep(early)
        self._loading = Replay()
        try:
            return await speech.load(history, str(self.tree), servers)
        except Refused as refusal:
            if refusal.code is ErrorCode.NOT_FOUND:
                await self._around.driving.ended(self.session_id, "its client knows no such conversation")
            raise
        finally:
            self.replay, self._loading = self._loading, None

    def _server(self) -> Server:
        from tallystick.edge.acp.speech import Server

        return Server(SERVER, self._around.tally[0], self._around.tally[1:], self.identity())

    def identity(self) -> dict[str, str]:
        """What a program of this session needs to be it: the socket is the identity."""
        socket = self._around.sockets / f"{self.session_id[-12:].lower()}.sock"
        return {
            "TALLY_SOCKET": str(socket),
            "TALLY_SESSION": self.session_id,
            "TALLY_HOME": str(self._around.home),
        }

    async def _set_up(self, speech: Speech, begun: Begun) -> str:
        """The mode in which it asks, and its model. Refused where it does not have them: nothing is left to chance."""
        mode = self.own.mode or self.client.mode
        if mode and begun.modes and mode not in begun.modes:
            raise Refused(
                ErrorCode.UNSUPPORTED,
                f"{self.client.title} has no mode {mode!r}; it has {', '.join(begun.modes)}.",
                f"Name one in which it asks: mode = … in agents/{self.agent.alias}.toml",
            )
        if mode and begun.modes and mode != begun.mode:
            await speech.set_mode(self.history, mode)
        await self._set_model(speech, begun)
        return mode or begun.mode

    async def _set_model(self, speech: Speech, begun: Begun) -> None:
        wanted = self.agent.model
        if not wanted or self.client.model_variable:
            return
        for option, values in begun.models.items():
            if wanted in values or not values:
                await speech.set_option(self.history, option, wanted)
                return
        offered = ", ".join(value for values in begun.models.values() for value in values)[:300] or "no choice"
        raise Refused(
            ErrorCode.UNSUPPORTED,
            f"{self.client.title} does not offer the model {wanted!r}; it offers {offered}.",
            "Join it again with another --model.",
        )

    async def _describe(self, speech: Speech, mode: str) -> None:
        self.level, self.detail = await self._proved(speech, mode)
        if self.agent.required and self.level < self.agent.required:
            raise denied(
                f"@{self.agent.alias} requires {self.agent.required}, and its session is {self.level}: {self.detail}.",
                f"See docs/how-to/drive.md, or set the mode in agents/{self.agent.alias}.toml.",
            )
        about = About(
            client=self.client.name,
            version=speech.version,
            protocol=speech.protocol,
            mode=mode,
            model=self.agent.model,
            directory=str(self.tree),
            level=self.level,
            detail=self.detail,
        )
        await self._around.driving.described(self.session_id, about)

    async def _proved(self, speech: Speech, mode: str) -> tuple[str, str]:
        """Its level, and what that rests on."""
        proof = await self._asks(speech, mode)
        if self.sandbox == "E3":
            apart = "; its own sandbox does not start in there" if self._is_apart else ""
            return "E3", f"{self._around.runner.explain()}{apart}; {self.reach}; {proof.detail}"
        return ("E2" if proof.enforced else "E1"), proof.detail

    async def _asks(self, speech: Speech, mode: str) -> Proof:
        from tallystick.edge.acp.canary import Canary, Proof

        if not self.own.canary:
            return Proof(enforced=False, detail="not proved: its canary is off")
        key = "\0".join((self.client.name, *self.agent.argv, speech.version, mode, self.agent.model, self.sandbox))
        known = self._around.proved.get(key)
        if known is None:
            number = self._around.driving.new_id(Prefix.TURN)[-12:].lower()
            self._canary = Canary(speech, self.client, mode, self.tree, self._outside / number)
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
