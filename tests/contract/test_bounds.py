"""What is kept of what others send stays within its bound, and costs no more per piece the more there was before."""

from __future__ import annotations

import asyncio
import base64
from types import SimpleNamespace
from typing import Any

import pytest

from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.limits import Limits
from tallystick.edge.api.running import RunningCall
from tallystick.edge.spoke import frames as f
from tallystick.edge.spoke.hub import KEPT, Hub


class Chunks(list[bytes]):
    """Counts how often somebody walks over all of it."""

    walks = 0

    def __iter__(self) -> Any:
        self.walks += 1
        return super().__iter__()


class Line:
    """A connection that takes all that is said to it."""

    def write(self, _message: dict[str, Any]) -> None:
        """It is not looked at."""


def chunk(size: int) -> dict[str, Any]:
    return {"stdin": base64.b64encode(b"x" * size).decode()}


async def wanted(limit: int) -> tuple[RunningCall, asyncio.Task[bytes]]:
    """A call that waits for standard input of at most so many bytes."""
    call: Any = RunningCall(Line(), 1, {}, limit)  # type: ignore[arg-type]
    reading = asyncio.create_task(call.stdin())
    await asyncio.sleep(0)
    return call, reading


async def test_a_chunk_of_standard_input_costs_the_same_however_much_came_before() -> None:
    call, reading = await wanted(10_000)
    call._chunks = chunks = Chunks()
    for _ in range(1000):
        call.receive(chunk(10))
    assert chunks.walks == 0
    call.receive({"eof": True})
    assert await reading == b"x" * 10_000


@pytest.mark.parametrize("sizes", [(11,), (10, 1), (3, 3, 3, 3)])
async def test_standard_input_over_the_limit_is_refused_and_the_next_is_counted_anew(sizes: tuple[int, ...]) -> None:
    call, reading = await wanted(10)
    for size in sizes:
        call.receive(chunk(size))
    with pytest.raises(Refused) as caught:
        await reading
    assert caught.value.code is ErrorCode.INVALID
    again = asyncio.create_task(call.stdin())
    await asyncio.sleep(0)
    call.receive(chunk(10))
    call.receive({"eof": True})
    assert await again == b"x" * 10


@pytest.mark.parametrize("bad", ["no base64!", 7])
async def test_a_chunk_that_is_no_base64_is_refused_as_that(bad: object) -> None:
    call, reading = await wanted(10)
    call.receive(chunk(10))
    call.receive({"stdin": bad})
    with pytest.raises(Refused, match="no base64"):
        await reading


@pytest.mark.parametrize("said", [1, KEPT - 1, KEPT, KEPT + 1, 3 * KEPT])
async def test_of_what_a_returning_spoke_says_before_it_is_carried_on_the_newest_is_always_kept(said: int) -> None:
    absent: Any = None
    hub = Hub(absent, Limits(), lambda: 0.0, absent, absent)
    held: Any = SimpleNamespace(delivery="dlv_1", fence=3)
    hub.returns("ses_1", (held,), (f.Resume(delivery="dlv_1", do="go_on"),))
    visit: Any = SimpleNamespace(spoke=SimpleNamespace(session="ses_1"))
    for number in range(said):
        body = f.Progress(delivery="dlv_1", fence=3, text=str(number))
        hub.hear(visit, f.frame("PROGRESS", f"msg_{number}", body))
    heard: list[str] = []
    carried: Any = SimpleNamespace(
        envelope=SimpleNamespace(delivery_id="dlv_1"), fences=set(), hear=lambda body: heard.append(body.text)
    )
    hub.carries(carried)
    assert len(heard) == min(said, KEPT)
    assert heard[-1] == str(said - 1)
