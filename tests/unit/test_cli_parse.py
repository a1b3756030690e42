"""The command line: every verb's fixed form, what is wrong said so that it can be put right, help, behaviour."""

from __future__ import annotations

import ast
import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tallystick.bootstrap import USAGE
from tallystick.core.errors import ErrorCode, Refused, conflict
from tallystick.edge import cli
from tallystick.edge.cli import ERRORS, VERBS, reference
from tallystick.edge.cli.help import EXIT_CODES, usage, visible
from tallystick.edge.cli.parse import Parsed, Usage, parse, seconds_of
from tests.golden import desk as d
from tests.golden.desk import FakeDesk, run

HELD = Refused(ErrorCode.CONFLICT, "Task tsk_00f3a9 is held by @tester.", "Look at it: tally show tsk_00f3a9")


def read(line: str) -> Parsed:
    return parse(shlex.split(line), VERBS)


def values(line: str) -> dict[str, Any]:
    return read(line).values


FORMS = {
    "ask @r Title": {"address": "@r", "title": "Title"},
    "ask @r T --body B --expect change --done-when tests --review-by @x --deadline 2h --dedup-key K": {
        "address": "@r",
        "title": "T",
        "body": "B",
        "expect": "change",
        "done-when": "tests",
        "review-by": "@x",
        "deadline": "2h",
        "dedup-key": "K",
    },
    "ask @r T --parent none --on-failure cap:Mend --retry-of f3a9 --wake --wait 90s": {
        "address": "@r",
        "title": "T",
        "parent": "none",
        "on-failure": "cap:Mend",
        "retry-of": "f3a9",
        "wake": True,
        "wait": "90s",
    },
    "install claude codex --project --allow --yes": {
        "client": ("claude", "codex"),
        "project": True,
        "allow": True,
        "yes": True,
    },
    "install --remove --dry-run": {"remove": True, "dry-run": True},
    "install --print zed": {"client": ("zed",), "print": True},
    "ask @r T --wait": {"address": "@r", "title": "T", "wait": ""},
    "ask --wait @r T": {"address": "@r", "title": "T", "wait": ""},
    "ask @r T --done-when -- pytest -q --json": {
        "address": "@r",
        "title": "T",
        "done-when-argv": ("pytest", "-q", "--json"),
    },
    "ask @r T --input a b:1-2 --input c": {"address": "@r", "title": "T", "input": ("a", "b:1-2", "c")},
    "ask @r --input a b T": {"address": "@r", "title": "T", "input": ("a", "b")},
    "ask --input a @r T": {"address": "@r", "title": "T", "input": ("a",)},
    "ask @r /etc": {"address": "@r", "title": "/etc"},
    "ask @r -- --title": {"address": "@r", "title": "--title"},
    "ask @r T --body=--x": {"address": "@r", "title": "T", "body": "--x"},
    "ask @r T --body -": {"address": "@r", "title": "T", "body": "-"},
    "take f3a9": {"id": ("f3a9",)},
    "claim f3a9 b2c4": {"id": ("f3a9", "b2c4")},
    "show f3a9": {"id": "f3a9"},
    "trace f3a9": {"id": "f3a9"},
    "verify f3a9": {"id": "f3a9"},
    "verify f3a9 --settle done 'It is there.'": {"id": "f3a9", "settle": "done", "text": "It is there."},
    "approve f3a9": {"id": ("f3a9",)},
    "cancel f3a9": {"id": ("f3a9",)},
    "question f3a9 Why?": {"id": "f3a9", "text": "Why?"},
    "answer f3a9 Because.": {"id": "f3a9", "text": "Because."},
    "changes f3a9 More": {"id": "f3a9", "text": "More"},
    "refuse f3a9 No": {"id": "f3a9", "text": "No"},
    "decline f3a9 No": {"id": "f3a9", "text": "No"},
    "release f3a9": {"id": "f3a9"},
    "release f3a9 tired --fence 3": {"id": "f3a9", "text": "tired", "fence": "3"},
    "submit f3a9 --text T --commit HEAD --file a b --review --no-wait": {
        "id": "f3a9",
        "text": "T",
        "commit": "HEAD",
        "file": ("a", "b"),
        "review": True,
        "no-wait": True,
    },
    "submit f3a9 --failed why": {"id": "f3a9", "failed": "why"},
    "progress f3a9 half": {"id": "f3a9", "text": "half"},
    "reassign f3a9 @x": {"id": "f3a9", "address": "@x"},
    "correct f3a9 failed/error why": {"id": "f3a9", "state": "failed/error", "text": "why"},
    "settle trc_t111": {"trace": "trc_t111"},
    "inbox": {},
    "board --all": {"all": True},
    "activity --follow --limit 5": {"follow": True, "limit": "5"},
    "failed": {},
    "why a.py:3": {"place": "a.py:3"},
    "join n --run 'pytest -q' --strengths T --capability A B --provider p --inbound hold": {
        "name": "n",
        "run": "pytest -q",
        "strengths": "T",
        "capability": ("A", "B"),
        "provider": "p",
        "inbound": "hold",
    },
    "join n --run -- pytest -q": {"name": "n", "run-argv": ("pytest", "-q")},
    "join n --client claude": {"name": "n", "client": "claude"},
    "join n --drive codex --wake cmd": {"name": "n", "drive": "codex", "wake": "cmd"},
    "leave n": {"name": "n"},
    "rename n m": {"name": "n", "new": "m"},
    "agents": {},
    "whoami": {},
    "workspace": {},
    "watch": {},
    "watch add n --file f": {"name": "n", "file": "f"},
    "watch add n --ref r --repo d": {"name": "n", "ref": "r", "repo": "d"},
    "watch remove wch_1234": {"id": "wch_1234"},
    "workspace add .": {"path": "."},
    "workspace allow p": {"provider": "p"},
    "workspace coordinator n": {"name": "n"},
    "check": {},
    "check add n --kind test --setup s --protect a b --bind c -- pytest -q --json": {
        "name": "n",
        "kind": "test",
        "setup": "s",
        "protect": ("a", "b"),
        "bind": ("c",),
        "argv": ("pytest", "-q", "--json"),
    },
    "check remove n": {"name": "n"},
    "token": {},
    "token add n --domain a b --domain c": {"name": "n", "domain": ("a", "b", "c")},
    "token remove n": {"name": "n"},
    "permission": {},
    "permission list": {},
    "permission allow p444": {"id": "p444"},
    "permission deny p444": {"id": "p444"},
    "stop all": {"target": "all"},
    "pause f3a9": {"target": "f3a9"},
    "resume workspace": {"target": "workspace"},
    "drain @n": {"target": "@n"},
    "up": {},
    "up --replace": {"replace": True},
    "down": {},
    "status": {},
    "doctor --canary @bob --seconds 5": {"canary": True, "name": "@bob", "seconds": "5"},
    "try": {},
    "demo reach": {"what": "reach"},
    "routes --stats": {"stats": True},
    "routes Summarise": {"name": "Summarise"},
    "routes --pin Summarise --domain data @n": {"pin": "Summarise", "domain": "data", "name": "@n"},
    "mcp --client claude": {"client": "claude"},
    "doctor": {},
    "log": {},
    "log head": {},
    "log verify": {},
    "log replay --check": {"check": True},
    "log export --after 3": {"after": "3"},
    "log erase f3a9": {"id": "f3a9"},
    "completion zsh": {"shell": "zsh"},
    "version": {},
    "help check add": {"verb": ("check", "add")},
}


@pytest.mark.parametrize("line", FORMS)
def test_each_fixed_form_is_understood(line: str) -> None:
    assert values(line) == FORMS[line]


def test_there_is_a_form_for_every_verb() -> None:
    tried = {read(line).verb for line in FORMS}
    assert {verb.name for verb in visible(VERBS)} == {verb.name for verb in tried if verb}


@pytest.mark.parametrize(
    "line",
    [
        "--as bob --workspace shop --json inbox",
        "inbox --as bob --workspace shop --json",
        "--json inbox --as=bob --workspace=shop",
    ],
)
def test_options_of_all_verbs_stand_before_or_after_the_verb(line: str) -> None:
    parsed = read(line)
    assert (parsed.as_name, parsed.workspace, parsed.json) == ("bob", "shop", True)


def test_options_of_all_verbs_stand_between_the_words_of_a_family() -> None:
    assert read("check --json add n -- x").values == {"name": "n", "argv": ("x",)}


@pytest.mark.parametrize(
    ("line", "message", "remedy"),
    [
        ("tak f3a9", "There is no verb `tak`.", "Did you mean `take`?"),
        ("frobnicate", "There is no verb `frobnicate`.", "See `tally help`."),
        ("--jsn inbox", "There is no option --jsn before the verb.", "Did you mean `--json`?"),
        ("ask @r T --bodi x", "`tally ask` has no option --bodi.", "Did you mean `--body`?"),
        ("ask @r T -x", "`tally ask` has no option -x.", "A text that begins so: after --."),
        ("ask @r", "TITLE is missing: what is asked, in a few words.", ""),
        ("ask @r T more", "There is no place for `more`.", "Put a text of several words in quotes."),
        ("ask @r T --body", "--body needs a value: T|-.", ""),
        ("ask @r T --body --wake", "--body needs a value: T|-.", ""),
        ("ask @r T --body a --body b", "--body is given twice.", "Give it once."),
        ("ask @r T --wake=yes", "--wake takes no value.", "Leave out `=yes`."),
        ("ask @r T --done-when --", "--done-when -- needs a command after it.", ""),
        ("ask @r T --wait=soon", "--wait is a duration, not `soon`.", "Write it as 90s, 5m, 2h or 3d."),
        ("progress f x --fence -1", "--fence is a whole number, not `-1`.", ""),
        ("inbox --json=1", "--json takes no value.", "Leave out `=1`."),
        ("inbox --as", "--as needs a value: NAME.", ""),
        ("cancel f --reason x", "`tally cancel` has no option --reason.", "A text that begins so: after --."),
        ("check ad n", "`tally check` has no `ad`.", "Did you mean `add`?"),
        ("permission grant", "`tally permission` has no `grant`.", "Use one of: permission list"),
        ("verify f --settle don x", "--settle cannot be `don`.", "Did you mean `done`?"),
        ("completion tcl", "SHELL cannot be `tcl`.", "Use one of: bash, zsh, fish."),
        ("inbox x", "There is no place for `x`.", "Put a text"),
    ],
)
def test_what_is_wrong_is_said_with_what_was_meant(line: str, message: str, remedy: str) -> None:
    with pytest.raises(Usage) as caught:
        read(line)
    assert caught.value.message == message
    assert caught.value.remedy.startswith(remedy)


def test_lone_surrogates_are_refused_at_the_door() -> None:
    with pytest.raises(Usage, match="not valid UTF-8"):
        parse(["answer", "f3a9", "\udcff"], VERBS)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("5m", 300), ("1h30m", 5400), ("3d", 259200), ("20", 20), ("0.5s", 0.5), ("", None), ("m", None)],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("verb", [verb.name for verb in visible(VERBS)])
async def test_every_verb_has_help_and_an_example_that_is_understood(verb: str) -> None:
    outcome = await run(*verb.split(), "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(f"usage tally {verb}")
    assert not outcome.desk.asked
    example = VERBS[verb].example.split(" > ")[0]
    line = example.removeprefix('eval "$(').removesuffix(')"')
    assert read(line.removeprefix("tally ")).verb == VERBS[verb]


async def test_help_of_a_verb_is_the_same_either_way() -> None:
    assert (await run("help", "check", "add")).out == (await run("check", "add", "--help")).out
    wrong = await run("help", "tak")
    assert wrong.code == 2
    assert "take" in wrong.err


async def test_help_of_a_family_shows_how_each_of_it_is_used() -> None:
    for family in sorted({name.split(" ")[0] for name in VERBS if " " in name}):
        told = (await run(family, "--help")).out
        for name, verb in VERBS.items():
            if name.startswith(f"{family} "):
                assert usage(verb) in told


@pytest.mark.parametrize("name", list(USAGE))
def test_help_without_a_host_names_the_same_options(name: str) -> None:
    told = USAGE[name]
    assert told.startswith(f"usage tally {name}")
    assert [option.name for option in VERBS[name].options if f"--{option.name}" not in told] == []


def test_the_reference_holds_every_verb_and_option() -> None:
    data = json.loads(json.dumps(reference()))
    assert [verb["name"] for verb in data["verbs"]] == [verb.name for verb in visible(VERBS)]
    assert {int(code) for code in data["exit_codes"]} == set(EXIT_CODES)
    for verb in data["verbs"]:
        assert verb["summary"].endswith(".")
        assert all(option["help"].endswith(".") for option in verb["options"])


def test_every_error_code_has_an_exit_code_and_a_heading() -> None:
    assert set(ERRORS) == set(ErrorCode)
    assert all(code in (1, 2) and heading for code, heading in ERRORS.values())


@pytest.mark.parametrize("code", list(ErrorCode))
async def test_a_refusal_is_an_error_everywhere_and_output_says_nothing_of_success(code: ErrorCode) -> None:
    refusal = Refused(code, "No.", "Do this.")
    text = await run("take", "f3a9", desk=FakeDesk(take=refusal))
    assert text.code == ERRORS[code][0] != 0
    assert text.out == ""
    assert "tally: No." in text.err
    assert "→ Do this." in text.err
    data = await run("take", "f3a9", "--json", desk=FakeDesk(take=refusal))
    assert data.err == ""
    assert json.loads(data.out) == {"error": {"code": code.value, "message": "No.", "remedy": "Do this."}}


async def test_a_usage_error_is_exit_2_and_json_where_json_was_asked() -> None:
    assert (await run("tak", "x")).code == 2
    outcome = await run("tak", "x", "--json")
    assert (outcome.code, outcome.err) == (2, "")
    assert json.loads(outcome.out)["error"]["code"] == "invalid"


async def test_of_several_claims_each_has_its_result_and_one_failure_fails_the_command() -> None:
    outcome = await run("claim", "f3a9", "b2c4", desk=FakeDesk(take=[d.TAKEN, HELD]))
    assert outcome.code == 1
    assert "tsk_00f3a9 taken" in outcome.out
    assert "b2c4: Task tsk_00f3a9 is held" in outcome.err
    assert len(outcome.desk.calls("recorded")) == 1


async def test_a_failed_claim_is_a_typed_refusal_and_not_an_empty_answer() -> None:
    outcome = await run("take", "f3a9", "--json", desk=FakeDesk(take=HELD))
    assert outcome.code == 1
    assert json.loads(outcome.out)["error"]["code"] == "conflict"


@pytest.mark.parametrize(
    ("line", "acknowledged"), [("take f3a9", "recorded"), ("inbox", "saw_inbox"), ("show f3a9", "saw")]
)
async def test_what_was_shown_is_acknowledged_after_the_flush_and_not_if_the_reader_left(
    line: str, acknowledged: str
) -> None:
    stays = await run(*line.split())
    assert len(stays.desk.calls(acknowledged)) == 1
    assert stays.call.flushes == [len(stays.call.streams)]
    leaves = await run(*line.split(), stays=False)
    assert leaves.desk.calls(acknowledged) == []


async def test_a_refused_acknowledgement_does_not_turn_a_take_into_a_failure() -> None:
    outcome = await run("take", "f3a9", desk=FakeDesk(recorded=conflict("It was canceled.", "")))
    assert outcome.code == 0
    assert "does not count as read: It was canceled." in outcome.err


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (d.DONE, 0),
        (d.msgspec.structs.replace(d.DONE, state="failed", reason="refuted"), 1),
        (d.msgspec.structs.replace(d.DONE, state="canceled", reason="by_person"), 1),
        (d.msgspec.structs.replace(d.DONE, state="rejected", reason="by_agent"), 1),
        (d.ASKED, 4),
        (d.REVIEW, 4),
        (d.msgspec.structs.replace(d.SHOWN, state="auth_required", reason="inbound"), 4),
        (d.UNVERIFIED, 5),
    ],
)
async def test_the_exit_code_of_a_wait_says_how_it_ended(last: Any, code: int) -> None:
    desk = FakeDesk(follow=(d.SHOWN, last))
    assert (await run("ask", "@r", "T", "--wait", desk=desk)).code == code


async def test_a_wait_that_times_out_is_124_and_the_task_goes_on() -> None:
    desk = FakeDesk(follow=(d.SHOWN, ...))
    outcome = await run("ask", "@r", "T", "--wait", "0s", desk=desk)
    assert outcome.code == 124
    assert "the task goes on" in outcome.err
    assert not desk.calls("cancel")


async def test_an_interrupt_ends_the_wait_and_nothing_else() -> None:
    desk = FakeDesk(follow=(d.SHOWN, ...))
    outcome = await run("ask", "@r", "T", "--wait", desk=desk, interrupt_at="working✓")
    assert outcome.code == 130
    assert "the task goes on" in outcome.err
    assert not desk.calls("cancel")


async def test_the_receipt_comes_before_the_wait_and_the_live_line_is_rewritten_on_a_terminal() -> None:
    outcome = await run("ask", "@r", "T", "--wait", tty=True, columns=200)
    writes = [text for _, text in outcome.call.streams]
    assert "asked of @reviewer" in writes[0]
    assert writes[1].startswith("\r")
    assert writes[1].endswith("\x1b[K")
    assert "\r" not in (await run("ask", "@r", "T", "--wait")).out
    assert "\r" not in (await run("ask", "@r", "T", "--wait", tty=True, environment={"TERM": "dumb"})).out


@pytest.mark.parametrize(
    ("settled", "code"), [(d.DONE, 0), (d.REVIEW, 0), (d.REFUTED, 1), (d.UNVERIFIED, 5)], ids=["0", "review", "1", "5"]
)
async def test_submit_waits_for_the_check_and_its_exit_code_tells_the_outcome(settled: Any, code: int) -> None:
    outcome = await run("submit", "f3a9", "--commit", "HEAD", desk=FakeDesk(settled_check=settled))
    assert outcome.code == code
    data = await run("submit", "f3a9", "--commit", "HEAD", "--json", desk=FakeDesk(settled_check=settled))
    assert json.loads(data.out)["state"] == settled.state


async def test_submit_does_not_wait_where_it_was_told_or_nothing_runs() -> None:
    told = await run("submit", "f3a9", "--text", "T", "--no-wait")
    assert (told.code, told.desk.calls("settled_check")) == (0, [])
    idle = await run("submit", "f3a9", "--failed", "no", desk=FakeDesk(submit=d.MOVED))
    assert (idle.code, idle.desk.calls("settled_check")) == (0, [])


async def test_a_dash_reads_standard_input_and_bytes_that_are_not_utf8_are_refused() -> None:
    good = await run("answer", "f3a9", "-", stdin="行\n".encode())
    assert good.desk.calls("answer") == [(("f3a9", "行"), {})]
    bad = await run("answer", "f3a9", "-", stdin=b"\xff")
    assert bad.code == 2
    assert not bad.desk.calls("answer")


@pytest.mark.parametrize(("reply", "asked"), [("y", 1), ("", 0), (None, 0)])
async def test_a_command_as_a_check_is_confirmed_at_a_terminal(reply: str | None, asked: int) -> None:
    outcome = await run("ask", "@r", "T", "--done-when", "--", "make", "t", tty=True, reply=reply)
    assert len(outcome.desk.calls("ask")) == asked
    assert len(outcome.call.prompts) == 1
    assert "make t" in outcome.call.prompts[0]


async def test_what_is_written_for_whom_is_asked_below_the_difference() -> None:
    outcome = await run("install", tty=True, reply="")
    assert outcome.call.prompts == ["Write this file, for Claude Code? [y/N] "]
    assert not outcome.desk.calls("install")


async def test_without_a_terminal_the_desk_decides_alone() -> None:
    outcome = await run("ask", "@r", "T", "--done-when", "--", "make", "t")
    assert outcome.call.prompts == []
    assert outcome.desk.calls("ask")[0][0][0].done_when_argv == ("make", "t")


async def test_ask_and_join_register_the_workspace_and_nothing_else_does() -> None:
    for line, registers in (("ask @r T", True), ("join n", True), ("inbox", False)):
        outcome = await run(*line.split(), "--as", "bob", "--workspace", "w")
        options = outcome.desk.calls("guest")[0][1]
        assert options == {"as_name": "bob", "workspace": "w", "register": registers}


async def test_what_is_promised_of_an_agent_and_how_it_is_heard_of_are_two_lines(monkeypatch: Any) -> None:
    joined = d.msgspec.structs.replace(d.CANNED["join"], promise="mailbox", presence="live")
    monkeypatch.setitem(d.CANNED, "join", joined)
    lines = [line.split() for line in (await run("join", "n")).out.splitlines()]
    assert ["promise", "mailbox"] in lines
    assert ["presence", "live"] in lines


async def test_join_sends_only_what_was_given() -> None:
    form = (await run("join", "@n", "--strengths", "T")).desk.calls("join")[0][0][0]
    assert (form.name, form.strengths, form.run, form.capabilities, form.network) == ("n", "T", None, None, None)
    form = (await run("join", "n", "--run", "pytest -k 'a b'")).desk.calls("join")[0][0][0]
    assert form.run == ("pytest", "-k", "a b")


async def test_commands_to_copy_keep_the_name_that_the_reader_acts_as() -> None:
    assert "tally --as bob take tsk_00f3a9" in (await run("inbox", "--as", "bob")).out


async def test_down_speaks_first_and_stops_then() -> None:
    outcome = await run("down")
    assert outcome.code == 0
    assert outcome.call.flushes == [1]
    assert [name for name, _, _ in outcome.desk.asked] == ["stop"]


async def test_a_session_may_not_stop_the_host() -> None:
    outcome = await run("down", environment={"TALLY_SESSION": d.SESSION})
    assert (outcome.code, outcome.desk.asked) == (1, [])


async def test_verify_fails_where_a_reference_does_not_hold() -> None:
    bad = d.msgspec.structs.replace(d.DONE, references=({**d.REFERENCE, "verdict": "the digest differs"},))
    outcome = await run("verify", "f3a9", desk=FakeDesk(verify=bad))
    assert outcome.code == 1
    assert "verified: the digest differs" in outcome.out
    outside = {"kind": "external", "target": "https://example.org/", "verdict": "unchecked", "checked": False}
    fine = d.msgspec.structs.replace(d.DONE, references=({**d.REFERENCE, "verdict": "ok"}, outside))
    assert (await run("verify", "f3a9", desk=FakeDesk(verify=fine))).code == 0


async def test_a_hostile_title_forges_no_line() -> None:
    evil = "x\x1b[2K\ntsk_00beef  completed\u202e"
    board = d.forms.Board(tasks=tuple(d.msgspec.structs.replace(task, title=evil) for task in d.BOARD.tasks))
    outcome = await run("board", desk=FakeDesk(board=board), tty=True, columns=200, environment={"NO_COLOR": ""})
    assert not {"\x1b", "\u202e"} & set(outcome.out)
    assert outcome.out.count("\n") == 3


async def test_json_survives_a_lone_surrogate() -> None:
    shown = await run(
        "inbox", "--json", desk=FakeDesk(inbox=d.forms.Inbox(turns=(d.item(title="\ud800"),), notices=()))
    )
    assert json.loads(shown.out)["turns"][0]["title"] == "\ud800"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ta"], ["take"]),
        (["check", ""], ["add", "list", "remove"]),
        (["ask", "@re"], ["@reviewer"]),
        (["take", ""], ["tsk_00b2c4", "tsk_00f3a9"]),
        (["take", "x", "tsk_00f"], ["tsk_00f3a9"]),
        (["ask", "@r", "T", "--done-when", ""], ["tests"]),
        (["ask", "@r", "T", "--exp"], ["--expect"]),
        (["ask", "@r", "T", "--expect", "c"], ["change"]),
        (["--as", ""], ["reviewer", "tester"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["nonsense", ""], []),
        (["answer", "f3a9", ""], []),
    ],
)
async def test_completion_finds_verbs_options_and_names(words: list[str], found: list[str]) -> None:
    outcome = await run("__complete", "--", *words)
    assert outcome.code == 0
    assert outcome.out.split() == found


async def test_completion_is_silent_about_everything_that_goes_wrong() -> None:
    class Broken(FakeDesk):
        async def names(self, guest: Any, kind: str) -> list[str]:
            raise HELD

    outcome = await run("__complete", "--", "take", "", desk=Broken())
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


def test_no_text_of_ours_suggests_something_destructive() -> None:
    for path in Path(cli.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not any(word in node.value for word in ("rm -", "reset --hard", "--force", "delete it"))


async def test_many_commands_run_at_once_without_disturbing_each_other() -> None:
    outcomes = await asyncio.gather(*(run("show", f"f3a{n}", *(["--json"] if n % 2 else [])) for n in range(20)))
    assert {outcome.code for outcome in outcomes} == {0}
    assert len({outcome.out for outcome in outcomes}) == 2
