"""A client from PyPI, in an environment of its own, with a Python that is new enough for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.clients.absent import Absent
from tests.support.clients.pins import Pin

SECONDS = 900
"""How long pip may take for one client."""
WHOLE = "installed"
"""A file that is there once all else is: an environment cannot be renamed into its place."""


def python(oldest: tuple[int, int]) -> str:
    """The first Python on this machine that is new enough; `Absent` where there is none."""
    names = [f"python3.{minor}" for minor in range(oldest[1], oldest[1] + 4)]
    versions = Path(os.environ.get("PYENV_ROOT") or Path("~/.pyenv").expanduser()) / "versions"
    switched = sorted(str(path) for path in versions.glob("3.*/bin/python"))
    for program in (sys.executable, *filter(None, map(shutil.which, names)), *switched):
        code = f"import sys, venv, ensurepip; sys.exit(sys.version_info < {oldest})"
        if subprocess.run([program, "-c", code], capture_output=True, check=False).returncode == 0:
            return program
    wanted = ".".join(map(str, oldest))
    raise Absent(f"no Python {wanted} or newer was found ({', '.join(names)}, those of pyenv). Install one with venv.")


def fetch(pin: Pin, place: Path) -> None:
    """Install it there."""
    assert pin.python
    shutil.rmtree(place, ignore_errors=True)  # what an interrupted run left
    program = python(pin.python)
    package = f"{pin.package}=={pin.version}"
    print(f"tests: installing {package} from PyPI, once", file=sys.stderr, flush=True)
    try:
        _run(pin, [program, "-m", "venv", str(place)])
        install = ["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
        _run(pin, [str(place / "bin" / "python"), *install, package, *pin.more])
        (place / WHOLE).touch()
    finally:
        if not (place / WHOLE).exists():
            shutil.rmtree(place, ignore_errors=True)


def _run(pin: Pin, words: list[str]) -> None:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        raise Absent(f"{pin.name}: pip did not finish within {SECONDS} s. Is PyPI reachable?") from None
    if done.returncode:
        raise Absent(f"{pin.name}: it could not be installed from PyPI: {(done.stderr or done.stdout).strip()[-800:]}")
