"""What was there before: for each file that an installation changed, its bytes and what was written, in the home."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from tallystick.app.clients import FileChange
from tallystick.edge.clients import files


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One file. `before` beside it holds what it was, where it was."""

    client: str
    project: str
    path: str
    existed: bool
    mode: int
    after: str
    """sha256 of what was written last: whoever finds other bytes knows that somebody else wrote since."""
    folders: tuple[str, ...] = ()
    """Folders that were made for it, outermost first."""


class Kept:
    """The folder `backups` of the home."""

    def __init__(self, home: Path) -> None:
        self._place = home / "backups"

    def _folder(self, path: str) -> Path:
        return self._place / hashlib.sha256(os.fsencode(path)).hexdigest()[:24]

    def record(self, path: str) -> Record | None:
        """What is known of a file; None where nothing of it was kept, or it cannot be read."""
        try:
            return msgspec.json.decode((self._folder(path) / "record.json").read_bytes(), type=Record)
        except (OSError, msgspec.MsgspecError):
            return None

    def before(self, record: Record) -> bytes | None:
        """The bytes that a file had."""
        return (self._folder(record.path) / "before").read_bytes() if record.existed else None

    def all(self) -> list[Record]:
        """Everything that was changed and not yet put back."""
        try:
            folders = sorted(self._place.iterdir())
        except OSError:
            return []
        found = []
        for folder in folders:
            try:
                found.append(msgspec.json.decode((folder / "record.json").read_bytes(), type=Record))
            except (OSError, msgspec.MsgspecError):
                continue
        return found

    def keep(self, client: str, project: str, change: FileChange) -> None:
        """Keep what a file was, before it is changed. Written whole, and flushed to the disk."""
        known = self.record(change.path)
        folders = known.folders if known else tuple(str(f) for f in _absent(Path(change.real).parent))
        record = Record(
            client=client,
            project=project,
            path=change.path,
            existed=change.kept is not None,
            mode=change.kept_mode,
            after=digest(change.after),
            folders=folders,
        )
        folder = self._folder(change.path)
        if change.kept is not None:
            _put(folder / "before", change.kept)
        _put(folder / "record.json", msgspec.json.encode(record))

    def copy(self, change: FileChange) -> None:
        """Keep what a removal is about to take away, in case somebody misses it."""
        if change.before is not None:
            _put(self._folder(change.path) / "removed", change.before)

    def forget(self, path: str) -> None:
        """A file is as it was: the record goes, and the folders that were made for it if they are empty."""
        record = self.record(path)
        if record is None:
            return
        for name in ("record.json", "before"):
            (self._folder(path) / name).unlink(missing_ok=True)
        for folder in reversed(record.folders):
            try:
                Path(folder).rmdir()
            except OSError:
                break


def digest(data: bytes | None) -> str:
    """The sha256 of bytes; empty for no file."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


def _absent(folder: Path) -> list[Path]:
    return [f for f in reversed((folder, *folder.parents)) if not f.exists()]


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    change = FileChange(path=str(path), real=str(path), before=None, after=data, mode=0o600)
    files.beside(change).replace(path)
