"""One call from a door: who is on the other end, and how to talk back while it runs.

The API edge makes them, the CLI edge (and later others) answer them; neither knows the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from tallystick.core.errors import Refused


class Terminal(msgspec.Struct, frozen=True):
    """What the client's standard streams are."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    columns: int = 80


class CallerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the process that calls. Everything but uid, pid and listener is only asserted by it."""

    uid: int
    pid: int
    listener: str = ""
    """The session whose own socket the call came in on; empty for the shared control socket."""
    ancestors: tuple[str, ...] = ()
    """Names of the caller's parent processes, nearest first, as far as they can be read."""
    processes: tuple[str, ...] = ()
    """For each of those names the process that it is of, as `PID@START`: another process never has the same."""
    client: str = ""
    """The coding client that a hook or MCP server says it was installed for."""
    environment: dict[str, str] = {}
    directory: str = ""
    terminal: Terminal = Terminal()
    door: str = "api"
    domains: tuple[str, ...] | None = None
    """The domains that its token is registered for; None where it has none, as on the local socket."""
    workspace: str = ""
    """The id of the one workspace that its token opens; empty for any."""
    token: str = ""
    """The id of the token of a spoke that it came in by; empty where that was none."""


class Unread(msgspec.Struct, frozen=True):
    """What comes in place of a frame that is no strict JSON: it counts for nothing, and who sent it is told so."""

    refused: Refused
    text: bytes
    """Of the frame, as it came: it may still tell which one it was."""


class Call(Protocol):
    """A running call. All text is Unicode; the edge escapes nothing, the renderer does."""

    @property
    def facts(self) -> CallerFacts:
        """Who calls."""
        ...

    @property
    def arguments(self) -> dict[str, Any]:
        """The fields of the request besides `id` and `op`, decoded from JSON and not yet checked."""
        ...

    async def out(self, text: str) -> None:
        """Send to the client's standard output; waits while the client does not read (back-pressure)."""
        ...

    async def err(self, text: str) -> None:
        """Send to the client's standard error."""
        ...

    async def ask(self, prompt: str) -> str | None:
        """Ask the person at the client's terminal one line; None where there is none or it was interrupted."""
        ...

    async def stdin(self) -> bytes:
        """The client's standard input to its end, at most the message limit; asked for only when needed."""
        ...

    async def flushed(self) -> bool:
        """Wait until the client says that all output so far was written and flushed; False when it went away."""
        ...

    async def interrupted(self) -> None:
        """Returns when the client was interrupted or went away."""
        ...

    def listen(self, take: Callable[[Any], None]) -> None:
        """From now on the client's frames of this call go to `take`, in order, those that came before first; in place
        of one that is no strict JSON goes an `Unread`. It must not wait, and raises nothing."""
        ...

    def hold(self, is_held: bool) -> None:
        """Take no more bytes of this client for now (back-pressure), or take them again."""
        ...

    async def frame(self, frame: Any) -> None:
        """Send a frame of this call; waits while the client does not read. Raises `ConnectionError` where it left."""
        ...


class Mounted(Protocol):
    """Something with requests of its own behind the HTTP door, which has found out who sends them (ASGI)."""

    async def __call__(
        self, facts: CallerFacts, as_name: str, workspace: str, scope: Any, receive: Any, send: Any
    ) -> None:
        """Answer one request. What it refuses before it has begun to answer, the door tells."""
        ...


Handler = Callable[[Call], Awaitable[Any]]
"""Answers a call: a JSON-able result, or raises `Refused`. For `cli` the result is the exit code."""
