"""Programs of npm that tests run: installed by name and version into a cache of the user, once for all runs.

A folder appears there whole (it is renamed into its place) or not at all; of several workers that want the same one,
one installs and the others wait for its lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.clients.absent import Absent

SECONDS = 900
"""How long npm may take for one folder."""


def cache(kind: str) -> Path:
    """Where installed programs of that kind are kept."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".cache"
    return base / "tallystick" / kind


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Alone with what is or will be at that place; its parent is made."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(place.name + ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def installed(*packages: str) -> Path:
    """The `node_modules` with these packages (`name@version`); skips loudly where they cannot be had."""
    place = cache("npm") / hashlib.sha256("\n".join(packages).encode()).hexdigest()[:16]
    try:
        with locked(place):
            if not place.exists():
                fetch("npm", place, packages, lambda draft: (draft / "node_modules").exists())
    except Absent as reason:
        pytest.skip(f"{', '.join(packages)} DID NOT RUN. {reason}")
    except OSError as error:
        pytest.skip(f"{', '.join(packages)} DID NOT RUN: {place.parent} cannot be used ({error})")
    return place / "node_modules"


def fetch(what: str, place: Path, packages: tuple[str, ...], is_whole: Callable[[Path], bool]) -> None:
    """Install these packages there, for whoever has the lock. `what` is named where that fails: `Absent`."""
    npm = shutil.which("npm")
    if npm is None:
        raise Absent(f"{what}: npm was not found. Install nodejs (20 or newer) and npm; tests install the rest.")
    if place.exists():
        shutil.rmtree(place)  # not whole: what an older form of this file left
    draft = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        _run(what, npm, draft, packages)
        if not is_whole(draft):
            raise Absent(f"{what}: npm installed {' and '.join(packages)}, and it is not there.")
        draft.chmod(0o755)
        draft.rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _run(what: str, npm: str, draft: Path, packages: tuple[str, ...]) -> None:
    (draft / "package.json").write_text('{"private": true}\n')
    words = [npm, "install", "--no-audit", "--no-fund", "--no-progress", "--save-exact", "--loglevel=error", *packages]
    print(f"tests: installing {' '.join(packages)} from npm, once", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            words, cwd=draft, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        raise Absent(f"{what}: npm did not finish within {SECONDS} s. Is the npm registry reachable?") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-800:]
        raise Absent(f"{what}: npm could not install {' and '.join(packages)}: {said}")
