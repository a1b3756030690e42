"""Bad input through the real command line and API: a clear error, a next step, nothing lost, nothing half done."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

import tallystick
from tests.support.hosts import Home
from tests.support.town import Town

SOURCE = Path(tallystick.__file__).parent
FAR = "9" * 400 + "d"
DIGITS = "9" * 5000

ASKS = {
    "unknown name": {"address": "@nobody-here"},
    "misspelt name": {"address": "@wroker"},
    "reserved name": {"address": "@host"},
    "no address": {"address": ""},
    "address with a line break": {"address": "@worker\n"},
    "room": {"address": "#room"},
    "capability that nobody has": {"address": "cap:Nothing"},
    "empty title": {"title": " \n"},
    "long title": {"title": "x" * 201},
    "large body": {"body": "x" * (1024 * 1024 + 1)},
    "large brief": {"context": "x" * 9000},
    "misspelt field": {"dedline": "1d"},
    "true for text": {"body": True},
    "true for a list": {"inputs": True},
    "text for a boolean": {"wake": "false"},
    "deadline of no kind": {"deadline": "soon"},
    "deadline that passed": {"deadline": "2001-01-01"},
    "deadline without end": {"deadline": FAR},
    "deadline beyond dates": {"deadline": "99999999d"},
    "deadline beyond dates in UTC": {"deadline": "9999-12-31T23:59:59-14:00"},
    "what nobody expects": {"expect": "miracle"},
    "check that is not there": {"done_when": "nothing"},
    "command with NUL": {"done_when_argv": ["a\0b"]},
    "reviewer that is not there": {"review_by": "@nobody-here"},
    "message id of no kind": {"message_id": "msg_1"},
    "message id of long ago": {"message_id": "msg_01ARZ3NDEKTSV4RRFFQ69G5FAV"},
    "parent that is not there": {"parent": "tsk_01JAZ000000000000000000001"},
    "retry of what is not there": {"retry_of": "zzzz"},
}

INPUTS = {
    "absolute": "/etc/passwd",
    "above": "../../etc/passwd",
    "absent": "no-such-file",
    "directory": ".",
    "link": "link",
    "through a link": "hop/environ",
    "pipe": "pipe",
    "device": "/dev/zero",
    "kernel": "/proc/self/environ",
    "git": ".GIT/config",
    "NUL": "a\0b",
    "escape": "\x1b[31m",
    "long": "a" * 5000,
    "lines out of range": f"a.txt:{DIGITS}",
    "blob that is not here": f"blob:{'0' * 64}",
    "option": "--upload-pack=x",
}

CALLS = {
    "position of 64 bits": ("activity", {"after": 2**63}),
    "negative position": ("activity", {"after": -1}),
    "true for a number": ("activity", {"after": True}),
    "text for a number": ("activity", {"limit": "5"}),
    "short id": ("show", {"task": "a"}),
    "pattern for an id": ("show", {"task": "%%%%"}),
    "NUL for an id": ("show", {"task": "\0\0\0\0"}),
    "no task": ("show", {}),
    "made-up inbox": ("seen", {"turns": [{"task_id": "x"}], "notices": []}),
    "endless time limit": ("join", {"name": "cmd", "run": ["true"], "seconds": 10**18}),
    "negative time limit": ("join", {"name": "cmd", "run": ["true"], "seconds": -1}),
    "empty command": ("join", {"name": "cmd", "run": []}),
    "command of NUL": ("join", {"name": "cmd", "run": ["a\0b"]}),
    "open quote": ("join", {"name": "cmd", "wake": "a 'b"}),
    "two connections": ("join", {"name": "cmd", "run": ["true"], "client": "codex"}),
    "no concurrency": ("join", {"name": "cmd", "concurrency": 0}),
}

WORDS = {
    "verb": ("tak", "x"),
    "option": ("ask", "@worker", "t", "--bodi", "x"),
    "fence": ("submit", "abcd", "--fence", "x"),
    "workspace": ("board", "--workspace", "../../x"),
    "workspace of escapes": ("board", "--workspace", "\x1b[31m/"),
    "agent of escapes": ("board", "--as", "\x1b]52;c;QQ==\x07"),
    "session by nothing": ("stop", "ses_"),
    "task by nothing": ("take", ""),
    "directory": ("workspace", "add", "/no/such"),
    "line": ("why", f"a.txt:{DIGITS}"),
    "setup": ("check", "add", "c", "--setup", "a 'b", "--", "true"),
    "state": ("correct", "@last", "bogus", "x"),
    "deadline": ("ask", "@worker", "t", "--deadline", FAR),
}


@pytest.fixture(scope="module")
def town():
    with Town() as town:
        town.call("join", name="worker")
        (town.place / "a.txt").write_text("text\n")
        (town.place / "link").symlink_to("a.txt")
        (town.place / "hop").symlink_to("/proc/self")
        os.mkfifo(town.place / "pipe")
        yield town


@pytest.fixture
def unchanged(town):
    """Nothing of it is recorded, but for the note of a refusal; the host serves on."""
    before, turns = town.position(), town.turns("worker")
    yield
    assert [what for what in town.events_since(before) if "refused" not in what] == []
    assert town.turns("worker") == turns


@pytest.mark.parametrize("kind", ASKS)
def test_a_request_that_makes_no_sense_is_refused_whole(town, unchanged, kind):
    error = town.refused("ask", **{"address": "@worker", "title": "t", **ASKS[kind]})
    assert error.message.isprintable()
    for limit in ("1048576", "8192", "200"):
        if kind.startswith({"1048576": "large body", "8192": "large brief", "200": "long title"}[limit]):
            assert limit in error.message


@pytest.mark.parametrize("kind", INPUTS)
def test_an_input_that_is_no_plain_file_here_is_refused(town, unchanged, kind):
    town.refused("ask", address="@worker", title="t", inputs=[INPUTS[kind]])


@pytest.mark.parametrize("kind", CALLS)
def test_a_call_that_makes_no_sense_is_refused(town, unchanged, kind):
    op, form = CALLS[kind]
    town.refused(op, **form)


@pytest.mark.parametrize("kind", WORDS)
def test_a_command_line_that_makes_no_sense_is_refused_with_an_exit_code_and_no_trace(town, unchanged, kind):
    code, out, err = town.run_tally(*WORDS[kind])
    assert code in (1, 2)
    assert (out, "Traceback" in err, "internal" in err) == ("", False, False)
    assert err.startswith("tally: ")
    assert not set(err) & set("\x1b\x07\x9b")


def test_an_acknowledgement_of_an_inbox_that_was_made_up_records_nothing(town, unchanged):
    shown = town.call("inbox", "worker")
    item = {"task_id": "tsk_01JAZ000000000000000000001", "from": "@x", "state": "submitted", "reason": "new",
            "title": "t", "asks": "", "references": [], "question": "", "answer": "", "new": True, "kind": "take",
            "age": 0.0, "workspace": "default", "version": 2**63}  # fmt: skip
    town.call("seen", "worker", turns=[*shown["turns"], item], notices=[item])


@pytest.mark.parametrize("value", ["inf", "nan", "1e300", "-1", '"5"', "true"])
def test_a_setting_that_is_no_plain_number_is_refused_and_no_host_starts(value):
    with Home() as home:
        home.path.mkdir(mode=0o700)
        (home.path / "config.toml").write_text(f"[limits]\npull_lease_seconds = {value}\n")
        code, out, err = home.module("up")
        assert (code != 0, "pull_lease_seconds" in err, "Traceback" in err + out) == (True, True, False)
        assert home.holder() is None


def test_a_home_that_is_a_file_is_refused():
    with Home() as home:
        home.path.write_text("mine\n")
        code, out, err = home.tally("board")
        assert (code, "Traceback" in err + out) == (1, False)
        assert home.path.read_text() == "mine\n"
        home.path.unlink()


# --- what errors advise -----------------------------------------------------------------------------------------

DESTRUCTIVE = re.compile(
    r"\brm\b|\brmdir\b|\bunlink\b|--force\b|(?<!\w)-f\b|reset --hard|\bclean -|\bdelete\b|\bdrop\b|\bpurge\b|\bwipe\b"
    r"|\bkill\b|checkout --|push -f|\btruncate\b|log erase",
    re.IGNORECASE,
)


def refusals():
    """Every text of a refusal in the source, as (place, text)."""
    makers = {"Refused", "invalid", "not_found", "conflict", "denied", "unavailable", "unsupported", "Usage", "_wrong"}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in makers:
                words = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", " ".join(words)


def test_case_55_no_error_suggests_anything_destructive():
    found = list(refusals())
    assert len(found) > 150
    assert [(place, text) for place, text in found if DESTRUCTIVE.search(text)] == []
