"""`tally try`, as a newcomer meets it: in any surroundings, leaving nothing behind, honest when a promise breaks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tallystick import demo

ROOT = Path(__file__).resolve().parents[2]


def run_try(tmp_path: Path, *words: str, verb: str = "try", **environment: str) -> subprocess.CompletedProcess[str]:
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", "from tallystick._tally import main; raise SystemExit(main())", verb, *words],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )


def test_it_shows_the_main_job_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = run_try(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    places = [done.stdout.index(f"✓ {fact}") for fact in demo.FACTS]
    assert places == sorted(places)
    for line in ("The result stands: done", "Not handed in", "The check refuted the result", "tally board --all"):
        assert line in done.stdout
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("home", ["", "/nonexistent", "read-only", "has a space and ünïcode"])
def test_any_home_will_do_and_none_is_touched(tmp_path: Path, home: str) -> None:
    place = tmp_path / home if home and not home.startswith("/") else Path(home or "/nonexistent")
    if home and not home.startswith("/"):
        place.mkdir()
        place.chmod(0o500 if home == "read-only" else 0o700)
    given = {"HOME": str(place), "TALLY_HOME": str(tmp_path / "mine")} if home else {}
    done = run_try(tmp_path, **given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "mine").exists()
    assert not place.exists() or list(place.iterdir()) == []


def test_it_works_where_the_caller_is_an_agent_and_its_git_is_set_up_strangely(tmp_path: Path) -> None:
    config = tmp_path / ".gitconfig"
    config.write_text("[commit]\ngpgsign = true\n[init]\ndefaultBranch = trunk\n[core]\nhooksPath = /nonexistent\n")
    surroundings = {"TALLY_SESSION": "ses_x", "TALLY_AGENT": "somebody", "TALLY_SOCKET": "/nonexistent"}
    done = run_try(tmp_path, HOME=str(tmp_path), GIT_CONFIG_GLOBAL=str(config), **surroundings)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_broken_promise_is_said_and_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "play", lambda stage: stage.promise("the board shows both tasks", False))
    assert demo.main() == 1
    assert "Not as promised: the board shows both tasks." in capsys.readouterr().err


def test_without_git_it_says_what_is_missing(tmp_path: Path) -> None:
    done = run_try(tmp_path, PATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "needs git" in done.stderr
    assert "Install git" in done.stderr


def test_it_takes_no_words(tmp_path: Path) -> None:
    done = run_try(tmp_path, "--fast")
    assert done.returncode == 2
    assert "--fast" in done.stderr


@pytest.mark.parametrize("verb", ["up", "down", "status", "try", "demo"])
def test_a_verb_about_the_host_itself_explains_itself(tmp_path: Path, verb: str) -> None:
    done = run_try(tmp_path, "--help", verb=verb, HOME=str(tmp_path), TALLY_HOME=str(tmp_path / "none"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage tally {verb}")
    assert not (tmp_path / "none").exists()
