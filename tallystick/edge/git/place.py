"""Where a repository is: found by us, so that nothing a repository says decides which directory is trusted.

`core.worktree` in a hostile configuration could name a person's home as the work tree; here the work tree is the
directory that holds `.git`, always. A bare repository embedded in a work tree is no repository to us.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

import msgspec

_LONGEST_POINTER: Final = 8192


class Place(msgspec.Struct, frozen=True):
    """A work tree and its git directories, all resolved. `linked`: made by `git worktree add`."""

    root: Path
    git_dir: Path
    common: Path
    linked: bool

    @property
    def objects(self) -> Path:
        """Where its objects are."""
        return self.common / "objects"

    @property
    def main_root(self) -> Path:
        """Top level of the main work tree, or this one where the main repository has none."""
        if self.linked and self.common.name == ".git":
            return self.common.parent
        return self.root


def locate(directory: Path) -> Place | None:
    """The work tree that `directory` is in, or None. Symbolic links are resolved; mounts are not crossed.

    Done for every call of a client, so it works on plain strings: path objects cost eight times as much.
    """
    try:
        folder = os.path.realpath(directory, strict=True)
        device = os.stat(folder).st_dev
        while os.stat(folder).st_dev == device and not is_git_directory(folder):
            dot = f"{folder.rstrip('/')}/.git"
            if os.path.isfile(dot) or is_git_directory(dot):
                return _place(Path(folder), Path(dot))
            above = os.path.dirname(folder)
            if above == folder:
                return None
            folder = above
    except (OSError, RuntimeError, ValueError):
        pass
    return None


def is_git_directory(folder: Path | str) -> bool:
    """Whether git would take `folder` for a git directory."""
    if not os.path.lexists(f"{folder}/HEAD"):
        return False
    if os.path.isfile(f"{folder}/commondir"):
        return True
    return os.path.isdir(f"{folder}/objects") and os.path.isdir(f"{folder}/refs")


def read_pointer(path: Path) -> str:
    """The one line of a small regular file of a git directory; "" if it is anything else. Never blocks."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        text = os.fsdecode(os.read(descriptor, _LONGEST_POINTER)).rstrip("\r\n")
    finally:
        os.close(descriptor)
    return "" if "\n" in text or "\0" in text else text


def head_commit(place: Place) -> str:
    """The id that HEAD holds, or that the file of its branch holds; "" where only git can tell (packed, no commit)."""
    try:
        held = read_pointer(place.git_dir / "HEAD")
        branch = held.removeprefix("ref: ")
        if branch == held:
            return held
        inside = branch.startswith("refs/heads/") and ".." not in branch
        return read_pointer(place.common / branch) if inside else ""
    except OSError:
        return ""


def _place(root: Path, dot: Path) -> Place | None:
    git_dir = dot.resolve(strict=True) if dot.is_dir() else _pointed_at(dot)
    if git_dir is None or not is_git_directory(git_dir):
        return None
    if not (git_dir / "commondir").is_file():
        return Place(root, git_dir, git_dir, linked=False)
    common = (git_dir / read_pointer(git_dir / "commondir")).resolve(strict=True)
    # Both ends must agree, or a `.git` file could make any directory a work tree of any repository.
    back = (git_dir / read_pointer(git_dir / "gitdir")).resolve(strict=True)
    if back != dot.resolve(strict=True) or not is_git_directory(common):
        return None
    return Place(root, git_dir, common, linked=True)


def _pointed_at(dot: Path) -> Path | None:
    text = read_pointer(dot)
    if not text.startswith("gitdir: "):
        return None
    return (dot.parent / text.removeprefix("gitdir: ")).resolve(strict=True)
