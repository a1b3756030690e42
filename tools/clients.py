"""The reference page about coding clients: what is written where, what each can be told, what each fact rests on."""

from __future__ import annotations

from pathlib import Path

from tallystick.app.clients import Surroundings
from tallystick.core.clients import CLIENTS
from tallystick.edge.clients import CLIENTS as INSTALLED
from tallystick.edge.clients import Program
from tallystick.edge.clients.shape import Entries, Part, Whole
from tools.markdown import code, table

_HOME = "/HOME"
_PROGRAM = Program("/TALLY_HOME", "/PYTHON", "/PACKAGE")


def page() -> str:
    """What the code says of every client that it knows."""
    facts = [fact for fact, _ in next(iter(CLIENTS.values())).facts]
    return "\n".join(
        [
            "# Coding clients\n",
            "What `tally install` writes. A file that is *ours* holds nothing else; in one of the client's,",
            "only the named entries are. Each client that names pauses also gets a hook script in",
            "`TALLY_HOME/hooks`; what was there before is kept in `TALLY_HOME/backups` until it is put back.\n",
            "## Files of the user\n",
            table(("client", "file", "what"), _rows("")),
            "## Files of a workspace (`--project`)\n",
            table(("client", "file", "what"), _rows("/WORKSPACE")),
            "## What each can be told, and by what it wakes\n",
            table(("client", "pauses told to our hook", "an idle session is woken by", "history"), _reach()),
            "## What each fact rests on\n",
            "`tally agents` shows the same for each agent.\n",
            table(("client", *(code(fact) for fact in facts)), _witnesses()),
        ]
    )


def _rows(project: str) -> list[tuple[str, ...]]:
    place = Surroundings(home=_HOME, environment={}, project=project)
    parts = [(name, part) for name, client in INSTALLED.items() for part in client.parts(place, _PROGRAM, project)]
    return [
        (CLIENTS[name].title, code(_shown(part.file)), _what(part))
        for name, part in parts
        if not str(part.file).startswith(_PROGRAM.home)
    ]


def _shown(file: Path) -> str:
    return str(file).replace(_HOME, "~").removeprefix("/WORKSPACE/")


def _what(part: Part) -> str:
    if isinstance(part, Whole):
        return "ours"
    return ", ".join(code(entry) for entry in _entries(part))


def _entries(part: Entries) -> list[str]:
    return [".".join(path) for path in (*(t.path for t in part.tables), *(i.path for i in part.items))]


def _reach() -> list[tuple[str, ...]]:
    nothing = "nothing: its person opens it"
    return [
        (known.title, ", ".join(known.pauses) or "none", known.wake or nothing, known.history or "–")
        for known in CLIENTS.values()
    ]


def _witnesses() -> list[tuple[str, ...]]:
    return [(known.title, *(rests_on for _, rests_on in known.facts)) for known in CLIENTS.values()]
