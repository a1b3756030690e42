"""More real clients, driven against a scripted model on loopback; run where TALLY_TEST_CLIENTS names them, or all."""

from __future__ import annotations

import pytest

from tests.support.driven import DRIVEN_BY_CHOICE, RealStage, counted, model_tokens
from tests.support.model import Model, Rule, script

SECONDS = 90
TAKE = {"mcp": "tally.take", "args": {"task": "@last"}}
SUBMIT = {"mcp": "tally.submit", "args": {"task": "@last", "text": "I looked: all is well."}}
CANARY = Rule(r"\(touch (\S+)\)", [{"shell": "touch {{match.1}}"}, {"text": "It was denied."}])
MODES = {"qwen": "in mode default", "vibe": "in mode ask"}
"""Set at the start of a session: they begin in others, in which not everything is asked."""
ASKS = ("gemini", "opencode", "qwen", "vibe")


@pytest.fixture(scope="module", params=DRIVEN_BY_CHOICE)
def stage(request):
    with Model(CANARY) as model, RealStage(request.param, model, turn_note_seconds=0.2) as stage:
        assert stage.start()
        stage.join(**({"required": "E2"} if request.param in ASKS else {}))
        yield stage


def ask(stage, *steps):
    return stage.call("ask", address="@reviewer", title="Look", body=script(*steps))["task_id"]


def test_it_takes_and_hands_in_by_our_tools_and_its_level_is_what_was_proved(stage: RealStage) -> None:
    task = ask(stage, TAKE, SUBMIT, {"text": "Done."})
    shown = stage.until(task, "completed", "input_required/question", seconds=SECONDS)
    assert shown["result"] == "I looked: all is well.", (shown["history"], stage.said())
    facts = stage.facts(task)
    assert facts["working"]["evidence"] == "take"
    assert facts["recorded"]["evidence"]
    driven = next(a for a in stage.call("agents")["agents"] if a["name"] == "@reviewer")["driven"][0]
    assert stage.pin.version in driven["client"], driven
    if stage.client_name in ASKS:
        assert driven["level"] in ("E2", "E3")
        assert "denied and not carried out" in driven["rests_on"]
        assert MODES.get(stage.client_name, "") in driven["rests_on"]
    else:
        assert "without asking" in driven["rests_on"]


def test_it_asks_before_it_acts_and_what_is_denied_is_not_done(stage: RealStage) -> None:
    if stage.client_name not in ASKS:
        pytest.skip("it never asks: its sessions are shown so")
    target = stage.person / "home" / "denied.txt"
    task = ask(stage, TAKE, {"shell": f"touch {target}"}, SUBMIT, {"text": "Done."})
    asked = stage.permission(task)
    assert "denied.txt" in asked["action"]
    assert stage.show(task)["state"] == "auth_required"
    code, _, err = stage.tally("permission", "deny", asked["permission_id"])
    assert code == 0, err
    shown = stage.until(task, "completed", "input_required/question", seconds=SECONDS)
    assert not target.exists()
    assert shown["permissions"][0]["decision"] == "reject_once"


def test_what_a_turn_used_is_what_its_model_counted_as_far_as_the_client_tells(stage: RealStage) -> None:
    task = ask(stage, TAKE, SUBMIT, {"text": "Done."})
    stage.until(task, "completed", "input_required/question", seconds=SECONDS)
    used = stage.until_used(task)[0]
    tokens, _, cost = used.partition(", ")
    assert tokens == counted(stage.client_name, model_tokens(stage.model, task))
    assert ("unknown" in cost) == (stage.client_name not in ("opencode", "vibe")), cost
