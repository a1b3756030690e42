"""Words are not kept for ever: some time after its end a trace is settled, later archived, and its words erased."""

from __future__ import annotations

from tests.support.hosts import eventually
from tests.support.places import Place


def test_a_trace_is_settled_archived_and_its_words_erased_by_age() -> None:
    with Place(settle_after_seconds=0.001, body_retention_seconds=0.001) as place:
        assert place.start()
        place.call("join", name="worker")
        task = place.call("ask", address="@worker", title="a secret", body="of some weight")["task_id"]
        place.call("take", "worker", task=task)
        place.call("submit", "worker", task=task, text="whispered")
        place.stop()

        assert place.start()  # a host settles what is old when it starts, and at times after that
        eventually(lambda: "trace settled" in [line["what"] for line in place.show(task)["history"]], "settled")
        place.stop()

        assert place.start()  # and then archives and erases
        shown = eventually(lambda: s if (s := place.show(task))["title"] == "[erased]" else None, "erased")
        assert "whispered" not in str(shown)
        assert shown["state"] == "completed"
        assert [fact["fact"] for fact in shown["facts"]][-1] == "submitted"
        place.stop()
        place.audit()
        left = b"".join(path.read_bytes() for path in place.path.glob("tally.db*") if path.is_file())
        assert b"of some weight" not in left
