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
