"""Clients come from npm or PyPI by name and pinned version, into a cache folder of the user, once for all runs.

A folder appears there whole (it is renamed into its place) or not at all; of several workers that want the same one,
one installs and the others wait for its lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.clients import pypi
from tests.support.clients.absent import Absent
from tests.support.clients.pins import CLIENTS, Pin

SECONDS = 900
"""How long npm may take for one client."""
CHOICE = "TALLY_TEST_CLIENTS"
"""Which clients are driven: names with commas, `all` or `none`. Unset: these four."""
USUAL = ("codex", "claude", "codex-acp", "claude-agent-acp")


def cache() -> Path:
    """Where clients are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~").expanduser() / ".cache")
    return Path(base) / "tallystick" / "clients"


def wanted(name: str) -> bool:
    """Whether the person who runs the tests wants this client driven."""
    words = os.environ.get(CHOICE, "").replace(",", " ").split() or USUAL
    return name in words or "all" in words


def install(name: str) -> Path:
    """The folder with this client in it, installed if it is not there yet; `Absent` when that cannot be."""
    pin = CLIENTS[name]
    place = cache() / f"{name}-{pin.version}"
    if _whole(place, pin):
        return place
    if pin.python:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _lock(place.with_name(place.name + ".lock")):
            if not _whole(place, pin):
                pypi.fetch(pin, place)
        return place
    npm = shutil.which("npm")
    if npm is None:
        raise Absent(f"{name}: npm was not found. Install nodejs (20 or newer) and npm; tests install the rest.")
    place.parent.mkdir(parents=True, exist_ok=True)
    with _lock(place.with_name(place.name + ".lock")):
        if not _whole(place, pin):
            _fetch(npm, pin, place)
    return place


def _whole(place: Path, pin: Pin) -> bool:
    return (place / pin.bin / pin.program).exists() and (not pin.python or (place / pypi.WHOLE).exists())


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(npm: str, pin: Pin, place: Path) -> None:
    if place.exists():
        shutil.rmtree(place)  # not whole: what an older form of this file left
    work = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        (work / "package.json").write_text('{"private": true}\n')
        packages = [f"{pin.package}@{pin.version}", *pin.more]
        words = [npm, "install", "--no-audit", "--no-fund", "--no-progress", "--save-exact", "--loglevel=error"]
        print(f"tests: installing {' '.join(packages)} from npm, once", file=sys.stderr, flush=True)
        try:
            done = subprocess.run(
                [*words, *packages], cwd=work, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            raise Absent(f"{pin.name}: npm did not finish within {SECONDS} s. Is the npm registry reachable?") from None
        if done.returncode or not _whole(work, pin):
            words_of_it = (done.stderr or done.stdout).strip()[-800:]
            raise Absent(f"{pin.name}: npm could not install {' and '.join(packages)}: {words_of_it}")
        work.chmod(0o755)
        work.rename(place)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def need(name: str) -> Path:
    """The folder with this client; the test is skipped, loudly, when it cannot be had."""
    if not wanted(name):
        pytest.skip(f"{name} was not driven. To drive it (npm installs it): {CHOICE}={name}, or {CHOICE}=all.")
    try:
        return install(name)
    except Absent as reason:
        pytest.skip(f"NOT TESTED WITH THE REAL CLIENT. {reason}")
