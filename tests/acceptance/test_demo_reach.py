"""`tally demo reach`: three spokes in three processes, one failure put right, one trace, and nothing left behind."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tallystick import demo_reach
from tests.acceptance.test_try import run_try


def test_it_shows_spokes_at_work_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = run_try(tmp_path, "reach", verb="demo")
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    shown = {words[0]: [line[1] for line in said if line[:1] == words[:1]] for words in said if len(words) == 2}
    assert "found 3 log files" in shown["log-collector"]
    assert "three run at the same time" in shown["log-summarizer"]
    assert shown["log-collector"].count("mended mail.log") == 1
    assert shown["log-summarizer"].count("begins mail.log") == 2
    assert "# duplicate: True" in done.stdout
    assert list((tmp_path / "scratch").iterdir()) == []
    assert leftover(tmp_path) == []


def leftover(place: Path) -> list[str]:
    """Processes that still have something of a temporary place in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "environ").read_bytes()
        except OSError:
            continue
        if int(process.name) != os.getpid() and re.search(rb"TALLY_HOME=" + re.escape(str(place).encode()), told):
            found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def test_a_broken_promise_is_said_and_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_reach, "play", lambda stage: stage.promise("the report holds all three", False))
    assert demo_reach.main() == 1
    assert "Not as promised: the report holds all three." in capsys.readouterr().err


@pytest.mark.parametrize("words", [(), ("rooms",), ("reach", "--fast")])
def test_another_demonstration_is_refused_with_the_one_there_is(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run_try(tmp_path, *words, verb="demo")
    assert (done.returncode, done.stdout) == (2, "")
    assert "tally demo reach" in done.stderr
