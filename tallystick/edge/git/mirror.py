"""Our own bare mirror of a repository: made, locked, filled with verified objects, pinned.

`refs/tally/COMMIT` keeps a commit and all it needs; `refs/tally-snapshot/COMMIT` marks one that the host made itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

from tallystick.core.errors import Refused, conflict, not_found, unavailable
from tallystick.edge.git import shallow
from tallystick.edge.git.names import check_object, check_repository
from tallystick.edge.git.place import Place
from tallystick.edge.git.spawn import MEBIBYTE, Call, Done, Spawn

PINS: Final = "refs/tally"
SNAPSHOTS: Final = "refs/tally-snapshot"
INCOMING: Final = "incoming-"

FETCH_SECONDS: Final = 900.0
_LOCK_TRIES: Final = 2400
_LOCK_PAUSE_SECONDS: Final = 0.05
_TIPS_OFFERED: Final = 64
_LOOSE_PINS: Final = 256
_PACKS: Final = 48
_ROOM_NEEDED: Final = 16 * MEBIBYTE

# Old and odd, but harmless: they stand in the metadata of real histories. What could lead a path out of a tree (`.git`,
# `..`, slashes, entries out of order or double) is never let in. `.gitmodules` is data: submodules are not fetched.
_HARMLESS: Final = (
    "badDate",
    "badDateOverflow",
    "badEmail",
    "badName",
    "badTimezone",
    "badFilemode",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "missingTaggerEntry",
    "multipleAuthors",
    "nulInCommit",
    "zeroPaddedDate",
    "zeroPaddedFilemode",
    "gitmodulesBlob",
    "gitmodulesLarge",
    "gitmodulesMissing",
    "gitmodulesName",
    "gitmodulesParse",
    "gitmodulesPath",
    "gitmodulesUpdate",
    "gitmodulesUrl",
)


class Mirror:
    """The bare mirror of one repository under `home/mirrors`, written by one process tree at a time."""

    def __init__(self, spawn: Spawn, folder: Path, repository: str) -> None:
        self.spawn = spawn
        self.repository = check_repository(repository)
        self.path = folder / f"{repository}.git"
        self.brought: set[str] = set()
        """Commits that this host brought in or found here: pins are kept for good."""
        self._lock = asyncio.Lock()

    @property
    def objects(self) -> Path:
        """Where its objects are."""
        return self.path / "objects"

    async def run(self, *arguments: str, **options: Any) -> Done:
        """Run git in the mirror; options as in `Call`. Refused if there is no mirror yet."""
        if not self.path.is_dir():
            raise not_found(
                f"Nothing of repository {self.repository} is known here.",
                "Bring a commit in first, by asking or fetching.",
            )
        return await self.spawn.run(*arguments, call=Call(git_dir=self.path, **options))

    async def need(self, *arguments: str, **options: Any) -> bytes:
        """The output of a call that has no reason to fail."""
        return await self.spawn.need(*arguments, call=Call(git_dir=self.path, **options))

    async def has(self, commit: str) -> bool:
        """Whether it holds this very commit."""
        check_object(commit)
        if not self.path.is_dir():
            return False
        done = await self.run("cat-file", "-t", commit)
        return done.code == 0 and done.text == "commit"

    async def require(self, commit: str) -> None:
        """Refused unless the mirror holds the commit."""
        if not await self.has(commit):
            raise not_found(
                f"Commit {commit} cannot be resolved in repository {self.repository}.",
                "Name a commit of this repository that was fetched or handed in.",
            )

    async def pinned(self, commit: str) -> bool:
        """Whether a pin of ours keeps the commit."""
        if not self.path.is_dir():
            return False
        return (await self.run("show-ref", "--verify", "--quiet", f"{PINS}/{commit}")).code == 0

    async def pin(self, commit: str, held: int, *, snapshot: bool = False) -> None:
        """Keep a commit for good."""
        wanted = [PINS, SNAPSHOTS] if snapshot else [PINS]
        orders = "".join(f"update {place}/{commit} {commit}\n" for place in wanted)
        await self.need("update-ref", "--no-deref", "--stdin", stdin=orders.encode(), held=held)

    async def fetch(self, place: Place, commit: str, object_format: str) -> None:
        """Bring a commit of a user's repository in with all its history, verified, and pin it."""
        if not await self.pinned(commit):
            async with self.writing() as held:
                await self.make(object_format, held)
                if not await self.has(commit):
                    with self.room() as room:
                        await _Delivery(self, place, commit, room, held).bring()
                await self.pin(commit, held)
                await self._tidy(held)
        self.brought.add(commit)

    async def make(self, object_format: str, held: int) -> None:
        """Make the mirror if there is none. Refused if there is one of another object format."""
        if self.path.is_dir():
            present = (await self.run("rev-parse", "--show-object-format")).text
            if present != object_format:
                raise conflict(
                    f"Repository {self.repository} is kept as {present}, this work tree is {object_format}.",
                    "Register this work tree as a repository of its own.",
                )
            return
        making = self.path.with_suffix(".making")
        await asyncio.to_thread(_start_over, making)
        await self.spawn.need(
            "init",
            "--quiet",
            "--bare",
            "--template=",
            f"--object-format={object_format}",
            call=Call(git_dir=making, held=held),
        )
        await asyncio.to_thread(making.rename, self.path)

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[int]:
        """Hold the mirror for writing; gives the descriptor that children must inherit.

        The lock lives in the kernel as long as a process of ours or a child of an earlier, killed host holds it. So
        whoever gets it knows that lock files and half-written packs in the mirror belong to nobody.
        """
        async with self._lock:
            held = await self._claim()
            try:
                await asyncio.to_thread(_sweep, self.path)
                yield held
            finally:
                os.close(held)

    @contextlib.contextmanager
    def room(self) -> Iterator[Path]:
        """A private directory inside the mirror, gone afterwards; only while the mirror is held."""
        with tempfile.TemporaryDirectory(dir=self.path, prefix=INCOMING) as room:
            yield Path(room)

    async def _claim(self) -> int:
        await asyncio.to_thread(self.path.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
        held = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            for _ in range(_LOCK_TRIES):
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return held
                await asyncio.sleep(_LOCK_PAUSE_SECONDS)
        except BaseException:
            os.close(held)
            raise
        os.close(held)
        raise unavailable(
            f"The mirror of {self.repository} is being written by another process.", "Try again in a minute."
        )

    async def _tidy(self, held: int) -> None:
        loose, packs = await asyncio.to_thread(_clutter, self.path)
        if loose > _LOOSE_PINS:
            await self.run("pack-refs", "--all", held=held)
        if packs > _PACKS:
            await self.run("repack", "--geometric=2", "-d", "-n", "-q", held=held, seconds=FETCH_SECONDS)


class _Delivery:
    """One commit on its way in: packed, indexed and checked in a quarantine, then moved."""

    def __init__(self, mirror: Mirror, place: Place, commit: str, room: Path, held: int) -> None:
        self._mirror, self._place, self._commit, self._held = mirror, place, commit, held
        self._pack = room / "pack"
        self._quarantine = room / "objects"
        self._shallow = room / "shallow"

    async def bring(self) -> None:
        theirs, ours = shallow.read(self._place.common), shallow.read(self._mirror.path)
        # With another horizon the tips we have may hide history we lack: then nothing is left out.
        tips = await self._tips() if not ours or ours == theirs else []
        await self._collect(tips, shallow.write(self._shallow, theirs))
        horizon = shallow.write(self._shallow, theirs | ours)
        await self._index(horizon)
        await self._prove(horizon)
        cut = await shallow.still_cut(self._quarantined, theirs | ours) if theirs or ours else frozenset()
        # In this order a crash leaves at most unpinned objects or a horizon of commits that are not there.
        shallow.write(self._mirror.path / "shallow", cut)
        await asyncio.to_thread(_move_packs, self._quarantine / "pack", self._mirror.objects / "pack")

    async def _tips(self) -> list[str]:
        done = await self._mirror.run(
            "for-each-ref", "--sort=-committerdate", f"--count={_TIPS_OFFERED}", "--format=%(objectname)", PINS
        )
        return done.text.split()

    async def _collect(self, tips: list[str], horizon: str) -> None:
        wanted = "\n".join([self._commit, *(f"^{tip}" for tip in tips), ""])
        done = await self._mirror.run(
            "pack-objects", "--revs", "--stdout", "--quiet", "--delta-base-offset",
            alternates=self._place.objects, shallow=horizon, stdin=wanted.encode(), output=self._pack,
            seconds=FETCH_SECONDS, held=self._held,
        )  # fmt: skip
        if done.code:
            await self._refuse_without_room()
            raise self._incomplete()

    async def _index(self, horizon: str) -> None:
        await asyncio.to_thread((self._quarantine / "pack").mkdir, parents=True)
        done = await self._quarantined(
            "index-pack",
            "--stdin",
            "--strict=" + ",".join(f"{fault}=ignore" for fault in _HARMLESS),
            shallow=horizon,
            stdin=self._pack,
            seconds=FETCH_SECONDS,
        )
        if done.code:
            await self._refuse_without_room()
            raise conflict(
                f"Commit {self._commit} is refused: an object of its history is broken or hostile.",
                "Run `git fsck --full` in the repository to see which one, and hand in a commit without it.",
            )

    async def _prove(self, horizon: str) -> None:
        done = await self._quarantined(
            "rev-list", "--objects", "--quiet", self._commit, "--not", f"--glob={PINS}/*",
            shallow=horizon, seconds=FETCH_SECONDS,
        )  # fmt: skip
        if done.code:
            raise self._incomplete()

    async def _quarantined(self, *arguments: str, **options: Any) -> Done:
        return await self._mirror.run(
            *arguments, objects=self._quarantine, alternates=self._mirror.objects, held=self._held, **options
        )

    async def _refuse_without_room(self) -> None:
        # git ends with the same code for a full disk as for a missing object.
        free = (await asyncio.to_thread(shutil.disk_usage, self._mirror.path)).free
        if free < _ROOM_NEEDED:
            raise unavailable("The disk of the host's home is full.", "Make room there, then try again.")

    def _incomplete(self) -> Refused:
        return not_found(
            f"Commit {self._commit} cannot be resolved: part of what it needs is missing in {self._place.root}.",
            "Fetch what is missing (`git fetch --unshallow` in a shallow clone; without filter in a partial one).",
        )


def _start_over(making: Path) -> None:
    if making.is_dir():
        shutil.rmtree(making)
    making.mkdir(mode=0o700)


def _move_packs(source: Path, target: Path) -> None:
    # A pack counts from the moment its index is there: the index comes last.
    for file in sorted(source.iterdir(), key=lambda found: found.suffix == ".idx"):
        file.rename(target / file.name)


def _sweep(mirror: Path) -> None:
    patterns = (
        "*.lock",
        "refs/*.lock",
        "refs/*/*.lock",
        "objects/pack/tmp_*",
        "objects/??/tmp_obj_*",
        "fast_import_crash_*",
    )
    for pattern in patterns:
        for stale in mirror.glob(pattern):
            stale.unlink(missing_ok=True)
    for stale in mirror.glob(f"{INCOMING}*"):
        shutil.rmtree(stale, ignore_errors=True)


def _clutter(mirror: Path) -> tuple[int, int]:
    pins = mirror / PINS
    loose = sum(1 for _ in pins.iterdir()) if pins.is_dir() else 0
    return loose, sum(1 for _ in (mirror / "objects" / "pack").glob("*.pack"))
