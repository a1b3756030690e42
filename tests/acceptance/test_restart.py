"""A host that was stopped and started again knows everybody and everything it knew before."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.support.hosts import Home

READ = (("agents",), ("board", "--all"), ("workspace", "list"), ("check", "list"), ("inbox",), ("log", "verify"))
VARIES = {"age", "presence", "promise", "sessions", "events", "hash", "current", "updated_at", "version", "new"}
"""A task in hand gets a new lease at the start, which is an event."""


@pytest.fixture
def home(tmp_path):
    with Home() as home:
        home.path.mkdir(mode=0o700)
        (home.path / "config.toml").write_text('person_verbs = "uid"\n')
        (home.path / "config.toml").chmod(0o600)
        home.repository = tmp_path / "shop"
        home.repository.mkdir()
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        subprocess.run(["git", "init", "-q"], cwd=home.repository, check=True)
        subprocess.run(["git", *who, "commit", "-q", "--allow-empty", "-m", "x"], cwd=home.repository, check=True)
        yield home


def tally(home, *words):
    code, out, err = home.tally(*words, cwd=home.repository)
    assert code == 0, err
    return out


def known(home):
    """What can be read, without what time changes."""

    def still(value):
        if isinstance(value, dict):
            return {key: still(item) for key, item in value.items() if key not in VARIES}
        return [still(item) for item in value] if isinstance(value, list) else value

    return {words: still(json.loads(tally(home, *words, "--json"))) for words in READ}


@pytest.mark.parametrize("first", ["join", "check", "ask"])
def test_everything_is_known_again_whatever_came_first(home, first):
    before = {"check": ("check", "add", "early", "--", "true"), "ask": ("ask", "@human", "Look")}.get(first)
    if before:
        tally(home, *before)
    tally(home, "join", "checker", "--strengths", "small fixes", "--provider", "acme")
    tally(home, "join", "counter", "--run", "git ls-files")
    tally(home, "check", "add", "tests", "--", "true")
    tally(home, "ask", "@checker", "Mend it", "--expect", "change", "--done-when", "tests")
    tally(home, "ask", "@checker", "And that")
    tally(home, "--as", "checker", "inbox")
    tally(home, "--as", "checker", "take", "@last")
    tally(home, "rename", "counter", "lister")
    found = known(home)
    tally(home, "down")
    assert known(home) == found
    assert json.loads(tally(home, "log", "replay", "--json"))["ok"] is True


def test_a_home_whose_repository_has_no_commit_yet_starts_again(home, tmp_path):
    home.repository = tmp_path / "empty"
    home.repository.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=home.repository, check=True)
    tally(home, "join", "checker")
    tally(home, "down")
    assert "@checker" in tally(home, "agents")
