"""The shapes of `tally install`: what was found, what would change, what was done. Keys are added, never removed."""

from __future__ import annotations

from tallystick.app.desk.forms import Form


class Install(Form, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tally install [CLIENT…]`."""

    clients: tuple[str, ...] = ()
    """Empty: all that are found."""
    project: bool = False
    remove: bool = False
    allow: bool = False
    """Let the client's model use our tools without asking each time."""


class FileShown(Form, frozen=True, kw_only=True):
    """What becomes of one file."""

    path: str
    change: str
    """create, change, restore or delete."""
    diff: str
    """Unified, line by line."""


class ClientShown(Form, frozen=True, kw_only=True):
    """One coding client."""

    client: str
    title: str
    found: bool
    version: str
    program: str
    config: str
    """The folder it keeps its files in."""
    files: tuple[FileShown, ...]
    """What changes, or was changed; empty: all is as it should be."""
    agent: str = ""
    """The agent that is bound to it in this workspace, if any."""
    notes: tuple[str, ...] = ()
    refused: str = ""
    """Why nothing can be changed here."""
    remedy: str = ""


class Installation(Form, frozen=True, kw_only=True):
    """`tally install`."""

    clients: tuple[ClientShown, ...]
    scope: str
    """user, or the top of the workspace."""
    removal: bool
    applied: bool
    digest: str
    """Of all changes: doing them is refused where they are no longer these."""
    agent: str = ""
    """The agent that was bound to the client."""


class Snippet(Form, frozen=True, kw_only=True):
    """`tally install --print`."""

    client: str
    text: str
