"""The work tree of a session: its directory stays the same for as long as the session lives, what is in it changes.

A client stands in its directory; putting another in its place would leave it in one that is gone.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from pathlib import Path
from typing import Final

from tallystick.app.ports import Git
from tallystick.core.state import Task

_HOOK: Final = """\
#!/bin/sh
# Commits made under a task carry its id, so that a line leads back to it.
git interpret-trailers --in-place --if-exists doNothing --trailer "Tally-Task: {task}" "$1"
"""


def tree_of(home: Path, session_id: str) -> Path:
    """Where the work tree of a session is."""
    return home / "worktrees" / session_id


def note_of(home: Path, session_id: str) -> Path:
    """Where it is kept which task a session's work tree is for: out of the session's own reach."""
    return home / "sessions" / session_id


def kept_for(home: Path, session_id: str) -> str:
    """The task that a session's work tree is for; empty where it is for none."""
    try:
        return note_of(home, session_id).read_text().partition(" ")[0]
    except FileNotFoundError:
        return ""


async def put(git: Git, home: Path, session_id: str, task: Task, mark: str = "") -> Path:
    """Bring a session's work tree to a task: untouched where it is this task's already, else clean at its commit.
    `mark`: what the tree is for, where that is more than the task."""
    mark = mark or task.task_id
    tree, note = tree_of(home, session_id), note_of(home, session_id)
    if await asyncio.to_thread(_is_of, tree, note, mark):
        return tree
    making = tree.with_name(f"{tree.name}.next")
    commit = task.commit or task.base_commit
    await git.remove(making)
    if task.repository and commit:
        await git.check_out(task.repository, commit, making)
    else:
        await asyncio.to_thread(lambda: making.mkdir(mode=0o700, parents=True))
    await asyncio.to_thread(_exchange, making, tree, note)
    await asyncio.to_thread(_mark, tree, note, task.task_id, mark)
    return tree


def _is_of(tree: Path, note: Path, mark: str) -> bool:
    return tree.is_dir() and note.is_file() and note.read_text() == mark


def _exchange(new: Path, tree: Path, note: Path) -> None:
    """What is in `tree` goes, what is in `new` comes; the directory itself stays."""
    note.unlink(missing_ok=True)
    tree.mkdir(mode=0o700, parents=True, exist_ok=True)
    for entry in list(os.scandir(tree)):
        _away(Path(entry.path))
    for entry in list(os.scandir(new)):
        Path(entry.path).rename(tree / entry.name)
    new.rmdir()


def _away(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    for here, folders, _ in os.walk(path):
        for name in folders:
            folder = Path(here, name)
            if not folder.is_symlink():
                folder.chmod(stat.S_IMODE(folder.lstat().st_mode) | 0o700)
    shutil.rmtree(path)


def _mark(tree: Path, note: Path, task_id: str, mark: str) -> None:
    git = tree / ".git"
    if git.is_dir():
        hooks = git / "hooks"
        hooks.mkdir(exist_ok=True)
        hook = hooks / "commit-msg"
        hook.write_text(_HOOK.format(task=task_id))
        hook.chmod(0o500)
    note.parent.mkdir(mode=0o700, exist_ok=True)
    note.write_text(mark)
