"""What `tally` prints, byte for byte: one file for each JSON shape and each human output.

`GOLDEN=write pytest tests/golden` writes the files anew; the difference is then read in the commit.
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from tallystick.core.errors import ErrorCode, Refused
from tests.golden import desk as d
from tests.golden.desk import FakeDesk, run

FILES = Path(__file__).parent / "cli"
NO = Refused(ErrorCode.NOT_FOUND, "There is no agent @revewer here.", "Did you mean @reviewer?")
HELD = Refused(ErrorCode.CONFLICT, "Task tsk_00f3a9 is held by @tester.", "Look at it: tally show tsk_00f3a9")

VERBS = {
    "ask": "ask @reviewer 'Review the parser'",
    "take": "take f3a9",
    "question": "question f3a9 'Which one?'",
    "answer": "answer f3a9 'The new one.'",
    "progress": "progress f3a9 half --fraction 50%",
    "submit": "submit f3a9 --commit HEAD",
    "approve": "approve f3a9",
    "cancel": "cancel f3a9",
    "inbox": "inbox",
    "show": "show f3a9",
    "board": "board --all",
    "trace": "trace f3a9",
    "verify": "verify f3a9",
    "why": "why src/parser.py:42",
    "activity": "activity",
    "failed": "failed",
    "join": "join tester --run 'pytest -q'",
    "leave": "leave tester",
    "agents": "agents",
    "whoami": "whoami",
    "routes": "routes --stats",
    "watch": "watch",
    "watch-add": "watch add reviewer --ref main",
    "workspace": "workspace",
    "workspace-add": "workspace add .",
    "check": "check",
    "check-add": "check add tests -- pytest -q",
    "token": "token",
    "token-add": "token add summary-01 --domain data-team",
    "token-remove": "token remove summary-01",
    "permission": "permission",
    "permission-allow": "permission allow p444",
    "install": "install claude --yes",
    "install-look": "install --dry-run",
    "install-print": "install --print",
    "pause": "pause all",
    "status": "status",
    "up": "up",
    "down": "down",
    "doctor": "doctor",
    "log-head": "log head",
    "log-verify": "log verify",
    "version": "--version",
}


def compare(name: str, text: str) -> None:
    """The text is what the file holds."""
    path = FILES / name
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", VERBS)
async def test_the_json_of_each_verb_is_as_documented(name: str) -> None:
    outcome = await run("--json", *shlex.split(VERBS[name]))
    assert outcome.err == ""
    assert outcome.out.count("\n") == 1
    compare(f"{name}.json", json.dumps(json.loads(outcome.out), indent=1, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("name", VERBS)
async def test_what_people_read_of_each_verb_is_as_it_was(name: str) -> None:
    outcome = await run(*shlex.split(VERBS[name]))
    assert outcome.err == ""
    compare(f"{name}.txt", outcome.out)


@pytest.mark.parametrize("name", ["inbox", "show", "board", "agents", "trace"])
async def test_a_terminal_gets_colour_and_its_own_width(name: str) -> None:
    outcome = await run(*shlex.split(VERBS[name]), tty=True, columns=72, environment={"TERM": "xterm"})
    compare(f"{name}.tty.txt", outcome.out.replace("\x1b", "␛"))


SCENES: dict[str, tuple[str, dict[str, Any]]] = {
    "ask-duplicate": ("ask @reviewer T", {"ask": d.msgspec.structs.replace(d.RECEIPT, duplicate=True)}),
    "ask-wait": ("ask @reviewer T --wait", {}),
    "ask-wait-question": ("ask @reviewer T --wait", {"follow": (d.SHOWN, d.ASKED)}),
    "ask-wait-review": ("ask @reviewer T --wait", {"follow": (d.REVIEW,)}),
    "ask-wait-unverified": ("ask @reviewer T --wait", {"follow": (d.SHOWN, d.UNVERIFIED, ...)}),
    "ask-wait-timeout": ("ask @reviewer T --wait 0s", {"follow": (d.SHOWN, ...)}),
    "ask-unknown": ("ask @revewer T", {"ask": NO}),
    "submit-refuted": ("submit f3a9 --commit HEAD", {"settled_check": d.REFUTED}),
    "submit-unverified": ("submit f3a9 --commit HEAD", {"settled_check": d.UNVERIFIED}),
    "take-several": ("take f3a9 b2c4 f3a9", {"take": [d.TAKEN, HELD, d.TAKEN]}),
    "show-follow": ("show f3a9 --follow", {}),
    "activity-follow": ("activity --follow", {}),
    "export": ("log export", {}),
    "inbox-empty": ("inbox", {"inbox": d.forms.Inbox(turns=(), notices=())}),
    "usage-verb": ("tak f3a9", {}),
    "usage-option": ("ask @reviewer T --bodi x", {}),
    "usage-missing": ("answer f3a9", {}),
    "usage-extra": ("answer f3a9 yes please", {}),
    "usage-choice": ("ask @reviewer T --expect chnge", {}),
}


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
async def test_scene(name: str, as_json: bool) -> None:
    line, answers = SCENES[name]
    fresh = {key: list(value) if isinstance(value, list) else value for key, value in answers.items()}
    outcome = await run(*shlex.split(line), *(["--json"] if as_json else []), desk=FakeDesk(**fresh))
    if as_json:
        assert outcome.err == ""
    kind = "scene.json.txt" if as_json else "scene.txt"
    compare(f"{name}.{kind}", f"exit {outcome.code}\n--- stdout\n{outcome.out}--- stderr\n{outcome.err}")


async def test_the_overview_is_as_it_was() -> None:
    alone, asked = await run(), await run("help")
    assert alone.out == asked.out
    compare("help.txt", alone.out)


async def test_the_help_of_ask_is_as_it_was() -> None:
    outcome = await run("ask", "--help", tty=True, columns=80, environment={"NO_COLOR": "1"})
    compare("help-ask.txt", outcome.out)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_the_completion_scripts_are_as_they_were(shell: str) -> None:
    compare(f"completion.{shell}", (await run("completion", shell)).out)
