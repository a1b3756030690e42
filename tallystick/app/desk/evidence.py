"""References as people type them, made at the door: found, read once, their digests taken or compared."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from pathlib import Path

import msgspec

from tallystick.app.desk.ground import Ground
from tallystick.app.desk.interface import Guest
from tallystick.core.errors import Refused, invalid
from tallystick.core.model import BlobReference, ExternalReference, GitReference, Reference
from tallystick.core.state import Task

_LINES = re.compile(r"(.+):(\d{1,18})(?:-(\d{1,18}))?\Z")
_BLOB = re.compile(r"blob:([0-9a-f]{64})\Z")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S+\Z")
_FILE_BYTES = 64 * 1024 * 1024


class Shown(msgspec.Struct, frozen=True):
    """What a hand-in was seen to consist of."""

    commit: str = ""
    references: tuple[Reference, ...] = ()
    commits: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    blank: tuple[str, ...] = ()


class Evidence(Ground):
    """Makes references, and looks at what is handed in."""

    async def reference(self, guest: Guest, typed: str) -> Reference:
        """`PATH`, `PATH:10-20`, a revision, `REV:PATH`, `blob:sha256`, or a URL."""
        if "\0" in typed:
            raise invalid(f"{typed!r} contains a NUL character.", "Name a path, a revision, a blob or a URL.")
        blob = _BLOB.match(typed)
        if blob:
            return await self._blob(blob.group(1))
        if _URL.match(typed):
            return ExternalReference(target=typed)
        place = self.directory.workspaces[guest.workspace]
        if not place.repository:
            return await self._file(guest, typed)
        return await self._in_repository(guest, typed, place.repository)

    async def _blob(self, sha256: str) -> BlobReference:
        data = await asyncio.to_thread(self.s.blobs.get, sha256)
        return BlobReference(sha256=sha256, size=len(data))

    async def _file(self, guest: Guest, typed: str) -> BlobReference:
        """A file outside any repository: its bytes are kept, so that what was meant can be read later."""
        if not guest.directory:
            raise invalid("Files can only be named from a working directory.", "Say which one, in `cwd`.")
        path = Path(os.path.normpath(Path(guest.directory, typed)))  # noqa: ASYNC240 - it only looks at the words
        if not path.is_relative_to(guest.directory):
            raise invalid(f"{typed!r} is outside of the working directory.", "Go there, or copy it here first.")
        data = await asyncio.to_thread(_read_once, path)
        if data is None:
            raise invalid(f"{typed!r} is not a file that can be referred to.", "Name a regular file, not a link.")
        digest = await asyncio.to_thread(self.s.blobs.put, data)
        return BlobReference(sha256=digest, size=len(data), name=path.name)

    async def _in_repository(self, guest: Guest, typed: str, repository: str) -> GitReference:
        root = await self._root(guest)
        lines = _LINES.match(typed)
        path, span = typed, None
        if lines and not await asyncio.to_thread(os.path.lexists, root / typed):
            path = lines.group(1)
            span = (int(lines.group(2)), int(lines.group(3) or lines.group(2)))
        inside = await asyncio.to_thread(_inside, Path(guest.directory or root), root, path)
        if inside is not None:
            return await self._path(repository, root, inside, span)
        revision, mark, rest = path.partition(":")
        commit = await self.s.git.fetch(repository, root, revision)
        return await self.s.git.refer(repository, commit, rest if mark else "", span if mark else None)

    async def _path(self, repository: str, root: Path, path: str, span: tuple[int, int] | None) -> GitReference:
        """A file of the work tree: at HEAD where it is the same there, else in a snapshot of the uncommitted work."""
        snapshot = await self.s.git.snapshot(repository, root)
        changed: set[str] = set()
        if snapshot.commit != snapshot.base and snapshot.base:
            changed = {c.path for c in await self.s.git.changes(repository, snapshot.base, snapshot.commit)}
        if snapshot.base and not _touches(path, changed):
            await self.s.git.fetch(repository, root, snapshot.base)
            return await self.s.git.refer(repository, snapshot.base, path, span)
        found = await self.s.git.refer(repository, snapshot.commit, path, span)
        return msgspec.structs.replace(found, snapshot_of=snapshot.base)

    async def _root(self, guest: Guest) -> Path:
        """The work tree the guest stands in, if it is one of this workspace's repository; else the main one."""
        place = self.directory.workspaces[guest.workspace]
        if guest.directory:
            found = await self.s.git.locate(Path(guest.directory))
            if found is not None and self._is_own(guest, found.root):
                return Path(found.root)
            if found is not None and place.common_directory in ("", found.common_directory):
                return Path(found.root)
        return Path(place.root)

    def _is_own(self, guest: Guest, root: str) -> bool:
        """Whether it is the work tree that the host made for the session which calls."""
        session = self.directory.sessions.get(guest.actor.session)
        return session is not None and session.place == root

    async def base(self, guest: Guest) -> tuple[str, str]:
        """The workspace's repository and what HEAD is now, brought into the mirror; empty where there is none."""
        place = self.directory.workspaces[guest.workspace]
        if not place.repository:
            return "", ""
        try:
            commit = await self.s.git.fetch(place.repository, await self._root(guest), "HEAD")
        except Refused:
            return place.repository, ""  # no commit yet
        return place.repository, commit

    async def readable(self, reference: Reference, workspace: str) -> None:
        """Early check that the recipient will be able to read it. Refused with what is wrong."""
        if isinstance(reference, GitReference):
            repository = self.directory.workspaces[workspace].repository
            if reference.repository != repository:
                raise invalid(
                    "A reference belongs to another repository than this workspace.",
                    "Refer to something in this workspace, or hand over the file itself.",
                )
        if not isinstance(reference, ExternalReference):
            verdict = await self.s.verifier.check_reference(reference)
            if verdict != "ok":
                raise invalid(f"A reference cannot be read: {verdict}", "Name it again.")

    # --- what is handed in --------------------------------------------------------------------------------------

    async def look_at(self, guest: Guest, task: Task, commit: str, files: tuple[str, ...]) -> Shown:
        """Resolve everything a hand-in names, and see what it changed."""
        references: list[Reference] = []
        for typed in files:
            found = await self.reference(guest, typed)
            await self.readable(found, task.workspace)
            references.append(found)
        blank = tuple([typed for typed, found in zip(files, references, strict=True) if await self._is_blank(found)])
        if not commit:
            return Shown(references=tuple(references), blank=blank)
        place = self.directory.workspaces[task.workspace]
        if not place.repository:
            raise invalid("This workspace is not a git repository.", "Hand in files instead: --file PATH.")
        full = await self.s.git.fetch(place.repository, await self._root(guest), commit)
        whole = await self.s.git.refer(place.repository, full, "", None)
        commits, changed = await self._changes(place.repository, task.base_commit, full)
        return Shown(full, (whole, *references), commits, changed, blank)

    async def _changes(self, repository: str, base: str, commit: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if not base or base == commit:
            return (), ()
        changes = await self.s.git.changes(repository, base, commit)
        commits = await self.s.git.log_between(repository, base, commit)
        return tuple(commits), tuple(c.path for c in changes)

    async def _is_blank(self, reference: Reference) -> bool:
        """Empty or white space only. Whole trees and what is outside are not looked at."""
        if isinstance(reference, GitReference) and reference.path:
            return not (await self.s.git.read(reference)).strip()
        if isinstance(reference, BlobReference):
            return not (await asyncio.to_thread(self.s.blobs.get, reference.sha256)).strip()
        return False


def _touches(path: str, changed: set[str]) -> bool:
    return path in changed or any(c.startswith(f"{path}/") for c in changed)


def _inside(directory: Path, root: Path, typed: str) -> str | None:
    """The path below the root that an existing file as typed has; None if nothing is there."""
    path = Path(directory, typed)
    if not os.path.lexists(path):
        return None
    parent = Path(os.path.realpath(path.parent))
    try:
        return str((parent / path.name).relative_to(os.path.realpath(root)))
    except ValueError:
        raise invalid(f"{typed!r} is outside of this workspace.", "Refer to something inside it.") from None


def _read_once(path: Path) -> bytes | None:
    """The bytes of a regular file, read once, following no link and blocking on nothing.

    What the kernel makes up (below /proc or /sys) says it is empty, or of another size than it has: it is no file."""
    if os.path.realpath(path) != str(path):
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > _FILE_BYTES:
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(_FILE_BYTES + 1)
        return data if len(data) == status.st_size else None
