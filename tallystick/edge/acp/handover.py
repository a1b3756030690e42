"""What a task takes along when it comes to another session. The conversation itself never moves."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tallystick.app.ports import Git
from tallystick.core.errors import Refused
from tallystick.core.state import Work
from tallystick.edge.acp import place


async def half_done(git: Git, home: Path, work: Work, session_id: str) -> str:
    """What whoever had it before left in its work tree and did not hand in, as a commit that can be read; empty where
    there is nothing."""
    task = work.task
    base = task.commit or task.base_commit
    for earlier in dict.fromkeys(d.session for d in reversed(work.deliveries) if d.session not in ("", session_id)):
        if not (base and await asyncio.to_thread(place.kept_for, home, earlier) == task.task_id):
            continue
        try:
            found = await git.snapshot(task.repository, place.tree_of(home, earlier))
            changed = [change.path for change in await git.changes(task.repository, base, found.commit)]
        except Refused as refusal:
            return f"What it left in its work tree cannot be read: {refusal.message}"
        if changed:
            return (
                f"not handed in, as the host found it in its work tree: commit {found.commit}, on {base[:12]}: "
                f"{', '.join(changed[:20])}{' …' if len(changed) > 20 else ''} (git show reads it)"
            )
    return ""
