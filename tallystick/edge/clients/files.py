"""Other people's files: read as bytes, written whole or not at all, and put back as they were.

Links are followed and kept. All files of a change are made beside their targets first; only when every one of them
could be written, and none of the targets changed meanwhile, do they take their places.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec

from tallystick.app.clients import FileChange
from tallystick.core.errors import Refused, conflict, denied, invalid, unavailable

BYTES = 16 * 1024 * 1024
"""A larger file is not a client's configuration."""
BOM = "\ufeff"


class Seen(NamedTuple):
    """A file as it was found. `data` None: there is none."""

    path: Path
    """Where it really lies."""
    data: bytes | None
    mode: int


def look(path: Path) -> Seen:
    """Read a file. `Refused` where it is no regular file, or must not be read."""
    real = Path(os.path.realpath(path))
    try:
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        if isinstance(error, NotADirectoryError):
            raise _unusable(path, "what should be a folder above it is a file") from None
        return Seen(real, None, 0o600)
    except OSError as error:
        raise _unusable(path, error.strerror or "it cannot be read") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _unusable(path, "it is no regular file")
        if status.st_size > BYTES:
            raise _unusable(path, f"it is larger than {BYTES // 1024 // 1024} MiB")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return Seen(real, file.read(BYTES + 1), stat.S_IMODE(status.st_mode))
    finally:
        os.close(descriptor)


def text_of(seen: Seen, name: str) -> str:
    """The text of a file, its byte order mark included."""
    try:
        return (seen.data or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid(
            f"{name} is not UTF-8 (at byte {error.start}). Nothing was changed.", "Save it as UTF-8, then repeat."
        ) from None


def _unusable(path: Path, why: str) -> Refused:
    return denied(f"{path} cannot be used: {why}. Nothing was changed.", "Look at that path, then repeat the command.")


# --- writing ------------------------------------------------------------------------------------------------------


def write(changes: list[FileChange]) -> None:
    """Make all these changes or none. A target that is no longer as it was when the change was planned: `Refused`."""
    made: list[tuple[FileChange, Path]] = []
    folders: list[Path] = []
    try:
        for change in changes:
            _check(change)
            if change.after is not None:
                folders += _folders(Path(change.real).parent)
                made.append((change, beside(change)))
        _take_places(changes, {c.real: temporary for c, temporary in made})
    except OSError as error:
        _forget(made, folders)
        raise _failed(error) from None
    except Refused:
        _forget(made, folders)
        raise


def _forget(made: list[tuple[FileChange, Path]], folders: list[Path]) -> None:
    for _, temporary in made:
        with contextlib.suppress(OSError):
            temporary.unlink()
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _failed(error: OSError) -> Refused:
    where = f" {error.filename}" if error.filename else ""
    return unavailable(
        f"{error.strerror or 'The file system refused'}:{where}. No file was changed.",
        "Make room, or make the file and its folder writable, then repeat the command.",
    )


def _check(change: FileChange) -> None:
    """A target must still be what the change was made for, and be ours to write."""
    now = look(Path(change.path))
    if now.data != change.before or str(now.path) != change.real:
        raise conflict(f"{change.path} was changed meanwhile. No file was changed.", "Repeat the command.")
    if now.data is not None and not now.mode & 0o200:
        raise denied(f"{change.path} is read-only. No file was changed.", f"Allow it: chmod u+w {change.path}")


def _folders(folder: Path) -> list[Path]:
    """Make a folder and those above it; the ones that were made, outermost first."""
    absent = [f for f in (folder, *folder.parents) if not f.exists()]
    made = []
    for each in reversed(absent):
        each.mkdir(mode=0o700 if "tally" in each.name else 0o755, exist_ok=True)
        made.append(each)
    return made


def beside(change: FileChange) -> Path:
    """A file with the new bytes and the old mode in the same folder."""
    target = Path(change.real)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(change.after or b"")
            file.flush()
            os.fsync(descriptor)
        temporary.chmod(change.mode)
    except BaseException:
        temporary.unlink()
        raise
    return temporary


def _take_places(changes: list[FileChange], made: dict[str, Path]) -> None:
    done: list[FileChange] = []
    try:
        for change in changes:
            _check(change)
            if change.after is None:
                Path(change.real).unlink()
            else:
                made.pop(change.real).replace(change.real)
            done.append(change)
    except (OSError, Refused):
        for change in reversed(done):
            _back(change)
        for temporary in made.values():
            with contextlib.suppress(OSError):
                temporary.unlink()
        raise


def _back(change: FileChange) -> None:
    """Undo one change that was made a moment ago."""
    with contextlib.suppress(OSError):
        if change.before is None:
            Path(change.real).unlink()
        else:
            temporary = beside(msgspec.structs.replace(change, after=change.before))
            temporary.replace(change.real)
