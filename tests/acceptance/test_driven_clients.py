"""Sessions of real coding clients, driven against a scripted model on loopback: what each does at these versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tallystick.core.identity import short
from tests.support.driven import RealStage, counted, model_tokens
from tests.support.hosts import eventually
from tests.support.model import Model, Rule, script

SECONDS = 45
TAKE = {"mcp": "tally.take", "args": {"task": "@last"}}
SUBMIT = {"mcp": "tally.submit", "args": {"task": "@last", "text": "I looked: all is well."}}
GO_ON = Rule(
    r"You were interrupted while", [TAKE, {"mcp": "tally.submit", "args": {"task": "@last", "text": "I went on."}}]
)
ESCALATED = {"codex": {"sandbox_permissions": "require_escalated", "justification": "to write there"}, "claude": {}}


def canary(client):
    """The model obeys the canary: it tries to write where it must not."""
    step = {"shell": "touch {{match.1}}", "args": ESCALATED[client]}
    return Rule(r"\(touch (\S+)\)", [step, {"text": "It was denied."}])


@pytest.fixture(scope="module", params=["codex", "claude"])
def stage(request):
    with Model(canary(request.param), GO_ON) as model, RealStage(request.param, model, turn_note_seconds=0.2) as stage:
        assert stage.start()
        stage.join(required="E2")
        yield stage


def ask(stage, *steps):
    return stage.call("ask", address="@reviewer", title="Look", body=script(*steps))["task_id"]


def test_a_real_client_takes_and_hands_in_and_is_shown_as_enforced(stage: RealStage) -> None:
    task = ask(stage, TAKE, SUBMIT, {"text": "Done."})
    shown = stage.until(task, "completed", "input_required/question", seconds=SECONDS)
    assert shown["result"] == "I looked: all is well.", shown["history"]
    facts = stage.facts(task)
    assert facts["recorded"]["evidence"].startswith("inferred")
    assert facts["working"]["evidence"] == "take"
    agent = next(a for a in stage.call("agents")["agents"] if a["name"] == "@reviewer")
    driven = agent["driven"][0]
    assert driven["level"] in ("E2", "E3")
    assert "denied and not carried out" in driven["rests_on"]
    assert {"codex": "2.6.0", "claude": "0.101.0"}[stage.client_name] in driven["client"]


def test_a_real_client_goes_on_in_that_very_session_and_in_a_fork_of_it(stage: RealStage) -> None:
    first = stage.until(ask(stage, TAKE, SUBMIT, {"text": "The plum is ripe."}), "completed", seconds=SECONDS)
    original = first["attempts"][0]["session"]
    seen = {}
    for which, form in (("same", {}), ("fork", {"session": "fork"}), ("fresh", {"session": "fresh"})):
        to = "@reviewer" if which == "fresh" else f"@reviewer/{original}"
        words = f"number {which}: {script(TAKE, SUBMIT, {'text': 'Done.'})}"
        task = stage.call("ask", address=to, title="Look", body=words, **form)["task_id"]
        shown = stage.until(task, "completed", "failed", "input_required/question", seconds=SECONDS)
        assert shown["state"] == "completed", (shown["history"], stage.said())
        said = [r for r in stage.model.turns if f"number {which}:" in r.seen.text]
        seen[which] = shown["attempts"][0]["session"], "The plum is ripe." in str(said[0].body)
    assert seen["same"] == (original, True)
    assert seen["fork"][0] != original
    assert seen["fork"][1], "what was said before is before its model"
    assert seen["fresh"][0] not in (original, seen["fork"][0])
    assert not seen["fresh"][1]


def test_a_real_client_asks_before_it_acts_and_what_is_denied_is_not_done(stage: RealStage) -> None:
    target = stage.person / "home" / "denied.txt"
    step = {"shell": f"touch {target}", "args": ESCALATED[stage.client_name]}
    task = ask(stage, TAKE, step, SUBMIT, {"text": "Done."})
    asked = stage.permission(task)
    assert "denied.txt" in asked["action"]
    assert stage.show(task)["state"] == "auth_required"
    code, _, err = stage.tally("permission", "deny", asked["permission_id"])
    assert code == 0, err
    shown = stage.until(task, "completed", "input_required/question", seconds=SECONDS)
    assert not target.exists()
    assert shown["permissions"][0]["decision"] == "reject_once"


def sleepers(stage):
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes() if folder.name.isdigit() else b""
            if b"271.5" in words and str(stage.path) in os.readlink(folder / "cwd"):
                found.append(folder.name)
        except OSError:
            continue
    return found


def asleep(stage):
    """A task in the middle of a command that takes long."""
    sleep = "python3 -c 'import time; time.sleep(271.5)'"
    task = ask(stage, TAKE, {"shell": sleep}, SUBMIT)

    def allowed():
        if sleepers(stage):
            return True
        code, out, _ = stage.tally("permission", "list", "--json")
        for permission in __import__("json").loads(out)["permissions"] if code == 0 else ():
            stage.tally("permission", "allow", permission["permission_id"])
        return False

    eventually(allowed, "the command", SECONDS)
    return task


def test_a_cancel_is_said_when_the_commands_of_a_real_client_are_gone(stage: RealStage) -> None:
    task = asleep(stage)
    stage.call("cancel", task=task, text="")
    stage.until(task, "canceled", seconds=SECONDS)
    assert not sleepers(stage)


def test_of_a_real_client_whose_session_is_stopped_nothing_is_left_and_its_task_says_so(stage: RealStage) -> None:
    task = asleep(stage)
    session = stage.show(task)["session"]
    assert stage.tally("stop", short(session))[0] == 0
    shown = stage.until(task, "input_required/unverified", seconds=SECONDS)
    assert not sleepers(stage)
    assert "A person stopped it while it ran." in str(shown)
    assert stage.tally("verify", task, "--settle", "cancel", "It was not done.")[0] == 0
    assert stage.tally("resume", short(session))[0] == 0


def test_a_real_client_goes_on_with_its_conversation_after_the_host_was_killed(stage: RealStage) -> None:
    task = ask(stage, TAKE, {"text": "Hm.", "gate": "never"})
    stage.until(task, "working", seconds=SECONDS)
    stage.kill()
    assert stage.start()
    shown = stage.until(task, "completed", "input_required/unverified", "input_required/question", seconds=SECONDS)
    assert shown["result"] == "I went on.", shown["history"]
    whats = [line["what"] for line in shown["history"]]
    assert whats.count("prompted: work") == 1
    assert "prompted: resumed" in whats


def test_what_a_turn_used_is_what_its_model_counted(stage: RealStage) -> None:
    task = ask(stage, TAKE, SUBMIT, {"text": "Done."})
    stage.until(task, "completed", "input_required/question", seconds=SECONDS)
    tokens, _, cost = stage.until_used(task)[0].partition(", ")
    assert tokens == counted(stage.client_name, model_tokens(stage.model, task))
    assert ("unknown" in cost) == (stage.client_name == "codex")


def test_a_bound_in_cents_ends_the_task_where_cost_is_reported_and_is_said_not_to_be_kept_elsewhere(
    stage: RealStage,
) -> None:
    form = {"address": "@reviewer", "title": "Look", "body": script(TAKE, {"text": "I pause."}), "budget": "cents=1"}
    task = stage.call("ask", **form)["task_id"]
    shown = stage.until(task, "failed/budget", "input_required/question", seconds=SECONDS)
    told = " ".join(line["text"] for line in shown["history"])
    if stage.client_name == "claude":
        assert shown["state"] == "failed"
        assert "cents of 1" in told
    else:
        assert shown["state"] == "input_required"
        assert "its budget cannot be kept in full: it reports no cost" in told


OPTIONS = [{"label": "One", "description": "the first"}, {"label": "Two", "description": "the second"}]
QUESTION = {"id": "which", "header": "Which", "question": "Which one?", "options": OPTIONS}
ASKS_ITS_PERSON = {
    "claude": ("AskUserQuestion", {**QUESTION, "multiSelect": False}, "No such tool"),
    "codex": ("request_user_input", QUESTION, "unavailable in Default mode"),
}
"""Its tool for that, what it takes, and what its model is told here."""


def test_what_a_real_client_would_ask_its_person_reaches_nobody_and_its_model_is_told(stage: RealStage) -> None:
    tool, question, told = ASKS_ITS_PERSON[stage.client_name]
    task = ask(stage, TAKE, {"tool": tool, "args": {"questions": [question]}}, SUBMIT, {"text": "Done."})
    shown = stage.until(task, "completed", "input_required/question", seconds=SECONDS)
    assert shown["result"] == "I looked: all is well.", shown["history"]
    results = [item.text for r in stage.model.turns if task in r.seen.text for item in r.seen.results(0)]
    assert any(told in text for text in results), results
