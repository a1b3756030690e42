"""The port `app.ports.Git` on the git command line. What each call does stands in the file it leads to."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from tallystick.app.ports import Change, Line, Located, Repository, Snapshot, WorkState
from tallystick.core.errors import ErrorCode, Refused, not_found, unavailable, unsupported
from tallystick.core.model import GitReference
from tallystick.edge.git import blame, checkout, history, references, snapshot, state
from tallystick.edge.git.mirror import Mirror
from tallystick.edge.git.names import check_object, check_revision
from tallystick.edge.git.place import Place, head_commit, locate
from tallystick.edge.git.source import Source
from tallystick.edge.git.spawn import Call, Spawn

OLDEST: Final = (2, 32)
"""The oldest git this works with: `GIT_CONFIG_GLOBAL` came with it."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _answered(call: Callable[_P, Awaitable[_R]]) -> Callable[_P, Coroutine[Any, Any, _R]]:
    """What the file system says no to leaves this edge as a refusal, like everything else."""

    @functools.wraps(call)
    async def answered(*arguments: _P.args, **options: _P.kwargs) -> _R:
        try:
            return await call(*arguments, **options)
        except OSError as failed:
            raise unavailable(
                f"The work with git stopped: {failed.strerror or 'the file system refused'}.",
                "Look at the free space and the permissions of the host's home and of the work tree, then try again.",
            ) from failed

    return answered


class GitCommands:
    """Git for the host. Mirrors lie in `home/mirrors`, work trees in `home/worktrees`.

    `environment` gives PATH and where the person's own ignore file is; nothing else of it reaches git.
    """

    def __init__(self, home: Path, git: str = "git", environment: dict[str, str] | None = None) -> None:
        given = dict(os.environ) if environment is None else environment
        self._mirrors = home / "mirrors"
        self._worktrees = home / "worktrees"
        self._spawn = Spawn(git, given.get("PATH", os.defpath))
        self._given = given
        self._known: dict[str, Mirror] = {}
        self._evidence: dict[str, str] = {}

    async def locate(self, directory: Path) -> Located | None:
        """The work tree that a directory is in, at the cost of a few file look-ups; None for none."""
        place = locate(directory)
        return Located(str(place.root), str(place.common)) if place else None

    @_answered
    async def find(self, directory: Path) -> Repository | None:
        """The repository a directory is in; None for none, a bare one, or one that git cannot open."""
        place = await asyncio.to_thread(locate, directory)
        if place is None:
            return None
        source = Source(self._spawn, place)
        described = await source.describe()
        if described is None or described[1]:
            return None
        return Repository(
            root=str(place.root),
            common_directory=str(place.common),
            main_root=str(place.main_root),
            evidence=await self._evidence_of(source, described[0]),
        )

    @_answered
    async def fetch(self, repository: str, root: Path, revision: str) -> str:
        """Bring the commit that `revision` names in `root` into the mirror, verified and pinned; its full id."""
        check_revision(revision)
        mirror, source = self._mirror(repository), await self._source(root)
        if revision == "HEAD" and (head := head_commit(source.place)) in mirror.brought:
            return head  # nothing was committed since: every ask would start git several times to learn that
        commit = await source.resolve(revision)
        await mirror.fetch(source.place, commit, await source.object_format())
        return commit

    @_answered
    async def refer(self, repository: str, commit: str, path: str, lines: tuple[int, int] | None) -> GitReference:
        """A reference to a path (or "" for the whole tree) at a commit in the mirror."""
        return await references.refer(self._mirror(repository), commit, path, lines)

    @_answered
    async def read(self, reference: GitReference) -> bytes:
        """The bytes, read once, whose digest matches. Refused otherwise."""
        return await references.read(self._mirror(reference.repository), reference)

    @_answered
    async def snapshot(self, repository: str, root: Path) -> Snapshot:
        """Uncommitted work of a work tree, untracked files included, as a commit in the mirror."""
        mirror = self._mirror(repository)
        if root.resolve().is_relative_to(self._worktrees.resolve()):  # noqa: ASYNC240 - two look-ups
            await asyncio.to_thread(checkout.check_own, mirror, root)
        source = await self._source(root)
        return await snapshot.take(mirror, source, await asyncio.to_thread(self._own_ignore_file))

    @_answered
    async def state(self, directory: Path) -> WorkState | None:
        """The commit a work tree stands at and what was changed since, by its listings alone; None for none."""
        place = await asyncio.to_thread(locate, directory)
        if place is None:
            return None
        return await state.look(Source(self._spawn, place), await asyncio.to_thread(self._own_ignore_file))

    @_answered
    async def tip(self, directory: Path, revision: str) -> str:
        """The commit that a name stands for there; empty where it names none now."""
        place = await asyncio.to_thread(locate, directory)
        if place is None:
            return ""
        try:
            return await Source(self._spawn, place).resolve(revision)
        except Refused as refusal:
            if refusal.code is ErrorCode.NOT_FOUND:
                return ""
            raise

    @_answered
    async def has(self, repository: str, commit: str) -> bool:
        """Whether the mirror holds the commit."""
        return await self._mirror(repository).has(commit)

    @_answered
    async def changes(self, repository: str, base: str, commit: str) -> list[Change]:
        """What differs from `base` to `commit`."""
        return await history.changes(self._mirror(repository), base, commit)

    @_answered
    async def is_ancestor(self, repository: str, ancestor: str, commit: str) -> bool:
        """Whether `commit` descends from `ancestor` (or is it)."""
        return await history.is_ancestor(self._mirror(repository), ancestor, commit)

    @_answered
    async def check_out(
        self, repository: str, commit: str, target: Path, protect: tuple[str, ...] = (), base: str = ""
    ) -> None:
        """A clean work tree of `commit` at `target`, below `home/worktrees`; `protect` as in `checkout.check_out`."""
        check_object(commit)
        place = await asyncio.to_thread(checkout.inside, self._worktrees, target)
        await checkout.check_out(self._mirror(repository), commit, place, protect, base)

    @_answered
    async def remove(self, target: Path) -> None:
        """Remove a work tree below `home/worktrees`; one that is not there is fine."""
        place = await asyncio.to_thread(checkout.inside, self._worktrees, target)
        await asyncio.to_thread(checkout.remove, place)

    @_answered
    async def trace_line(self, root: Path, path: str, line: int) -> Line:
        """Where a line of a file in a work tree comes from (blame)."""
        source = await self._source(root)
        head = await source.resolve("HEAD")
        await asyncio.to_thread(self._mirrors.mkdir, mode=0o700, parents=True, exist_ok=True)
        return await blame.trace_line(self._spawn, self._mirrors, source.place, head, path, line)

    @_answered
    async def log_between(self, repository: str, base: str, commit: str) -> list[str]:
        """The commits reachable from `commit` and not from `base`, oldest first."""
        return await history.log_between(self._mirror(repository), base, commit)

    @_answered
    async def trailers(self, repository: str, commits: Iterable[str]) -> dict[str, str]:
        """The task id in the `Tally-Task:` trailer of each commit that has one."""
        return await history.trailers(self._mirror(repository), commits)

    @_answered
    async def version(self) -> str:
        """The version of git. Refused as `unsupported` if it is too old."""
        out = await self._spawn.need("--version", call=Call(git_dir=Path("/")))
        words = out.decode("utf-8", "replace").split()
        version = words[2] if len(words) > 2 else ""
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
        if numbers < OLDEST:
            raise unsupported(f"git {version or 'of an unknown version'} is too old.", "Install git 2.32 or newer.")
        return version

    def _mirror(self, repository: str) -> Mirror:
        if repository not in self._known:
            self._known[repository] = Mirror(self._spawn, self._mirrors, repository)
        return self._known[repository]

    async def _source(self, root: Path) -> Source:
        place: Place | None = await asyncio.to_thread(locate, root)
        if place is None:
            raise not_found(f"{root} is not in the work tree of a git repository.", "Name a directory inside one.")
        return Source(self._spawn, place)

    async def _evidence_of(self, source: Source, object_format: str) -> str:
        # The inode tells a repository from a later one at the same place.
        key = f"{source.place.common}:{(await asyncio.to_thread(source.place.common.stat)).st_ino}"
        if not self._evidence.get(key):
            self._evidence[key] = await source.evidence(object_format)
        return self._evidence[key]

    def _own_ignore_file(self) -> Path | None:
        # Only git's default place: what a person ignores everywhere (secrets among it) stays out of snapshots.
        config = self._given.get("XDG_CONFIG_HOME") or str(Path(self._given.get("HOME") or "/") / ".config")
        path = Path(config) / "git" / "ignore"
        return path if path.is_file() else None
