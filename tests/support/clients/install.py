"""Clients come from npm or PyPI by name and pinned version, into a cache folder of the user, once for all runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import npm
from tests.support.clients import pypi
from tests.support.clients.absent import Absent
from tests.support.clients.pins import CLIENTS, Pin

CHOICE = "TALLY_TEST_CLIENTS"
"""Which clients are driven: names with commas, `all` or `none`. Unset: these four."""
USUAL = ("codex", "claude", "codex-acp", "claude-agent-acp")


def wanted(name: str) -> bool:
    """Whether the person who runs the tests wants this client driven."""
    words = os.environ.get(CHOICE, "").replace(",", " ").split() or USUAL
    return name in words or "all" in words


def install(name: str) -> Path:
    """The folder with this client in it, installed if it is not there yet; `Absent` when that cannot be."""
    pin = CLIENTS[name]
    place = npm.cache("clients") / f"{name}-{pin.version}"
    if _is_whole(place, pin):
        return place
    with npm.locked(place):
        if not _is_whole(place, pin):
            _fetch(place, pin)
    return place


def _is_whole(place: Path, pin: Pin) -> bool:
    return (place / pin.bin / pin.program).exists() and (not pin.python or (place / pypi.WHOLE).exists())


def _fetch(place: Path, pin: Pin) -> None:
    if pin.python:
        pypi.fetch(pin, place)
    else:
        packages = (f"{pin.package}@{pin.version}", *pin.more)
        npm.fetch(pin.name, place, packages, lambda draft: _is_whole(draft, pin))


def need(name: str) -> Path:
    """The folder with this client; the test is skipped, loudly, when it cannot be had."""
    if not wanted(name):
        pytest.skip(f"{name} was not driven. To drive it (npm installs it): {CHOICE}={name}, or {CHOICE}=all.")
    try:
        return install(name)
    except Absent as reason:
        pytest.skip(f"NOT TESTED WITH THE REAL CLIENT. {reason}")
