"""Programs of npm that tests run: installed by name into a cache of the user, once, whole or not at all."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

SECONDS = 600


def cache():
    """Where installed programs are kept."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".cache"
    return base / "tallystick" / "npm"


def installed(*packages):
    """The `node_modules` with these packages (`name@version`); skips loudly where they cannot be had."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"NPM IS ABSENT, SO {', '.join(packages)} DID NOT RUN: install Node.js 22 with npm")
    key = hashlib.sha256("\n".join(packages).encode()).hexdigest()[:16]
    place = cache() / key
    try:
        cache().mkdir(parents=True, exist_ok=True)
        with (cache() / f"{key}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.exists():
                _install(npm, packages, place)
    except OSError as error:
        pytest.skip(f"{', '.join(packages)} DID NOT RUN: {cache()} cannot be used ({error})")
    return place / "node_modules"


def _install(npm, packages, place):
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=cache()))
    try:
        (draft / "package.json").write_text("{}\n")
        words = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *packages]
        done = subprocess.run(words, cwd=draft, capture_output=True, text=True, check=False, timeout=SECONDS)
        if done.returncode:
            pytest.skip(f"{', '.join(packages)} DID NOT RUN: npm could not install it: {done.stderr[-500:]}")
        draft.rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
