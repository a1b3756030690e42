"""What a person says of one driven agent in a file of the home: `agents/NAME.toml`, for its owner alone to read.

Keys stay there: nothing of it is ever recorded. May live here: reading the file, and what it may hold.
"""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path
from typing import Final, Literal

import msgspec

from tallystick.core.errors import Refused, denied, invalid
from tallystick.edge.acp.endpoints import Endpoint, listed

Answer = Literal["allow", "ask", "deny"]


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is answered to a request before a person is asked, by the kind of action."""

    read: Answer = "allow"
    """Reading and searching, where every path lies in the session's own work tree; elsewhere it is asked."""
    edit: Answer = "ask"
    execute: Answer = "ask"
    fetch: Answer = "ask"
    tally: Answer = "allow"
    """Our own tools: what they may do, the host decides anyway."""
    other: Answer = "ask"


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What its sandbox reaches. Without it the network is open."""

    allow: tuple[str, ...]
    """`host:port` each: what the host connects it to, and nothing else; () = nothing."""

    def __post_init__(self) -> None:
        for text in self.allow:
            listed(text)

    @property
    def endpoints(self) -> frozenset[Endpoint]:
        """The same, read."""
        return frozenset(map(listed, self.allow))


class Own(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One agent's file."""

    environment: dict[str, str] = {}
    """Set for its client: keys, addresses."""
    permissions: Policy = Policy()
    mode: str = ""
    """The client's mode, in place of the table's."""
    canary: bool = True
    """Prove that the client asks, before its sessions are shown as enforced (E2)."""
    sandbox: bool | None = None
    """Confine its client by the operating system (E3). Not given: where this machine can, and the client has no sandbox
    of its own."""
    readable: tuple[str, ...] = ()
    """Further directories that its sandbox shows."""
    writable: tuple[str, ...] = ()
    """Further directories that it may write in its sandbox."""
    handover: str = ""
    """Who goes on with its tasks when its client's quota is used up, as `@name`; empty: whoever asked decides."""
    network: Network | None = None
    """Limit its network. Kept by the sandbox, so that it runs in one or not at all."""

    def __post_init__(self) -> None:
        if self.network is not None and self.sandbox is False:
            raise ValueError("[network] is kept by the sandbox, and sandbox = false")


NAME: Final = "agents"


def own(home: Path, alias: str) -> Own:
    """What the file of an agent says; the defaults where there is none. Refused where it is wrong."""
    file = home / NAME / f"{alias}.toml"
    try:
        mode = file.stat().st_mode
        data = file.read_bytes()
    except FileNotFoundError:
        return Own()
    except OSError as error:
        raise invalid(f"{file} cannot be read: {error.strerror}.", "Make it a readable file.") from None
    if stat.S_IMODE(mode) & 0o077:
        raise denied(f"{file} can be read by others.", f"Make it yours alone: chmod 600 {file}")
    try:
        return msgspec.convert(tomllib.loads(data.decode("utf-8")), Own)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise invalid(f"{file} is no TOML in UTF-8: {error}.", "Correct that line.") from None
    except msgspec.ValidationError as error:
        raise _wrong(file, str(error)) from None


def _wrong(file: Path, what: str) -> Refused:
    return invalid(f"{file}: {what}.", "See docs/how-to/drive.md for what it may hold.")
