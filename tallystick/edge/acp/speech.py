"""The protocol with one client, by the official SDK. Imported when the first session is started, and only then.

Updates are handed on as they come, in order, before anything that comes after them: the SDK would make a task of each,
and drop those whose kind it does not know.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, cast

import msgspec
from acp import PROTOCOL_VERSION, RequestError
from acp.client import ClientSideConnection
from acp.helpers import text_block
from acp.interfaces import Client
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    EnvVariable,
    Implementation,
    McpServerStdio,
    RequestPermissionResponse,
)
from pydantic import BaseModel, ValidationError

from tallystick import __version__
from tallystick.app.jobs import Pipes
from tallystick.edge.acp.errors import gone, refused

Update = Callable[[dict[str, Any]], None]
Permit = Callable[[dict[str, Any], list[dict[str, Any]]], Awaitable[str]]
_BREATH: Final = 64
"""Updates in a row after which others get their turn."""


class Server(msgspec.Struct, frozen=True):
    """An MCP server that a session is given."""

    name: str
    command: str
    arguments: tuple[str, ...]
    environment: dict[str, str]


class Begun(msgspec.Struct, frozen=True):
    """What the client answered to a new or loaded session."""

    session_id: str
    modes: tuple[str, ...]
    mode: str
    models: dict[str, tuple[str, ...]]
    """Options of the session that choose a model: their id, and the values that are offered."""


class Speech:
    """One connection. `updated` gets each update of the session, `permit` answers with an option's id or nothing."""

    def __init__(self, pipes: Pipes, updated: Update, permit: Permit) -> None:
        self._line = _Line(pipes, updated)
        self._connection = ClientSideConnection(cast("Client", _Host(permit)), self._line, use_unstable_protocol=True)
        self.loads = False
        self.forks = False
        self.version = ""
        self.protocol = 0

    async def initialize(self) -> None:
        """Agree on the protocol. No file system and no terminal of ours are offered."""
        answer = await self._ask(
            "It could not be initialised",
            self._connection.initialize(
                PROTOCOL_VERSION,
                client_capabilities=ClientCapabilities(),
                client_info=Implementation(name="tallystick", version=__version__),
            ),
        )
        can = answer.agent_capabilities
        self.protocol = answer.protocol_version
        self.loads = bool(can and can.load_session)
        sessions = can.session_capabilities if can else None
        self.forks = bool(sessions and sessions.fork)
        if answer.agent_info:
            self.version = f"{answer.agent_info.name} {answer.agent_info.version}"[:200]

    async def authenticate(self, method: str) -> None:
        """Log in by a method that needs nobody."""
        await self._ask("It could not log in", self._connection.authenticate(method))

    async def begin(self, directory: str, servers: list[Server]) -> Begun:
        """A new conversation."""
        answer = await self._ask(
            "No session could be begun", self._connection.new_session(directory, None, _of(servers))
        )
        return _begun(answer.session_id, answer)

    async def load(self, history: str, directory: str, servers: list[Server]) -> Begun:
        """Go on with a conversation; it is replayed before this returns."""
        answer = await self._ask(
            "The session could not be loaded", self._connection.load_session(directory, history, _of(servers))
        )
        return _begun(history, answer)

    async def fork(self, history: str, directory: str, servers: list[Server]) -> Begun:
        """A new conversation with all that was said in another one, which stays as it is. It may be replayed before
        this returns."""
        answer = await self._ask(
            "The session could not be forked", self._connection.fork_session(history, directory, None, _of(servers))
        )
        return _begun(answer.session_id, answer)

    async def set_mode(self, history: str, mode: str) -> None:
        """Set the client's own mode."""
        await self._ask(f"Its mode {mode!r} could not be set", self._connection.set_session_mode(history, mode))

    async def set_option(self, history: str, option: str, value: str) -> None:
        """Set an option of the session."""
        await self._ask(
            f"Its option {option!r} could not be set", self._connection.set_config_option(option, history, value)
        )

    async def prompt(self, history: str, texts: list[str]) -> dict[str, Any]:
        """One turn, to its end; what the client answered, as it stands in the protocol."""
        answer = await self._ask(
            "Its turn failed", self._connection.prompt(history, [text_block(text) for text in texts])
        )
        return _plain(answer)

    async def cancel(self, history: str) -> None:
        """Ask it to stop its turn."""
        with suppress(Exception):  # a client that is gone needs not be asked
            await self._connection.cancel(history)

    async def close(self) -> None:
        """Hang up."""
        with suppress(Exception):
            await self._connection.close()

    async def _ask(self, what: str, call: Awaitable[Any]) -> Any:
        try:
            return await call
        except RequestError as error:
            raise refused(what, error.code, str(error), error.data) from None
        except ValidationError:
            raise refused(what, -32602, "something that is not of the protocol") from None
        except (ConnectionError, RuntimeError, OSError):
            raise gone(what) from None


class _Line:
    """The SDK's transport over the pipes of a process: one JSON object per line, of any length up to their limit."""

    def __init__(self, pipes: Pipes, updated: Update) -> None:
        self._pipes = pipes
        self._updated = updated
        self._count = 0

    async def send(self, message: dict[str, Any]) -> None:
        """One message out. Raises ConnectionError where nobody reads."""
        self._pipes.writer.write(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        await self._pipes.writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next message that is not an update; None at the end. What is no JSON object is passed over."""
        while True:
            try:
                line = await self._pipes.reader.readuntil(b"\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, OSError):
                return None
            self._count += 1
            if self._count % _BREATH == 0:
                await asyncio.sleep(0)
            message = _object(line)
            if message is None:
                continue
            if message.get("method") != "session/update":
                return message
            params = message.get("params")
            update = params.get("update") if isinstance(params, dict) else None
            if isinstance(params, dict) and isinstance(update, dict):
                self._updated({**update, "sessionId": params.get("sessionId", "")})

    async def close(self) -> None:
        """Close the writing end: the client sees that nobody speaks any more."""
        self._pipes.writer.close()


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class _Host:
    """What the client may ask of us: permissions alone."""

    def __init__(self, permit: Permit) -> None:
        self._permit = permit

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        """Asks whoever decides; nothing is ever allowed for more than this once."""
        plain = [_plain(option) for option in options]
        chosen = await self._permit({**_plain(tool_call), "sessionId": session_id}, plain)
        if not chosen:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    async def session_update(self, **_: Any) -> None:
        """Never called: updates are taken from the line itself."""

    async def create_elicitation(self, **_: Any) -> Any:
        """Questions to a person are not answered for one."""
        raise RequestError.method_not_found("elicitation/create")

    async def write_text_file(self, **_: Any) -> Any:
        """Not offered."""
        raise RequestError.method_not_found("fs/write_text_file")

    async def read_text_file(self, **_: Any) -> Any:
        """Not offered."""
        raise RequestError.method_not_found("fs/read_text_file")


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return value if isinstance(value, dict) else {}


def _of(servers: list[Server]) -> list[Any]:
    return [
        McpServerStdio(
            name=server.name,
            command=server.command,
            args=list(server.arguments),
            env=[EnvVariable(name=name, value=value) for name, value in server.environment.items()],
        )
        for server in servers
    ]


def _begun(session_id: str, answer: Any) -> Begun:
    modes = answer.modes if answer is not None else None
    options = (answer.config_options if answer is not None else None) or []
    models: dict[str, tuple[str, ...]] = {}
    for option in options:
        plain = _plain(option)
        if plain.get("category") == "model" or plain.get("id") == "model":
            models[str(plain.get("id"))] = tuple(_values(plain.get("options")))
    return Begun(
        session_id=session_id,
        modes=tuple(mode.id for mode in modes.available_modes) if modes else (),
        mode=modes.current_mode_id if modes else "",
        models=models,
    )


def _values(options: Any) -> list[str]:
    found: list[str] = []
    for option in options if isinstance(options, list) else []:
        if isinstance(option, dict) and "value" in option:
            found.append(str(option["value"]))
        elif isinstance(option, dict):
            found += _values(option.get("options"))
    return found
