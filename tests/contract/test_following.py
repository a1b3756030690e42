"""Whom a commit concerns: tables by the kind of its event and of its rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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
        stumbled=lambda *_: told.append("stumbled"),
    )
    following.committed(recorded(ev.SessionEnded()), (SEEN, READ, SEEN))
    assert told == ["ended", "ended or left", "seen tsk_1", "seen tsk_1", "3 rows"]
    told.clear()
    following.committed(recorded(ev.AgentLeft()), ())
    assert told == ["ended or left", "0 rows"]


@pytest.mark.parametrize("broken", range(6))
def test_one_that_fails_costs_nobody_else_what_it_is_told(broken: int) -> None:
    told: list[int] = []
    stumbled: list[tuple[str, str]] = []

    def follower(number: int) -> Callable[..., None]:
        def tell(*_: object) -> None:
            if number == broken:
                raise KeyError(number)
            told.append(number)

        return tell

    following = Following(
        events=(((ev.AgentLeft,), follower(0)), ((ev.AgentLeft,), follower(1))),
        rows=((SeenRow, follower(2)), (SeenRow, follower(3))),
        commits=(follower(4), follower(5)),
        stumbled=lambda where, error: stumbled.append((where, repr(error))),
    )
    following.committed(recorded(ev.AgentLeft()), (SEEN,))
    assert told == [number for number in range(6) if number != broken]
    assert stumbled == [("follow", f"KeyError({broken})")]


def test_every_event_is_of_a_task_or_of_something_else() -> None:
    assert set(TASK_EVENTS) | set(OTHER_EVENTS) == set(ev.event_types().values())
    assert not set(TASK_EVENTS) & set(OTHER_EVENTS)


def test_every_event_that_can_give_a_lease_is_among_those_that_may() -> None:
    leases = {kind for kind in ev.event_types().values() if "lease_until" in kind.__struct_fields__}
    assert set(LEASE_EVENTS) == leases
    assert ev.TaskClaimed in leases
