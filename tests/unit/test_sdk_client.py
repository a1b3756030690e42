"""A client against a hub that does as told: what it sends, and what it makes of the answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tallystick import (
    ReachClient,
    ReachError,
    ReachNoRoute,
    ReachOffline,
    ReachRefused,
    ReachResult,
    ReachTimeout,
    ReachUnverified,
)
from tallystick.sdk.frames import Frame, frame
from tests.support.reach import ScriptedHub


class Port(ScriptedHub):
    """A hub that answers each SAIL of a client with what the test put there, by its target."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[str, Any] = {}
        self.answers["SAIL"] = self.sailed
        self.tasks: dict[str, str] = {}

    def sailed(self, found: Frame) -> list[Frame]:
        msg_id = found["header"]["msg_id"]
        task = self.tasks.setdefault(msg_id, f"tsk_{len(self.tasks) + 1}")
        ack = self.ack(found, task_id=task, trace_id="trc_1", link="PROVISIONED", promise="live")
        return [ack, *self.outcome(found, task)]

    def outcome(self, found: Frame, task: str) -> list[Frame]:
        outcome = self.outcomes.get(found["header"]["target_capability"], {"echo": found["body"]["payload"]})
        if outcome is None:
            return []
        msg_id = found["header"]["msg_id"]
        if isinstance(outcome, str):
            body = {"task_id": task, "code": outcome, "message": "It ended.", "remedy": "Look.", "link": "SUNSET"}
            return [frame("FAIL", body, msg_id=msg_id)]
        return [
            frame("BEGIN", {"task_id": task}, msg_id=msg_id),
            frame("RESULT", {"task_id": task, "payload": outcome, "spoke": "s1"}, msg_id=msg_id),
        ]


@pytest.fixture
def port() -> Port:
    return Port()


@pytest.fixture
async def client(port: Port) -> Any:
    async with ReachClient(link=port.dial) as client:
        yield client


async def test_a_result_comes_back_with_the_ids_of_the_record(client: ReachClient, port: Port) -> None:
    found = await client.sail("Echo", {"n": 1}, dedup_key="k-1", timeout_ms=5000)
    assert (found.payload, found.task_id, found.trace_id, found.spoke) == ({"echo": {"n": 1}}, "tsk_1", "trc_1", "s1")
    sent = port.heard[0]
    assert sent["header"]["msg_id"] == found.msg_id
    assert sent["header"]["dedup_key"] == "k-1"
    assert sent["header"]["timeout_ms"] == 5000
    assert sent["body"] == {"payload": {"n": 1}}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("no_route", ReachNoRoute),
        ("offline", ReachOffline),
        ("timeout", ReachTimeout),
        ("expired", ReachTimeout),
        ("unverified", ReachUnverified),
        ("failed", ReachRefused),
        ("conflict", ReachRefused),
        ("denied", ReachRefused),
    ],
)
async def test_each_code_is_its_own_kind_of_error(client: ReachClient, port: Port, code: str, kind: type) -> None:
    port.outcomes["Echo"] = code
    with pytest.raises(ReachError) as caught:
        await client.sail("Echo", 1)
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.message, caught.value.remedy) == (code, "It ended.", "Look.")
    assert (caught.value.task_id, caught.value.link) == ("tsk_1", "SUNSET")


async def test_a_refusal_before_the_record_is_an_error_too(client: ReachClient, port: Port) -> None:
    port.answers["SAIL"] = lambda found: [port.fail(found, "no_route", "Nobody offers Echo.")]
    with pytest.raises(ReachNoRoute, match="Nobody offers Echo"):
        await client.sail("Echo", 1)


async def test_without_an_outcome_the_wait_ends_and_says_where_the_message_is(client: ReachClient, port: Port) -> None:
    port.outcomes["Slow"] = None
    with pytest.raises(ReachTimeout) as caught:
        await client.sail("Slow", 1, timeout_ms=20)
    assert "PROVISIONED" in caught.value.message
    assert caught.value.task_id == "tsk_1"


async def test_a_message_is_sent_again_with_the_same_id_when_the_link_is_lost(client: ReachClient, port: Port) -> None:
    port.outcomes["Slow"] = None
    waiting = asyncio.ensure_future(client.sail("Slow", 1))
    first = await port.got("SAIL")
    port.outcomes["Slow"] = {"done": True}
    port.cut()
    again = await port.got("SAIL")
    assert again == first
    assert (await waiting).payload == {"done": True}
    assert port.links == 2


async def test_a_dispatch_keeps_the_order_and_tells_each_failure_as_what_it_is(client: ReachClient, port: Port) -> None:
    port.outcomes |= {"Bad": "failed", "Gone": "offline"}
    requests = [
        {"target_capability": "Echo", "payload": 1},
        {"target_capability": "Bad", "payload": 2},
        {"target_capability": "not a name", "payload": 3},
        {"target_capability": "Gone", "payload": 4},
        {"target_capability": "Echo", "payload": 5},
    ]
    found = await client.dispatch(requests)
    assert [type(one) for one in found] == [ReachResult, ReachRefused, ReachRefused, ReachOffline, ReachResult]
    assert [one.payload for one in found if isinstance(one, ReachResult)] == [{"echo": 1}, {"echo": 5}]
    groups = {one["body"]["group"] for one in port.heard}
    assert len(groups) == 1
    assert groups.pop().startswith("grp_")


async def test_a_dispatch_has_at_most_64_parts(client: ReachClient, port: Port) -> None:
    with pytest.raises(ReachRefused, match="1 to 64 parts; this has 65"):
        await client.dispatch([{"target_capability": "Echo", "payload": 1}] * 65)
    assert port.heard == []
    found = await client.dispatch([{"target_capability": "Echo", "payload": n} for n in range(64)])
    assert [one.payload for one in found if isinstance(one, ReachResult)] == [{"echo": n} for n in range(64)]


async def test_a_handle_tells_the_state_that_the_host_knows_and_then_the_result(
    client: ReachClient, port: Port
) -> None:
    port.outcomes["Slow"] = None
    handle = await client.sail("Slow", 1, wait=False)
    assert (handle.task_id, handle.trace_id, handle.promise) == ("tsk_1", "trc_1", "live")
    assert await handle.state() == "PROVISIONED"
    with pytest.raises(ReachTimeout):
        await handle.result(timeout_ms=10)
    port.outcomes["Slow"] = {"done": 1}
    await handle.state()
    assert (await handle.result()).payload == {"done": 1}
    assert (await handle.result()).payload == {"done": 1}
