"""Whom a commit concerns: tables by the kind of its event and of its rows."""

from __future__ import annotations

from tallystick.app.following import LEASE_EVENTS, OTHER_EVENTS, TASK_EVENTS, Following
from tallystick.core import events as ev
from tallystick.core.identity import HOST
from tallystick.core.rows import NoticeReadRow, Row, SeenRow


def recorded(event: ev.Event) -> ev.Recorded:
    return ev.Recorded(
        position=1, stream="ses_1", version=1, workspace="", at=1.0, actor=HOST, subject="", trace="", event=event
    )


SEEN = SeenRow(party="agt_1", task_id="tsk_1", version=1)
READ = NoticeReadRow(party="agt_1", task_id="tsk_1", unread=0)


def test_a_follower_is_told_of_its_kinds_alone_and_in_the_order_of_the_tables() -> None:
    told: list[str] = []

    def whole(_recorded: ev.Recorded, rows: tuple[Row, ...]) -> None:
        told.append(f"{len(rows)} rows")

    following = Following(
        events=(
            ((ev.SessionEnded,), lambda _: told.append("ended")),
            ((ev.SessionEnded, ev.AgentLeft), lambda _: told.append("ended or left")),
        ),
        rows=((SeenRow, lambda row: told.append(f"seen {row.task_id}")),),
        commits=(whole,),
    )
    following.committed(recorded(ev.SessionEnded()), (SEEN, READ, SEEN))
    assert told == ["ended", "ended or left", "seen tsk_1", "seen tsk_1", "3 rows"]
    told.clear()
    following.committed(recorded(ev.AgentLeft()), ())
    assert told == ["ended or left", "0 rows"]


def test_every_event_is_of_a_task_or_of_something_else() -> None:
    assert set(TASK_EVENTS) | set(OTHER_EVENTS) == set(ev.event_types().values())
    assert not set(TASK_EVENTS) & set(OTHER_EVENTS)


def test_every_event_that_can_give_a_lease_is_among_those_that_may() -> None:
    leases = {kind for kind in ev.event_types().values() if "lease_until" in kind.__struct_fields__}
    assert set(LEASE_EVENTS) == leases
    assert ev.TaskClaimed in leases
