"""The one shape of a coding client here: what is ours in which of its files, as data. What is done with it is the same
for all of them (`installer`)."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tallystick.app.clients import Doubt, Found, Surroundings

KEY = "tallystick"
"""What our entries are called in files that are the client's."""


class Program(NamedTuple):
    """This installation, in absolute paths."""

    home: str
    """TALLY_HOME."""
    python: str
    package: str
    """The folder of the package."""

    def hook_file(self, client: str) -> str:
        """The hook script of a client. Its name is how an entry in a client's file is known to be ours."""
        return f"{self.home}/hooks/{mark(client)}"

    def hook(self, client: str, event: str) -> str:
        """The command line of a hook, for a client that gives it to a shell."""
        return f"sh {shlex.quote(self.hook_file(client))} {event}"

    def server(self, client: str) -> list[str]:
        """The MCP server as words."""
        return [self.python, "-I", "-S", f"{self.package}/_mcp/__main__.py", "--client", client]

    def environment(self) -> dict[str, str]:
        """What the MCP server has to be told."""
        return {"TALLY_HOME": self.home}


def mark(client: str) -> str:
    """The name of a client's hook script."""
    return f"tallystick-{client}.sh"


class Table(NamedTuple):
    """A named entry of ours in a file of the client: `path` ends with our key. Subtables and members that the person
    added to it stay."""

    path: tuple[str, ...]
    value: dict[str, Any]


class Item(NamedTuple):
    """One of a list's items that is ours."""

    path: tuple[str, ...]
    value: Any


class Entries(NamedTuple):
    """A file of the client in which some entries are ours."""

    file: Path
    tables: tuple[Table, ...] = ()
    items: tuple[Item, ...] = ()
    lists: tuple[tuple[str, ...], ...] = ()
    """The lists in which items can be ours, of earlier versions too."""
    granted: tuple[tuple[str, ...], ...] = ()
    """Lists in which an item of ours stays, once a person granted it, until we are removed."""
    is_ours: Callable[[Any], bool] = lambda _: False
    """Whether a hook, or an item that is a text, is ours; a group of hooks is, when all in it are."""
    first: tuple[Table, ...] = ()
    """What a file of this kind must begin with when it is made."""


class Whole(NamedTuple):
    """A file that is ours altogether."""

    file: Path
    text: str
    mode: int = 0o644


Part = Entries | Whole


class Client(Protocol):
    """What each folder here has: `setup.CLIENT`."""

    name: str
    has_project: bool
    """Whether it reads files of a workspace."""

    def detect(self, place: Surroundings) -> Found | None:
        """Where it keeps its files, if it is on this machine. Never starts it."""
        ...

    def parts(self, place: Surroundings, program: Program, project: str) -> tuple[Part, ...]:
        """What is ours in which file: of the user, or of the workspace at `project`."""
        ...

    def doubts(self, place: Surroundings) -> list[Doubt]:
        """What the client's own files say against it, though all of ours is there."""
        ...

    def notes(self, project: str) -> tuple[str, ...]:
        """What a person has to know or do besides."""
        ...


# --- what most of them share --------------------------------------------------------------------------------------


def under_home(place: Surroundings, *words: str) -> Path:
    """A path in the person's home."""
    return Path(place.home, *words)


def configured(place: Surroundings, variable: str, *default: str) -> Path:
    """A folder that an absolute path in a variable may name; else one in the person's home."""
    given = place.environment.get(variable, "")
    return Path(given) if given.startswith("/") else under_home(place, *default)


def executable(place: Surroundings, *names: str) -> str:
    """The first program of these names in the person's PATH."""
    for folder in place.environment.get("PATH", "").split(os.pathsep):
        for name in names:
            path = Path(folder, name)
            if folder.startswith("/") and os.access(path, os.X_OK) and path.is_file():
                return str(path)
    return ""


def found(place: Surroundings, name: str, config: Path, *programs: str) -> Found | None:
    """A client is here when its program is in the PATH or its folder exists."""
    program = executable(place, *programs)
    if not program and not config.is_dir():
        return None
    return Found(client=name, program=program, config=str(config), version=_version(program))


def _version(program: str) -> str:
    """The version in the package.json that a program of npm lies beside; the program is not started for it."""
    if not program:
        return ""
    real = Path(os.path.realpath(program))
    for folder in list(real.parents)[:4]:
        file = folder / "package.json"
        try:
            if file.stat().st_size < 1024 * 1024:
                import json

                version = json.loads(file.read_bytes()).get("version")
                return version if isinstance(version, str) else ""
        except (OSError, ValueError, AttributeError, RecursionError):
            continue
    return ""


def command_hooks(client: str) -> Callable[[Any], bool]:
    """Whether a hook is ours: its command runs our script."""
    return lambda hook: isinstance(hook, dict) and mark(client) in str(hook.get("command", ""))


def group(*hooks: dict[str, Any]) -> dict[str, Any]:
    """A group of hooks as Claude Code, Codex, Gemini and Qwen write it."""
    return {"hooks": list(hooks)}


HOOK_SECONDS = 5
"""What a client is told to wait for a hook; ours gives up before 2 s."""
