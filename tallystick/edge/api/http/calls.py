"""One operation asked for over HTTP or WebSocket: what the request may say, and who is taken to have sent it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

from tallystick.app.calls import CallerFacts, Handler
from tallystick.app.diagnostics import Diagnostics
from tallystick.core.errors import Refused, denied, invalid, unsupported
from tallystick.edge.api.errors import unforeseen
from tallystick.edge.api.http.tokens import Identity

DOOR = "http"
_FIELDS = frozenset({"as", "workspace", "args"})


def caller(domains: tuple[str, ...] | None = None, workspace: str = "", token: str = "") -> CallerFacts:
    """The process behind a token is not known: nothing but the token speaks for it, so it is asserted, has no
    terminal, and what it might say of its environment is not even taken."""
    return CallerFacts(uid=os.getuid(), pid=0, door=DOOR, domains=domains, workspace=workspace, token=token)


class TokenCall:
    """Implements `app.calls.Call` for a caller that only asks and is answered."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.facts = caller()
        self.arguments = arguments
        self._gone = asyncio.Event()

    async def out(self, text: str) -> None:  # noqa: ARG002
        """There is no stream to print to."""
        raise _no_stream()

    async def err(self, text: str) -> None:  # noqa: ARG002
        """There is no stream to print to."""
        raise _no_stream()

    async def ask(self, prompt: str) -> str | None:  # noqa: ARG002
        """Nobody sits there."""
        return None

    async def stdin(self) -> bytes:
        """There is none."""
        return b""

    async def flushed(self) -> bool:
        """Cannot be known."""
        return False

    def listen(self, take: Callable[[Any], None]) -> None:  # noqa: ARG002
        """Frames have an address of their own."""
        raise _no_stream()

    def hold(self, is_held: bool) -> None:
        """Nothing more comes of it anyway."""

    async def frame(self, frame: Any) -> None:  # noqa: ARG002
        """Frames have an address of their own."""
        raise _no_stream()

    async def interrupted(self) -> None:
        """Returns when the caller went away or interrupted the call."""
        await self._gone.wait()

    def stop(self) -> None:
        """The caller went away or interrupted the call."""
        self._gone.set()


def call_for(identity: Identity, op: str, fields: Mapping[str, Any]) -> TokenCall:
    """The call of an identity, if it may make it. Raises `Refused`."""
    unknown = fields.keys() - _FIELDS
    if unknown:
        raise invalid(
            f"{min(unknown)[:100]!r} is not understood here.", "A request has `as`, `workspace` and `args`, no more."
        )
    if identity.scope is not None and op not in identity.scope:
        raise denied(f"This token does not open {op!r}.", "Use a token that does, or ask the person.")
    return TokenCall({**fields, "as": as_name(identity, fields.get("as", ""))})


def as_name(identity: Identity, asked: Any) -> Any:
    """Whom the caller acts as: an agent's token is that agent and nobody else."""
    if identity.kind == "person":
        return asked
    if asked not in ("", identity.name, f"@{identity.name}"):
        raise denied(f"This token is @{identity.name}'s and acts for no one else.", "Leave `as` away.")
    return identity.name


async def run(diagnostics: Diagnostics, op: str, handler: Handler, call: TokenCall) -> Any:
    """The result; every failure is a `Refused`."""
    try:
        return await handler(call)
    except Refused:
        raise
    except Exception as error:  # noqa: BLE001 - the boundary: whatever went wrong inside is ours to record
        raise unforeseen(diagnostics, f"op {op}", error) from None


def _no_stream() -> Refused:
    return unsupported(
        "This operation prints or sends frames, and this door has no stream for it.", "Use the `tally` command."
    )
