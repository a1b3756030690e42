"""What the shell needs of the coding clients that people run, as data and one port; `edge.clients` fills it."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The person's own surroundings, as their process has them: the host's are others."""

    home: str
    environment: dict[str, str]
    project: str = ""
    """The top of the workspace whose files are meant; empty: those of the user."""
    allow: bool = False
    """The person lets the client's model use our tools without asking each time."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A coding client on this machine. It was not started to find out."""

    client: str
    program: str
    """Empty where only its folder is there."""
    config: str
    version: str = ""


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one file of a client. None: there is none, or it goes."""

    path: str
    """As the client names it."""
    real: str
    """Where it lies, links followed."""
    before: bytes | None
    after: bytes | None
    mode: int
    kept: bytes | None = None
    """What it is without us: the backup that an installation keeps. None: it would not be there."""
    kept_mode: int = 0o600
    is_restored: bool = False
    """It becomes what it was before the first installation, byte for byte."""


class InstallPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All that one client's installation or removal changes; nothing of it was done yet."""

    client: str
    changes: tuple[FileChange, ...]
    is_removal: bool
    project: str
    notes: tuple[str, ...] = ()


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """Something about an installed client that is not as it must be."""

    saw: str
    fix: str


class Installer(Protocol):
    """Puts Tallystick into the files of coding clients, and takes it out again."""

    def names(self) -> tuple[str, ...]:
        """The clients it knows."""
        ...

    def look(self, place: Surroundings, client: str) -> Found | None:
        """A client on this machine, or None."""
        ...

    def plan(self, place: Surroundings, client: str, *, remove: bool) -> InstallPlan:
        """What would change. Raises `Refused` where a file cannot be changed safely."""
        ...

    def apply(self, plan: InstallPlan) -> None:
        """Do it: all files or none, each kept first. Refused where a file changed since."""
        ...

    def prove(self, place: Surroundings, client: str) -> list[Doubt]:
        """Start what is installed for a client as it would; what is not as it must be."""
        ...

    def snippet(self, client: str) -> str:
        """What to paste into a client; any name, or none, for one that is not known."""
        ...
