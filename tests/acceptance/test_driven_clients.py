"""Sessions of real coding clients, driven against a scripted model on loopback."""

from __future__ import annotations

import pytest

from tests.support.driven import RealStage
from tests.support.model import Model, script

SECONDS = 90
TAKE = {"mcp": "tally.take", "args": {"task": "@last"}}
SUBMIT = {"mcp": "tally.submit", "args": {"task": "@last", "text": "I looked: all is well."}}


@pytest.fixture(scope="module", params=["codex", "claude"])
def stage(request):
    with Model() as model, RealStage(request.param, model) as stage:
        assert stage.start()
        stage.join()
        yield stage


def test_a_real_client_takes_and_hands_in(stage: RealStage) -> None:
    task = stage.call("ask", address="@reviewer", title="Look", body=script(TAKE, SUBMIT, {"text": "Done."}))["task_id"]
    shown = stage.until(task, "completed", "input_required/question", seconds=SECONDS)
    assert shown["result"] == "I looked: all is well.", shown["history"]
    facts = stage.facts(task)
    assert facts["recorded"]["evidence"].startswith("inferred")
    assert facts["working"]["evidence"] == "take"
