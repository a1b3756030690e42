"""Who the parents of a connected process are, by name. Its user and process id come from `wire.peer`."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path, PurePath

DEPTH = 32
"""How many parents are looked at."""

_INTERPRETERS = ("node", "bun", "deno", "python", "ruby")


def ancestors(pid: int) -> tuple[str, ...]:
    """Names of a process's parents, nearest first, as far as they can be read: what the kernel calls each and, for an
    interpreter, the program it runs as well (many coding clients are `node …/client.js`)."""
    read = _read_linux if sys.platform == "linux" else _read_elsewhere
    names: list[str] = []
    parent, _ = read(pid)
    for _ in range(DEPTH):
        if parent <= 0:
            break
        parent, found = read(parent)
        names += found
    return tuple(names)


def has_terminal(pid: int, number: int) -> bool:
    """Whether that descriptor of a process is a terminal: the kernel's word for what a client says of itself.

    Where there is no /proc to ask, the client is believed."""
    if sys.platform != "linux":
        return True
    path = f"/proc/{pid}/fd/{number}"
    try:
        if not stat.S_ISCHR(Path(path).stat().st_mode):
            return False
        descriptor = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.isatty(descriptor)
    finally:
        os.close(descriptor)


def _read_linux(pid: int) -> tuple[int, list[str]]:
    """A process's parent and its names; (0, []) where it is gone or hidden."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
        opened, closed = status.index(b"("), status.rindex(b")")  # the name may hold anything, brackets too
        name = status[opened + 1 : closed].decode("utf-8", "backslashreplace")
        parent = int(status[closed + 2 :].split()[1])
        if not name.lower().startswith(_INTERPRETERS):
            return parent, [name]
        words = Path(f"/proc/{pid}/cmdline").read_bytes()[:65536].split(b"\0")
    except (OSError, ValueError):
        return 0, []
    return parent, [name, *_program([word.decode("utf-8", "backslashreplace") for word in words])]


def _read_elsewhere(pid: int) -> tuple[int, list[str]]:
    try:
        line = subprocess.run(
            ["/bin/ps", "-o", "ppid=,command=", "-p", str(pid)], capture_output=True, timeout=2, check=False
        ).stdout.decode("utf-8", "backslashreplace")
        parent, command, *rest = line.split()
        return int(parent), [PurePath(command).name, *_program([command, *rest])]
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0, []


def _program(words: list[str]) -> list[str]:
    """The stem of the first word that is no option: the script, or the module of `-m`."""
    return next(([PurePath(word).stem] for word in words[1:] if word and not word.startswith("-")), [])
