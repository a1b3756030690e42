"""`tally doctor` and `tally log` where no host can be started: what can be seen without one, under the home's lock."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from tallystick import __version__, wire
from tallystick.app.home import HomeGuard
from tallystick.config import load
from tallystick.core.errors import Refused, invalid
from tallystick.store.interface import StoreUnavailableError
from tallystick.store.sqlite import SqliteStore

_NEWEST = 1000
_PAGE = 1000


def doctor(words: list[str]) -> int:
    """Say which part keeps a host from starting. Exit code 1 where one does."""
    if words not in ([], ["--json"]):
        raise invalid(f"{words[0]!r} is not understood here.", "Without a host, doctor takes --json alone.")
    home = Path(wire.home())
    findings = [_look(name, check, home) for name, check in _CHECKS]
    if words:
        _say(msgspec.json.encode({"findings": findings}).decode())
    for found in findings if not words else ():
        _say(f"{'ok' if found['ok'] else 'error':8} {found['check']}  {found['saw']}")
        if found["fix"]:
            _say(f"  fix    {found['fix']}")
    return 0 if all(found["ok"] for found in findings) else 1


def _look(name: str, check: Callable[[Path], str], home: Path) -> dict[str, Any]:
    try:
        return {"check": name, "ok": True, "saw": check(home), "fix": ""}
    except Refused as refusal:
        return {"check": name, "ok": False, "saw": refusal.message, "fix": refusal.remedy}
    except (OSError, StoreUnavailableError) as error:
        return {"check": name, "ok": False, "saw": str(error), "fix": "Look at the disk and its permissions."}


def _home(home: Path) -> str:
    HomeGuard(home).prepare()
    return str(home)


def _lock(home: Path) -> str:
    holder = HomeGuard(home).lock.holder()
    return f"held by process {holder.pid}" if holder else "free"


def _settings(home: Path) -> str:
    load(home)
    return "understood"


def _disk(home: Path) -> str:
    return f"{shutil.disk_usage(home).free // 1024 // 1024} MiB free"


def _git(_home: Path) -> str:
    done = subprocess.run(["git", "--version"], capture_output=True, text=True, check=False, timeout=10)
    return done.stdout.strip()


def _record(home: Path) -> str:
    position, tip, damage = _with_store(home, _newest)
    if damage:
        raise invalid(f"damaged at {damage[0].position}: {damage[0].detail}", "See it whole: tally log verify")
    return f"{position} events, tip {tip[:12]}"


async def _newest(store: SqliteStore) -> tuple[int, str, list[Any]]:
    position, tip = await store.head()
    return position, tip, await store.scan(max(0, position - _NEWEST))


_CHECKS: tuple[tuple[str, Callable[[Path], str]], ...] = (
    ("version", lambda _: f"tallystick {__version__}"),
    ("home", _home),
    ("settings", _settings),
    ("lock", _lock),
    ("disk", _disk),
    ("git", _git),
    ("log", _record),
)


def log(words: list[str]) -> int:
    """`tally log head | verify | export` on the log itself."""
    verb = next((word for word in words if not word.startswith("--")), "head")
    if verb not in _LOG or set(words) - {verb, "--json"}:
        raise invalid("Without a host there are `tally log head`, `verify` and `export`.", "Use one of these.")
    code: int = _with_store(Path(wire.home()), _LOG[verb])
    return code


async def _head(store: SqliteStore) -> int:
    position, tip = await store.head()
    _say(msgspec.json.encode({"position": position, "hash": tip}).decode())
    return 0


async def _verify(store: SqliteStore) -> int:
    position, tip = await store.head()
    damage = await store.scan(0)
    found = [{"position": d.position, "detail": d.detail} for d in damage[:100]]
    _say(msgspec.json.encode({"ok": not damage, "events": position, "hash": tip, "damage": found}).decode())
    return 1 if damage else 0


async def _export(store: SqliteStore) -> int:
    after = 0
    while page := await store.tail(after, _PAGE):
        for recorded in page:
            _say(msgspec.json.encode(recorded).decode())
        after = page[-1].position
    return 0


_LOG: dict[str, Callable[[SqliteStore], Awaitable[int]]] = {"head": _head, "verify": _verify, "export": _export}


def _with_store(home: Path, use: Callable[[SqliteStore], Awaitable[Any]]) -> Any:
    """Open the log of a home while nobody else can, use it, close it."""
    guard = HomeGuard(home)
    guard.prepare()
    guard.lock.take()

    async def opened() -> Any:
        store = SqliteStore.open(home / "tally.db")
        try:
            return await use(store)
        finally:
            await store.close()

    try:
        return asyncio.run(opened())
    finally:
        guard.lock.release()


def _say(text: str) -> None:
    os.write(1, wire.printable(text).encode("utf-8", "backslashreplace") + b"\n")
