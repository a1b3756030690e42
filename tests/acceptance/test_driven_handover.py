"""A task that goes on in another client: by hand, or because a quota is used up. What moves is a brief, never the
conversation."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tallystick.core.identity import short
from tests.support.driven import DONE, TAKE, RealStage, Stage
from tests.support.hosts import eventually
from tests.support.model import Model, Rule, script

SAID = {"message": "Try again at noon.", "codexErrorInfo": "usageLimitExceeded"}
USED_UP = {"error": [-32603, "Internal error", SAID]}
SAYS = {
    "codex": USED_UP,
    "vibe": {"error": [-31001, "Rate limit exceeded for fake. Try again at noon.", {"provider": "fake"}]},
}
"""How clients say it by an error, as it was measured."""
HALF = {"call": "progress", "args": {"text": "The first half is done."}}


@pytest.fixture
def stage():
    with Stage() as stage:
        assert stage.start()
        stage.plan()
        yield stage


def brief(stage, task):
    """The prompt by which a session got what another one had before."""
    return eventually(
        lambda: next((p for p in stage.log("prompt") if task in p["text"] and "had it before" in p["text"]), None),
        "the brief",
    )


def whats(shown):
    return [line["what"] for line in shown["history"]]


@pytest.mark.parametrize("client", SAYS)
def test_a_used_up_quota_is_a_question_with_its_remedy_and_nothing_is_tried_again(stage: Stage, client) -> None:
    stage.known(client)
    task = stage.ask(TAKE, HALF, SAYS[client])
    shown = stage.until(task, "input_required/question")
    assert "turn ended: quota" in whats(shown)
    assert "Try again at noon." in shown["question"]
    assert f"tally reassign {short(task)} @other" in shown["question"]
    assert len(stage.log("prompt")) == 1
    assert stage.call("inbox")["turns"][0]["task_id"] == task, "one thing to decide"
    stage.plan(again=[DONE])
    stage.call("answer", task=task, text="There is quota again.")
    stage.until(task, "completed")


def test_words_tell_it_where_a_client_says_it_in_no_other_way_and_only_as_a_whole(stage: Stage) -> None:
    stage.known("codex")
    limited = "exceeded retry limit, last status: 429 Too Many Requests\n\n"
    task = stage.ask(TAKE, {"say": limited})
    assert "turn ended: quota" in whats(stage.until(task, "input_required/question"))
    stage.call("cancel", task=task, text="")
    stage.until(task, "canceled")
    stage.plan(again=[DONE])
    quoted = stage.ask(TAKE, {"say": f"The log says: {limited} That is why it fails."})
    assert "turn ended: quota" not in whats(stage.until(quoted, "completed"))


def test_the_host_hands_it_on_to_whom_a_person_named_and_the_brief_has_what_was_done(stage: Stage) -> None:
    repo = stage.repository()
    stage.known("codex", more='handover = "@second"\n')
    stage.driven("second")
    for name in ("reviewer", "second"):
        stage.call("join", name=name, cwd=str(repo))
    done = {"run": "echo half > half.txt"}
    stage.plan(again=[])
    task = stage.ask(TAKE, HALF, done, USED_UP, cwd=str(repo))
    found = brief(stage, task)
    assert "The first half is done." in found["text"]
    assert "agents/reviewer.toml names who goes on" in found["text"]
    assert "half.txt" in found["text"], "what was left in its work tree can be read"
    commit = found["text"].split("in its work tree: commit ")[1][:40]
    assert commit.isalnum()
    shown = stage.show(task)
    assert shown["assignee"] == "@second"
    line = next(line for line in shown["history"] if line["what"] == "reassigned to @second")
    assert line["who"] in ("host", "@host")
    sessions = {p["session"] for p in stage.log("prompt") if task in p["text"]}
    assert len(sessions) == 2
    stage.call("cancel", task=task, text="")
    stage.until(task, "canceled")


def test_two_used_up_quotas_do_not_play_a_task_to_and_fro(stage: Stage) -> None:
    stage.known("codex", more='handover = "@second"\n')
    stage.own("second", 'mode = "ask"\nsandbox = false\ncanary = false\nhandover = "@reviewer"\n')
    path = {"PATH": f"{stage.place / 'codex.bin'}:/usr/bin:/bin"}
    stage.call("join", env=path, name="second", drive="codex")
    task = stage.ask(TAKE, USED_UP)
    shown = stage.until(task, "input_required/question")
    assert shown["assignee"] == "@second"
    assert "@reviewer had task" in shown["question"]
    assert whats(shown).count("turn ended: quota") == 2


@pytest.mark.parametrize(("named", "why"), [("@nobody", "There is no @nobody"), ("@reviewer", "another agent")])
def test_a_handover_that_cannot_be_is_told_with_the_question(stage: Stage, named, why) -> None:
    stage.known("codex", more=f'handover = "{named}"\n')
    task = stage.ask(TAKE, USED_UP)
    assert why in stage.until(task, "input_required/question")["question"]


# --- two real clients ----------------------------------------------------------------------------------------------

QUOTA = {
    "type": "insufficient_quota",
    "code": "insufficient_quota",
    "message": "You exceeded your current quota, please check your plan and billing details.",
}
CREDIT = {"type": "invalid_request_error", "message": "Your credit balance is too low to access the Anthropic API."}
TAKE_IT = {"mcp": "tally.take", "args": {"task": "@last"}}
SUBMIT = {"mcp": "tally.submit", "args": {"task": "@last", "text": "I went on with it."}}
SECONDS = 60


HALF_DONE = {"mcp": "tally.progress", "args": {"task": "@last", "text": "The first half is done."}}


@pytest.fixture(scope="module")
def pair():
    """Codex as @reviewer and Claude as @second, on one host with one model."""
    with Model() as model, RealStage("codex", model, turn_note_seconds=0.2) as stage:
        assert stage.start()
        stage.join("reviewer", more='canary = false\nhandover = "@second"\n')
        stage.turns_to("claude")
        stage.join("second", more="canary = false\n")
        yield stage


def each_its_own(stage, name, codex):
    """What the model says to each of them about a task whose words hold that name."""
    claude = [TAKE_IT, SUBMIT, {"text": "Done."}]
    stage.model.rules.append(Rule(name, lambda seen, at: (claude if "Bash" in seen.tools else codex)[at]))


def asked_of_claude(stage, name):
    """What Claude asked its model about that task first."""
    return next(r for r in stage.model.turns if r.dialect == "messages" and name in r.seen.text)


def test_from_codex_whose_quota_is_used_up_to_claude_and_the_next_one_is_a_question(pair: RealStage) -> None:
    each_its_own(pair, "HANDOVER", [TAKE_IT, HALF_DONE, {"status": 429, "error": {"error": QUOTA}}])
    task = pair.call("ask", address="@reviewer", title="Look", body="Take what is yours: HANDOVER.")["task_id"]
    shown = pair.until(task, "completed", "failed", "input_required", seconds=SECONDS)
    assert shown["result"] == "I went on with it.", (shown["history"], pair.said())
    assert "turn ended: quota" in whats(shown)
    assert "reassigned to @second" in whats(shown)
    assert "The first half is done." in str(asked_of_claude(pair, "HANDOVER").body)
    words = script({"status": 400, "error": {"type": "error", "error": CREDIT}})
    task = pair.call("ask", address="@second", title="Look", body=words)["task_id"]
    shown = pair.until(task, "input_required/question", seconds=SECONDS)
    assert "turn ended: quota" in whats(shown)
    assert "Credit balance is too low" in shown["question"]


def standing_in(tree):
    """Processes whose directory is there."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and str((folder / "cwd").readlink()).startswith(str(tree)):
                found.append((folder / "cmdline").read_bytes())
    return found


def test_a_task_that_a_person_reassigns_in_the_middle_of_a_turn_of_codex_goes_on_in_claude(pair: RealStage) -> None:
    repo = pair.repository()
    for name in ("reviewer", "second"):
        pair.call("join", name=name, cwd=str(repo))
    half = {"shell": "echo half > half.txt"}
    each_its_own(pair, "MIDDLE", [TAKE_IT, HALF_DONE, half, {"text": "I go on.", "gate": "never"}])
    words = "Take what is yours: MIDDLE."
    task = pair.call("ask", address="@reviewer", title="Look", body=words, cwd=str(repo))["task_id"]
    session = pair.until(task, "working", seconds=SECONDS)["session"]
    tree = pair.path / "worktrees" / session
    eventually(lambda: (tree / "half.txt").exists(), "what it does first", SECONDS)
    code, _, err = pair.tally("reassign", task, "@second", "Please go on.")
    assert code == 0, err
    shown = pair.until(task, "completed", "failed", "input_required", seconds=SECONDS)
    assert shown["result"] == "I went on with it.", (shown["history"], pair.said())
    assert shown["assignee"] == "@second"
    eventually(lambda: not standing_in(tree), "the end of Codex")
    brief = str(asked_of_claude(pair, "MIDDLE").body)
    assert all(part in brief for part in ("The first half is done.", "Please go on.", "half.txt"))
    assert [d["fact"] for d in shown["attempts"]].count("submitted") == 1


DAY = {
    "code": 429,
    "status": "RESOURCE_EXHAUSTED",
    "message": "You exceeded your current quota, please check your plan and billing details.",
    "details": [
        {
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "250"}],
        }
    ],
}


def test_gemini_whose_day_is_used_up_is_a_question_at_once_and_whom_it_is_given_to_goes_on() -> None:
    with Model() as model, RealStage("gemini", model, turn_note_seconds=0.2) as stage:
        assert stage.start()
        stage.join("reviewer", more="canary = false\n")
        stage.call("join", name="worker")
        words = script(TAKE_IT, {"status": 429, "error": {"error": DAY}})
        task = stage.call("ask", address="@reviewer", title="Look", body=words)["task_id"]
        shown = stage.until(task, "input_required/question", seconds=SECONDS)
        assert "turn ended: quota" in whats(shown), (shown["history"], stage.said())
        assert "daily quota" in shown["question"]
        assert len([r for r in model.turns if r.answer.status == 429]) == 1, "nothing is tried again"
        assert stage.tally("reassign", task, "@worker", "Please go on.")[0] == 0
        assert stage.show(task)["assignee"] == "@worker"
