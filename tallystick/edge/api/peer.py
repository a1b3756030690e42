"""Who the parents of a connected process are, by name. Its user and process id come from `wire.peer`."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path, PurePath
from typing import NamedTuple

DEPTH = 32
"""How many parents are looked at."""

_MOST = 65536
_INTERPRETERS = ("node", "bun", "deno", "python", "ruby")


class Seen(NamedTuple):
    """One process as it was found."""

    parent: int
    started: str
    """When, in the system's own unit: with the process id it names one process for good."""
    names: list[str]


_GONE = Seen(0, "", [])


def ancestors(pid: int) -> tuple[tuple[str, str], ...]:
    """A process's parents, nearest first, as far as they can be read: what the kernel calls each and, for an
    interpreter, the program it runs as well (many coding clients are `node …/client.js`); each name with its process
    as `PID@START`."""
    read = _read_linux if sys.platform == "linux" else _read_elsewhere
    found: list[tuple[str, str]] = []
    parent = read(pid).parent
    for _ in range(DEPTH):
        if parent <= 0:
            break
        seen = read(parent)
        found += [(name, f"{parent}@{seen.started}") for name in seen.names]
        parent = seen.parent
    return tuple(found)


def is_alive(process: str) -> bool:
    """Whether a process named as `PID@START` still runs."""
    pid, _, started = process.partition("@")
    read = _read_linux if sys.platform == "linux" else _read_elsewhere
    return pid.isdecimal() and bool(started) and read(int(pid)).started == started


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


def _read_linux(pid: int) -> Seen:
    """A process as the kernel shows it; `_GONE` where it is gone or hidden."""
    try:
        status = _read(f"/proc/{pid}/stat")
        opened, closed = status.index(b"("), status.rindex(b")")  # the name may hold anything, brackets too
        name = status[opened + 1 : closed].decode("utf-8", "backslashreplace")
        state, parent, *rest = status[closed + 2 :].split()
        if state == b"Z":
            return _GONE
        started = rest[17].decode()  # field 22 of proc(5): ticks after the boot
        if not name.lower().startswith(_INTERPRETERS):
            return Seen(int(parent), started, [name])
        words = _read(f"/proc/{pid}/cmdline").split(b"\0")
    except (OSError, ValueError, IndexError):
        return _GONE
    return Seen(int(parent), started, [name, *_program([word.decode("utf-8", "backslashreplace") for word in words])])


def _read(path: str) -> bytes:
    """What the kernel tells in a file. Plain calls: every new client has a dozen of these read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MOST)
    finally:
        os.close(descriptor)


def _read_elsewhere(pid: int) -> Seen:
    try:
        line = subprocess.run(
            ["/bin/ps", "-o", "ppid=,lstart=,command=", "-p", str(pid)],
            capture_output=True,
            timeout=2,
            check=False,
            env={"LC_ALL": "C"},
        ).stdout.decode("utf-8", "backslashreplace")
        parent, *words = line.split()
        started, (command, *rest) = "-".join(words[:5]), words[5:]
        return Seen(int(parent), started, [PurePath(command).name, *_program([command, *rest])])
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return _GONE


def _program(words: list[str]) -> list[str]:
    """The stem of the first word that is no option: the script, or the module of `-m`."""
    return next(([PurePath(word).stem] for word in words[1:] if word and not word.startswith("-")), [])
