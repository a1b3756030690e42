"""Looking after the record and the machine: doctor, and the log's own verbs."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from tallystick.app.desk import forms
from tallystick.app.desk.admitting import Admitting
from tallystick.app.desk.diagnosis import Diagnosis, Finding
from tallystick.app.desk.examining import Examining
from tallystick.app.desk.interface import Guest
from tallystick.app.rebuild import replay
from tallystick.app.views import show
from tallystick.core import commands as cmd
from tallystick.core.directory import PASSIVE
from tallystick.core.errors import Refused

_LOW_DISK_BYTES = 500 * 1024 * 1024
_PAGE = 1000


class Upkeep(Admitting, Examining):
    """doctor, log head, log verify, log replay, log export, log erase."""

    async def doctor(self, guest: Guest) -> Diagnosis:
        """Prove what works, and name the fix for what does not."""
        findings = [
            await self._clock(),
            await asyncio.to_thread(self._permissions),
            await asyncio.to_thread(self._disk),
            await asyncio.to_thread(self._sandbox),
            await self._git(),
            self._versions(),
            await self._log(),
            *self._presence(guest),
            *await self._unread(guest),
            *await self.examine_tokens(guest),
            *await self.examine_clients(guest),
        ]
        for examine in self.s.examine:
            findings += await examine(guest.workspace)
        return Diagnosis(findings=tuple(findings))

    async def _clock(self) -> Finding:
        behind = self.s.clock.behind()
        saw = f"the wall clock is {behind:.0f} s behind the newest time in the log" if behind > 1 else "in step"
        ok = behind <= self.s.limits.clock_skew_seconds
        fix = "" if ok else "Set the machine's clock; until then deadlines go on by the time since then."
        return _finding("clock", ok, "compared the wall clock with the log", saw, fix, warning=True)

    def _permissions(self) -> Finding:
        wide = [str(path) for path in _under(self.s.home) if _is_wide(path)]
        saw = f"open to others: {', '.join(wide[:5])}" if wide else "all files are yours alone"
        fix = f"Close them: chmod -R go-rwx {shlex.quote(str(self.s.home))}" if wide else ""
        return _finding("permissions", not wide, f"looked at the files of {self.s.home}", saw, fix)

    def _disk(self) -> Finding:
        free = shutil.disk_usage(self.s.home).free
        ok = free >= _LOW_DISK_BYTES
        fix = "" if ok else "Free some space: a full disk makes every command fail, and loses nothing."
        return _finding("disk", ok, "measured the free space", f"{free // 1024 // 1024} MiB free", fix)

    def _sandbox(self) -> Finding:
        level = self.s.runner.level()
        fix = "" if level == "E3" else "Install bubblewrap and allow unprivileged user namespaces."
        return _finding(
            "sandbox",
            level == "E3",
            "started a sandbox",
            f"level {level}: {self.s.runner.explain()}",
            fix,
            warning=True,
        )

    async def _git(self) -> Finding:
        try:
            saw = await self.s.git.version()
        except Refused as refusal:
            return _finding("git", False, "asked git for its version", refusal.message, refusal.remedy)
        return _finding("git", True, "asked git for its version", saw, "")

    def _versions(self) -> Finding:
        from tallystick import __version__

        python = ".".join(str(part) for part in sys.version_info[:3])
        saw = f"tallystick {__version__}, Python {python}, {self.s.engine}"
        return _finding("versions", True, "looked at what is loaded", saw, "")

    async def _log(self) -> Finding:
        position, digest = await self.s.maintenance.head()
        damage = await self.s.maintenance.scan(max(0, position - _PAGE))
        saw = f"{position} events, tip {digest[:12]}" if not damage else f"damaged at {damage[0].position}"
        fix = "See it whole: tally log verify. The host only reads until it is restored." if damage else ""
        return _finding("log", not damage, "verified the newest events", saw, fix)

    def _presence(self, guest: Guest) -> list[Finding]:
        found = []
        for agent in self.directory.members(guest.workspace):
            if agent.connection in PASSIVE:
                continue
            mine = [self.directory.sessions[s] for s in self.directory.open_sessions.get(agent.agent_id, ())]
            silent = [self.s.presence.silent_seconds(s.session_id) for s in mine]
            heard = min((t for t in silent if t is not None), default=None)
            saw = "not heard from since the host started" if heard is None else f"heard {heard:.0f} s ago"
            ok = heard is not None and heard < self.s.limits.presence_seconds
            fix = (
                ""
                if ok
                else f"Open it by hand; what is sent waits in its inbox. It reads: tally inbox --as {agent.alias}"
            )
            name = f"presence @{agent.alias}"
            found.append(_finding(name, ok, "looked when it was last heard", saw, fix, warning=True))
        return found

    async def _unread(self, guest: Guest) -> list[Finding]:
        """A mailbox that nobody reads: its oldest message is a canary that has not arrived."""
        found = []
        now = self.s.clock.now()
        for agent in self.directory.members(guest.workspace):
            rows = await self.s.views.rows("inbox_turns", party=agent.agent_id, limit=1)
            if not rows or agent.connection in PASSIVE:
                continue
            age = now - float(rows[0]["updated_at"] or now)
            if int(rows[0]["turn_version"] or 0) > int(rows[0]["seen"] or 0) and age > 3600:
                saw = f"a message has waited for {age / 3600:.0f} h without being looked at"
                fix = f"Open @{agent.alias} by hand, or give its work to another: tally reassign ID @name"
                name = f"inbox @{agent.alias}"
                found.append(_finding(name, False, "looked for unread work", saw, fix, warning=True))
        return found

    # --- the log ------------------------------------------------------------------------------------------------

    async def log_head(self, guest: Guest) -> dict[str, Any]:  # noqa: ARG002
        """The tip, to be pinned elsewhere."""
        position, digest = await self.s.maintenance.head()
        return {"position": position, "hash": digest}

    async def log_verify(self, guest: Guest) -> dict[str, Any]:  # noqa: ARG002
        """Verify the whole chain and every body."""
        position, digest = await self.s.maintenance.head()
        damage = await self.s.maintenance.scan(0)
        return {
            "ok": not damage,
            "events": position,
            "hash": digest,
            "damage": [{"position": d.position, "detail": d.detail} for d in damage[:100]],
        }

    async def log_replay(self, guest: Guest) -> dict[str, Any]:  # noqa: ARG002
        """Replay every event and compare all views with what is stored."""
        differences = await replay(self.s.store, self.s.maintenance, self.s.limits)
        position, _ = await self.s.maintenance.head()
        return {"ok": not differences, "events": position, "differences": differences[:100]}

    async def log_export(self, guest: Guest, *, after: int = 0) -> AsyncIterator[str]:
        """Every event the guest sees as one JSON line."""
        sees = self.sees(guest)
        while page := await self.s.store.tail(after, _PAGE):
            for recorded in page:
                if sees(recorded.workspace):
                    line = msgspec.to_builtins(recorded)
                    line["at"] = show.when(recorded.at)
                    yield msgspec.json.encode(line).decode()
            after = page[-1].position

    async def log_erase(self, guest: Guest, task: str) -> forms.Done:
        """Erase the words of one task; the chain stays valid and the tombstone visible."""
        self.person(guest, "erase words from the log")
        task_id = await self.task_id(guest, task)
        # The words go first: whoever is interrupted here asks again, and nothing is said to be erased that is not.
        count = await self.s.maintenance.erase(task_id)
        self.s.heads.forget(task_id)
        await self.do(guest, cmd.EraseTexts(task_id=task_id))
        return forms.Done(
            detail=f"Texts of the task that were erased here: {count}. Backups and exports made before keep theirs.",
            id=task_id,
            changed=count > 0,
        )


def _is_wide(path: Path) -> bool:
    """Whether others may read or write it. What the host puts away in this very moment is open to nobody."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISLNK(mode) and bool(stat.S_IMODE(mode) & 0o077)


def _under(home: Path) -> list[Path]:
    found = [home]
    for folder, names, files in os.walk(home):
        if Path(folder).name in ("worktrees", "setups"):
            names.clear()
            continue
        found += [Path(folder, name) for name in (*names, *files)]
        if len(found) > 5000:
            break
    return found


def _finding(check: str, ok: bool, did: str, saw: str, fix: str, *, warning: bool = False) -> Finding:
    level = "ok" if ok else "warning" if warning else "error"
    return Finding(check=check, ok=ok, level=level, did=did, saw=saw, fix=fix)
