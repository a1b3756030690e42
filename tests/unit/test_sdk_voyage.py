"""What a client's message is told to be: a duplicate only of what was there before this caller sent it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tallystick.sdk.frames import Heard, frame
from tallystick.sdk.schema import Schema
from tallystick.sdk.voyage import Voyage


def heard(voyage: Voyage, kind: str, **body: Any) -> Heard:
    return msgspec.convert(frame(kind, body, msg_id=voyage.msg_id), Heard)


@pytest.mark.parametrize(
    ("key", "sends", "answers", "duplicate"),
    [
        ("", 1, [False], False),
        ("k", 1, [True], True),
        ("", 1, [True], True),
        ("", 2, [True], False),
        ("", 2, [False, True], False),
        ("k", 2, [False, True], False),
    ],
)
async def test_only_what_was_known_before_the_first_send_is_a_duplicate(
    key: str, sends: int, answers: list[bool], duplicate: bool
) -> None:
    header = {"target_capability": "Count", **({"dedup_key": key} if key else {})}
    voyage = Voyage(frame("SAIL", {"payload": 1}, **header), Schema(None, None))
    voyage.sends = sends
    for answer in answers:
        voyage.hear(heard(voyage, "ACK", of="SAIL", task_id="tsk_1", duplicate=answer))
    voyage.hear(heard(voyage, "RESULT", task_id="tsk_1", payload=2, duplicate=True))
    assert (await voyage.outcome).duplicate is duplicate


async def test_what_the_host_refused_of_a_message_to_all_stands_at_its_place_among_the_parts() -> None:
    voyage = Voyage(frame("SAIL", {"payload": 1, "to": "all"}, target_capability="Count"), Schema(None, None))
    told = {"message": "It is full.", "remedy": "Wait."}
    refused = [{"index": 0, "code": "unavailable", **told}, {"index": 2, "code": "offline", **told}]
    voyage.hear(heard(voyage, "ACK", of="SAIL", task_id="tsk_1", tasks=["tsk_1", "tsk_2"], refused=refused))
    for task_id in ("tsk_2", "tsk_1"):
        voyage.hear(heard(voyage, "RESULT", task_id=task_id, payload=task_id))
    found = await voyage.outcome
    assert found.payload == [None, "tsk_1", None, "tsk_2"]
    kinds = [type(part).__name__ for part in found.parts]
    assert kinds == ["ReachRefused", "ReachResult", "ReachOffline", "ReachResult"]


async def test_what_was_refused_first_and_is_taken_when_it_is_sent_again_is_waited_for() -> None:
    voyage = Voyage(frame("SAIL", {"payload": 1, "to": "all"}, target_capability="Count"), Schema(None, None))
    refused = [{"index": 0, "code": "unavailable", "message": "It is full.", "remedy": "Wait."}]
    voyage.hear(heard(voyage, "ACK", of="SAIL", task_id="tsk_2", refused=refused))
    voyage.hear(heard(voyage, "ACK", of="SAIL", task_id="tsk_1", tasks=["tsk_1", "tsk_2"]))
    voyage.hear(heard(voyage, "RESULT", task_id="tsk_2", payload=2))
    assert not voyage.outcome.done()
    voyage.hear(heard(voyage, "RESULT", task_id="tsk_1", payload=1))
    assert (await voyage.outcome).payload == [1, 2]
