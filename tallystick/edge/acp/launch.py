"""How the client of one session is started: its command line, environment and sandbox, and where its things are."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from tallystick.app.jobs import Job, Sandbox, WayOut
from tallystick.core.directory import Agent
from tallystick.edge.acp import place, private
from tallystick.edge.acp.around import Around
from tallystick.edge.acp.registry import Driven
from tallystick.edge.acp.settings import Own

if TYPE_CHECKING:
    from tallystick.edge.acp.speech import Server

SERVER: Final = "tally"
"""What our own tools' server is called in a session."""
_LONGEST: Final = 30 * 86400.0
_LOG_BYTES: Final = 4 * 1024 * 1024
_GRACE: Final = 5.0


class Launch(msgspec.Struct, frozen=True):
    """What a session's client needs to be started."""

    session_id: str
    agent: Agent
    client: Driven
    own: Own
    around: Around

    @property
    def tree(self) -> Path:
        """Its work tree."""
        return place.tree_of(self.around.home, self.session_id)

    @property
    def log(self) -> Path:
        """What its client writes to its standard error."""
        return self.around.home / "log" / f"session-{self.session_id[-12:].lower()}.log"

    @property
    def socket(self) -> Path:
        """Its own socket: whoever connects there is this session."""
        return self.around.sockets / f"{self.session_id[-12:].lower()}.sock"

    @property
    def way(self) -> Path:
        """Where its network's way out begins, if that is limited."""
        return self.socket.with_suffix(".net")

    @property
    def is_apart(self) -> bool:
        """Whether its client's own sandbox would not start inside of ours."""
        return self.client.own_sandbox and not self.around.runner.nests()

    @property
    def home(self) -> Path:
        """The home directory of its client."""
        return Path(self.own.environment.get("HOME") or self.around.environment.get("HOME", "/"))

    @property
    def outside(self) -> Path:
        """A directory that is not its work tree, which its sandbox lets it write: where the canary is tried."""
        return self.around.home / "sessions" / f"{self.session_id}.canary"

    @property
    def settings(self) -> Path:
        """The client's settings for this session alone, where it needs some."""
        return self.around.home / "sessions" / f"{self.session_id}.settings"

    def server(self) -> Server:
        """The MCP server that brings our own tools into it."""
        from tallystick.edge.acp.speech import Server

        return Server(SERVER, self.around.tally[0], self.around.tally[1:], self.identity())

    def identity(self) -> dict[str, str]:
        """What a program of this session needs to be it: the socket is the identity."""
        return {
            "TALLY_SOCKET": str(self.socket),
            "TALLY_SESSION": self.session_id,
            "TALLY_HOME": str(self.around.home),
        }

    def job(self, job_id: str) -> Job:
        """Its process, as the runner starts it."""
        around, agent = self.around, self.agent
        argv = list(agent.argv or self.client.argv)
        path = agent.search_path or around.environment.get("PATH", "")
        program = argv[0] = shutil.which(argv[0], path=path) or argv[0]
        sandbox = self._sandbox(program, path)
        if sandbox is not None:
            # A sandboxed job gets a home of its own; this one's state is where its person logged in.
            argv = ["/usr/bin/env", f"HOME={self.home}", *argv]
        return Job(
            job_id=job_id,
            argv=tuple(argv),
            directory=str(self.tree),
            environment=self._environment(path),
            seconds=_LONGEST,
            output_bytes=_LOG_BYTES,
            grace_seconds=_GRACE,
            sandbox=sandbox,
            label=self.session_id,
            log=str(self.log),
        )

    def _environment(self, path: str) -> dict[str, str]:
        alias, given = self.agent.alias, self.around.environment
        who = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", f"@{alias}"), ("EMAIL", f"{alias}@tallystick.invalid"))
        }
        model = (
            {self.client.model_variable: self.agent.model} if self.client.model_variable and self.agent.model else {}
        )
        client = {**dict(self.client.environment), **model, **self.own.environment}
        return {**given, "PATH": path, **who, **client, **private.variable(self.client, self.settings)}

    def _sandbox(self, program: str, path: str) -> Sandbox | None:
        wanted = self.own.sandbox if self.own.sandbox is not None else not self.is_apart
        if not wanted and self.agent.required != "E3" and self.own.network is None:
            return None
        return self._confined(program, path)

    def _confined(self, program: str, path: str) -> Sandbox:
        around = self.around
        seen = around.prefixes(program, path, self.agent.virtual_env, "")
        own_python = around.prefixes(around.tally[0], path, "", "")
        state = [str(self.home / name) for name in self.client.state]
        for folder in state:
            if not Path(folder).suffix:  # what it would make itself would be gone with its sandbox
                Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        mirrors = str(around.home / "mirrors")
        return Sandbox(
            read_only=(*seen, *own_python, around.package, mirrors, *self.own.readable),
            writable=(
                str(self.tree),
                str(self.outside),
                *private.shown(self.client, self.settings),
                str(self.socket),
                *[name for name in state if Path(name).exists()],
                *self.own.writable,
            ),
            network=self.own.network is None,
            way_out=self._way_out(),
            required=self.agent.required == "E3",
            nests=self.client.own_sandbox,
        )

    def _way_out(self) -> WayOut | None:
        if self.own.network is None:
            return None
        doors = sorted((place.host, place.port) for place in self.own.network.endpoints if place.is_loopback)
        return WayOut(str(self.way), tuple(doors))
