"""The two programs that a newcomer copies run as they stand: in two files, with nothing else done before."""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hosts import ROOT, Home, eventually
from tools.console import programs

PAGE = ROOT / "docs" / "how-to" / "spokes.md"
PROMISED = {
    "spoke.py": "9b9d54b0f1dd19102637c6e9981dc087136e992f0973693c1173952e6d79a753",
    "client.py": "6fe1da40e04bee09188044962c692a17eb8003b7e7ef38663a1b15d8d6a0a355",
}
"""Digests of the programs as they were promised: a change here is a change of the product."""

LINES = [Path(name).read_text(encoding="utf-8").split("\n")[0].strip() for name in ("/etc/hostname", "/etc/os-release")]


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as made:
        for name, text in programs(PAGE.read_text(encoding="utf-8")).items():
            (made.place / name).write_text(text, encoding="utf-8")
        yield made


def routes(home: Home) -> list[dict[str, object]]:
    code, out, _ = home.tally("routes", "--json")
    return json.loads(out)["routes"] if code == 0 else []


def test_they_are_the_promised_ones() -> None:
    found = programs(PAGE.read_text(encoding="utf-8"))
    assert {name: hashlib.sha256(found[name].encode()).hexdigest() for name in PROMISED} == PROMISED


def test_pasted_into_two_files_they_run_and_a_request_survives_the_death_of_all_three(home: Home) -> None:
    spoke = home.spawn(sys.executable, "spoke.py", cwd=home.place)
    eventually(lambda: [route["status"] for route in routes(home)] == ["online"], "the spoke")
    assert answers(home)[1][:2] == LINES
    spoke.kill()
    home.tally("down")
    code, out, err = home.run(sys.executable, "client.py", cwd=home.place)
    assert code == 1, "the first has its result by its key, for the others nobody is there"
    assert (out.splitlines()[0], "Reach" in err) == (str({"status": "ok", "summary": LINES[0]}), True)
    home.spawn(sys.executable, "spoke.py", cwd=home.place)
    eventually(lambda: [route["status"] for route in routes(home)] == ["online"], "the spoke, again")
    assert answers(home)[0] == {"status": "ok", "summary": LINES[0]}


def answers(home: Home) -> tuple[dict[str, str], list[str]]:
    """What the client printed: one payload, then three summaries."""
    code, out, err = home.run(sys.executable, "client.py", cwd=home.place)
    assert code == 0, err
    one, three = map(ast.literal_eval, out.splitlines())
    return one, three
