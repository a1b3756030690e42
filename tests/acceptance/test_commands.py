"""Command agents: what ran and is no result ends as a failure that says why."""

from __future__ import annotations

from tests.support.places import Place


def test_a_command_that_changes_nothing_where_a_change_was_asked_for_fails() -> None:
    with Place() as place:
        assert place.start()
        repo = str(place.repository())
        place.call("join", cwd=repo, name="idler", run=["true"])
        task = place.call("ask", cwd=repo, address="@idler", title="change it", expect="change")["task_id"]
        shown = place.until(task, "failed/error")
        assert "changes nothing" in shown["history"][-1]["text"]
        assert shown["checks"][-1]["exit_code"] == 0
