"""Sessions that the host drives, with an agent that does what a script says: every fact by its own witness."""

from __future__ import annotations

import pytest

from tests.support.driven import DONE, TAKE, Stage


@pytest.fixture(scope="module")
def stage():
    with Stage() as stage:
        assert stage.start()
        stage.driven()
        yield stage


def test_a_session_takes_and_hands_in_and_each_fact_has_its_own_witness(stage: Stage) -> None:
    task = stage.ask({"say": "I look at it."}, TAKE, DONE)
    shown = stage.until(task, "completed")
    assert shown["result"] == "All is well."
    facts = stage.facts(task)
    assert list(facts) == ["accepted", "persisted", "claimed", "admitted", "recorded", "working", "submitted"]
    session = shown["attempts"][0]["session"]
    assert facts["recorded"]["evidence"].startswith("inferred")
    assert facts["working"]["evidence"] == "take"
    assert all(session in facts[name]["witness"] for name in ("claimed", "recorded", "working", "submitted"))
    whats = [line["what"] for line in shown["history"]]
    assert whats.index("prompted: work") < whats.index("took it") < whats.index("handed in")
