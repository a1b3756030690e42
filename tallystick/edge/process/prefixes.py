"""Which directories a command needs to be seen, where the homes are hidden: reads the file system, starts nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

_HOPS: Final = 16
"""Longest chain of links, environments and interpreters that is followed."""
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt")
"""Visible in every sandbox."""


def prefixes(
    argv0: str, search_path: str, virtual_env: str, home: str = "", hidden: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Read-only binds for a command that a person registered, sorted, all of them existing directories.

    `argv0` is the command as typed, `search_path` a PATH, `virtual_env` a VIRTUAL_ENV or "", `home` the home directory
    ("" for the present user's). The result holds the entries of the path, the environment, and for the command and all
    that it is a link to or is interpreted by: its prefix (the directory above `bin`) and the prefix that this was made
    from (`home` in pyvenv.cfg). The home itself, and whatever contains it, is never among them;
    nor is what leads into a `hidden` directory (the host's own: its record, its sockets), by whatever name.
    """
    walls = _walls(home or str(Path.home()))
    found: set[str] = set()
    for entry in search_path.split(os.pathsep):
        if Path(entry).is_absolute():
            found |= _shim_root(Path(entry)) or {entry}
    if virtual_env:
        found |= _environment(Path(virtual_env), walls)
    command = shutil.which(argv0, path=search_path or os.defpath)
    if command:
        found |= _command(Path(command).absolute(), search_path, walls)
    plain = {os.path.normpath(path) for path in found}
    # Not `Path.is_dir`: a PATH may name what this user may not look into, as after `su`.
    seen = [path for path in plain if _allowed(path, walls) and not _leads_into(path, hidden)]
    return tuple(sorted(path for path in seen if os.path.isdir(path)))  # noqa: PTH112


def _walls(home: str) -> frozenset[str]:
    """The home as spelt and as resolved, everything above it, and the shared folders in it that hold much else."""
    walls = set()
    for spelling in {os.path.normpath(home), os.path.realpath(home)}:
        walls |= {spelling, *(str(parent) for parent in Path(spelling).parents)}
        walls |= {f"{spelling}/.local", f"{spelling}/.local/share", f"{spelling}/.config"}
    return frozenset(walls)


def _allowed(path: str, walls: frozenset[str]) -> bool:
    resolved = os.path.realpath(path)
    shown = any(resolved == system or resolved.startswith(system + "/") for system in _SYSTEM)
    return not shown and path not in walls and resolved not in walls


def _leads_into(path: str, hidden: tuple[str, ...]) -> bool:
    """Whether it lies in a hidden directory; or is a link to what holds one, where no mask would be laid over it."""
    resolved = os.path.realpath(path)
    for place in map(os.path.realpath, hidden):
        if resolved == place or resolved.startswith(f"{place}/"):
            return True
        if resolved != path and place.startswith(resolved.rstrip("/") + "/"):
            return True
    return False


def _command(command: Path, search_path: str, walls: frozenset[str]) -> set[str]:
    """Follow links and interpreters, one hop at a time: each name on the way must be visible too."""
    found: set[str] = set()
    for _ in range(_HOPS):
        found |= _around(command, walls)
        following = _next(command, search_path)
        if following is None:
            break
        command = following
    return found


def _next(command: Path, search_path: str) -> Path | None:
    """What this file is a link to, or is interpreted by."""
    if command.is_symlink():
        return Path(os.path.normpath(command.parent / command.readlink()))
    resolved = Path(os.path.realpath(command))
    return resolved if resolved != command else _interpreter(command, search_path)


def _interpreter(script: Path, search_path: str) -> Path | None:
    try:
        with script.open("rb") as file:
            line = file.readline(512)
    except OSError:
        return None
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    if not words:
        return None
    if Path(words[0]).name != "env":
        return Path(words[0])
    named = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")
    command = shutil.which(named, path=search_path or os.defpath) if named else None
    return Path(command) if command else None


def _around(file: Path, walls: frozenset[str]) -> set[str]:
    """The prefix of an executable: above `bin`, or its own directory where that would be too much."""
    folder = file.parent
    shims = _shim_root(folder)
    if shims:
        return shims
    if "node_modules" in file.parts:  # a program of npm needs what lies beside it
        return {str(Path(*file.parts[: file.parts.index("node_modules") + 1]))}
    if folder.name in ("bin", "sbin", "Scripts") and _allowed(str(folder.parent), walls):
        return _environment(folder.parent, walls)
    return {str(folder)}


def _shim_root(folder: Path) -> set[str]:
    """Version switchers (pyenv and its like) keep the real programs beside their `shims`."""
    return {str(folder.parent)} if folder.name == "shims" else set()


def _environment(prefix: Path, walls: frozenset[str]) -> set[str]:
    """A prefix with the one its interpreter comes from."""
    found = {str(prefix)}
    for base in _bases(prefix):
        above = base.parent
        found.add(str(above) if base.name == "bin" and _allowed(str(above), walls) else str(base))
    return found


def _bases(prefix: Path) -> set[Path]:
    """Directories that hold the interpreter of a virtual environment: as written in it, and as its links lead."""
    bases = (
        {Path(os.path.realpath(prefix / "bin" / "python")).parent}
        if os.path.islink(prefix / "bin" / "python")  # noqa: PTH114 - False where it may not be seen
        else set()
    )
    try:
        lines = (prefix / "pyvenv.cfg").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return bases
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() == "home" and Path(value.strip()).is_absolute():
            bases |= {Path(value.strip()), Path(os.path.realpath(value.strip()))}
    return bases
