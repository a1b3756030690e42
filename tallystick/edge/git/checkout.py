"""Clean work trees: written from the mirror, with a small repository of their own, and removed again.

The tree is put together in an index first and written once into an empty directory, so no link of it is ever written
through. The small repository has our configuration only: no filter driver, no hook. Its objects are the mirror's, as an
alternate: whoever runs something in there must be able to read the mirror.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
from pathlib import Path
from typing import Any, Final

from tallystick.core.errors import conflict, invalid
from tallystick.edge.git import shallow
from tallystick.edge.git.mirror import Mirror
from tallystick.edge.git.names import check_object, check_path
from tallystick.edge.git.spawn import Call, quoted

_SECONDS: Final = 600.0


async def check_out(mirror: Mirror, commit: str, target: Path, protect: tuple[str, ...], origin: str) -> None:
    """Write a clean work tree of a commit at `target`, which must not be there or be empty.

    `protect` names files and directories. What `origin` has of them is put back: changed and removed files, and files
    in whose place something else was put. Files that `origin` does not have stay: new tests are work, not tampering. (A
    new `conftest.py` under a protected directory stays too; it shows in `changes`.) HEAD is the commit, so what was put
    back shows as a difference to HEAD.
    """
    for path in protect:
        check_path(path)
    if protect:
        check_object(origin)
        await mirror.require(origin)
    await mirror.require(commit)
    making = target.with_name(f".making-{target.name}")
    await asyncio.to_thread(_prepare, target, making)
    await _Checkout(mirror, making).write(commit, protect, origin)
    await asyncio.to_thread(_put, making, target)


def inside(worktrees: Path, target: Path) -> Path:
    """`target` with its parents resolved, or a refusal unless it lies below the directory of work trees."""
    home = worktrees.resolve()
    place = target.parent.resolve() / target.name
    if target.name in {"", ".", ".."} or home not in place.parents:
        raise invalid(f"{target} is refused: it is not below {home}.", "Name a directory below it.")
    return place


def remove(target: Path) -> None:
    """Remove a work tree, and what is there of one that was never finished; nothing there is fine. A link is removed as
    a link, never followed."""
    _clear(target.with_name(f".making-{target.name}"))
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(target.lstat().st_mode):
            raise conflict(
                f"{target} is no work tree: it is not a directory.", "Look at what it is before doing anything."
            )
        leaving = target.with_name(f".leaving-{target.name}")
        _clear(leaving)
        target.rename(leaving)
        _clear(leaving)


def check_own(mirror: Mirror, target: Path) -> None:
    """Refuse a work tree of ours whose repository now leads elsewhere: what ran in there may have put another in its
    place, and we would read for it what it cannot see itself. Nothing may run in it any more."""
    git_dir = target / ".git"
    own = git_dir / "objects" / "info" / "alternates"
    links = git_dir.is_symlink() or any(
        Path(here, name).is_symlink() for here, folders, files in os.walk(git_dir) for name in (*folders, *files)
    )
    expected = quoted(os.fsencode(mirror.objects.resolve())) + b"\n"
    kept = git_dir.is_dir() and own.is_file() and own.stat().st_size == len(expected)
    if links or not kept or own.read_bytes() != expected or os.path.lexists(git_dir / "commondir"):
        raise conflict(f"The repository of {target} was replaced.", "Leave `.git` as it is; commits in it are fine.")


class _Checkout:
    def __init__(self, mirror: Mirror, target: Path) -> None:
        self._mirror, self._target, self._git_dir = mirror, target, target / ".git"

    async def write(self, commit: str, protect: tuple[str, ...], origin: str) -> None:
        object_format = "sha256" if len(commit) == 64 else "sha1"
        # Started beside its git directory: inside it, git would make a bare repository.
        call = Call(git_dir=self._git_dir, directory=self._target)
        await self._mirror.spawn.need("init", "--quiet", "--template=", f"--object-format={object_format}", call=call)
        await asyncio.to_thread(self._borrow, commit)
        await self._need("read-tree", commit)
        if protect:
            await self._need("update-index", "-z", "--replace", "--index-info", stdin=await self._kept(origin, protect))
        await self._need("checkout-index", "--all", "--force", "--index", "--quiet")

    def _borrow(self, commit: str) -> None:
        alternates = self._git_dir / "objects" / "info" / "alternates"
        alternates.parent.mkdir(exist_ok=True)
        alternates.write_bytes(quoted(os.fsencode(self._mirror.objects.resolve())) + b"\n")
        (self._git_dir / "HEAD").write_text(f"{commit}\n")
        shallow.write(self._git_dir / "shallow", shallow.read(self._mirror.path))

    async def _kept(self, origin: str, protect: tuple[str, ...]) -> bytes:
        return await self._mirror.need("ls-tree", "-r", "-z", "--full-tree", origin, "--", *protect)

    async def _need(self, *arguments: str, **options: Any) -> bytes:
        call = Call(git_dir=self._git_dir, work_tree=self._target, seconds=_SECONDS, **options)
        return await self._mirror.spawn.need(*arguments, call=call)


def _prepare(target: Path, making: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.path.lexists(target) and (target.is_symlink() or not target.is_dir() or any(target.iterdir())):
        raise conflict(f"{target} is refused: something is there already.", "Name a directory that does not exist yet.")
    _clear(making)
    (making / ".git").mkdir(mode=0o700, parents=True)
    making.chmod(0o700)


def _put(making: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        target.rmdir()
    making.rename(target)


def _clear(folder: Path) -> None:
    if not os.path.lexists(folder):
        return
    for here, folders, _ in os.walk(folder, followlinks=False):
        for name in folders:
            _open_up(Path(here, name))
    shutil.rmtree(folder)


def _open_up(folder: Path) -> None:
    # rmtree needs to write in each directory; what ran in there may have taken that away.
    state = folder.lstat()
    if stat.S_ISDIR(state.st_mode) and state.st_mode & 0o700 != 0o700:
        folder.chmod(state.st_mode | 0o700)
