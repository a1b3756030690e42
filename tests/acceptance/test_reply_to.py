"""A result that goes on to another capability: once, as a message of its own, in the name of who asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tallystick.app.ports import Began, Envelope, Receipt
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.offers import Offer
from tests.support.ends import End, Haven
from tests.support.hub import Hub


def replies(hub: Hub) -> list[str]:
    """The messages that brought a result on, in their order."""
    return [envelope.task_id for envelope in hub.spokes.sent if envelope.work.task.forwards]


async def forwarded(hub: Hub, task_id: str) -> Any:
    """The event that says where the result went on to, or why it could not."""

    def committed() -> bool:
        work = hub.heads.committed_work(task_id)
        return work is not None and work.task.forwarded

    await hub.until(committed)
    return (await hub.store.load(task_id))[-1].event


async def replied(hub: Hub, **given: Any) -> tuple[str, str]:
    """The first message, and the one that its result went on with."""
    sailed = await hub.sail(reply_to="Report", **given)
    assert (await hub.outcome(sailed.task_id))[-1].what == "result"
    return sailed.task_id, (await forwarded(hub, sailed.task_id)).message


async def test_the_result_arrives_there_as_a_message_of_the_same_trace_and_requester(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", "Count")
        await hub.spoke("reporter", Offer("Report", "1.2"))
        first, then = await replied(hub)
        assert (await hub.outcome(then))[-1].payload == '{"by":"reporter"}'
        source, task = hub.work(first).task, hub.work(then).task
        assert (task.requester, task.trace, task.parent) == (source.requester, source.trace, "")
        assert (task.capability, task.forwards, task.depth) == ("Report", first, 1)
        (envelope,) = [e for e in hub.spokes.sent if e.task_id == then]
        assert envelope.text.body == '{"by":"counter"}'
        assert json.loads(envelope.text.brief.context) == {"related": [first]}
        closed = (await hub.store.load(first))[-2]
        assert {(await hub.store.load(then))[0].cause, (await hub.store.load(first))[-1].cause} == {closed.position}
        assert (await hub.events(first))[-2:] == ["ResultHandedIn", "ResultForwarded"]


async def test_a_result_that_finds_no_route_stays_and_its_requester_is_told(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", "Count")
        sailed = await hub.sail(reply_to="Report@2")
        assert (await hub.outcome(sailed.task_id))[-1].what == "result"
        await forwarded(hub, sailed.task_id)
        assert hub.work(sailed.task_id).task.place == "completed/unreviewed"
        (notice,) = (await hub.desk.s.views.inbox(hub.owner)).notices
        assert (notice.task_id, notice.kind) == (sailed.task_id, "not_forwarded")
        line = (await hub.desk.s.views.trace(sailed.trace_id, lambda _: True)).events[-1]
        assert (line.what, "'Report@2'" in line.error) == ("result not sent on: no_route", True)


async def test_where_every_holder_is_away_the_result_waits_for_one(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        spoke = await hub.spoke("reporter", "Report", process="7@7")
        hub.desk.lost(spoke.session, "7@7")
        await hub.pass_time(1000)
        await hub.spoke("counter", "Count")
        sailed = await hub.sail(reply_to="Report")
        assert (await forwarded(hub, sailed.task_id)).message
        assert replies(hub) == []
        await hub.spoke("reporter", process="8@8")
        await hub.until(lambda: replies(hub), "the reply")


async def test_a_failure_goes_nowhere(tmp_path: Path) -> None:
    async def fails(_envelope: Envelope, _began: Began) -> Receipt:
        return Receipt(outcome="failed", code="failed", detail="It is broken.")

    async with Hub(tmp_path) as hub:
        hub.spokes.answer = fails
        await hub.spoke("counter", "Count")
        sailed = await hub.sail(reply_to="Report")
        assert (await hub.outcome(sailed.task_id))[-1].what == "failed"
        await hub.pass_time(1)
        assert (await hub.events(sailed.task_id))[-1] == "TaskFailed"


async def test_capabilities_that_reply_to_each_other_stop_at_the_depth_limit(tmp_path: Path) -> None:
    """A handler asks on for the task that it has in hand, and wants the answer at its own capability."""
    async with Hub(tmp_path) as hub:
        asked: list[str] = []

        async def asks_on(envelope: Envelope, began: Began) -> Receipt:
            if envelope.work.task.capability == "Ping":
                asked.append((await hub.sail("Pong", parent=envelope.task_id, reply_to="Ping")).task_id)
                await hub.outcome(asked[-1])
            return await hub.spokes.done(envelope, began)

        hub.spokes.answer = asks_on
        await hub.spoke("ping", Offer("Ping", concurrency=9))
        await hub.spoke("pong", Offer("Pong", concurrency=9))
        await hub.sail("Ping")
        await hub.until(lambda: len(asked) == 2)
        event = await forwarded(hub, asked[1])
        assert [envelope.work.task.depth for envelope in hub.spokes.sent] == [0, 1, 2, 3]
        assert (event.code, "3 deep" in event.detail) == ("denied", True)


async def test_a_result_goes_to_a_domain_that_its_sender_sees_and_to_no_other(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", "Count")
        await hub.spoke("reporter", Offer("Report", domain="data-team"))
        _, then = await replied(hub)
        assert (await hub.outcome(then))[-1].payload == '{"by":"reporter"}'
        sailed = await hub.sail(guest=hub.guest(domains=("web",)), reply_to="Report")
        event = await forwarded(hub, sailed.task_id)
        assert (event.code, event.message) == ("no_route", "")


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/", "@human", "127.0.0.1:80", "cap:Report", "a b"])
async def test_only_a_capability_is_replied_to(tmp_path: Path, address: str) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", "Count")
        with pytest.raises(Refused) as caught:
            await hub.sail(reply_to=address)
        assert caught.value.code is ErrorCode.INVALID


async def test_two_spokes_hand_a_result_on_and_the_first_is_told_where_it_goes(tmp_path: Path) -> None:
    async with Haven(tmp_path / "home") as haven:
        first, then, client = [await haven.end("unix") for _ in range(3)]
        await first.anchor("one")
        await then.anchor("two", capabilities=[{"name": "Report"}])
        await client.sail({"n": 1}, reply_to="Report", dedup_key="k")
        sail = await first.begin()
        assert sail["header"]["reply_to"] == "Report"
        await first.about(sail, "RESULT", payload={"lines": 3})
        onward = await then.begin()
        assert onward["body"]["payload"] == {"lines": 3}
        assert onward["header"]["trace_id"] == sail["header"]["trace_id"]
        assert onward["body"]["context"] == {"related": [sail["body"]["task_id"]]}
        await then.about(onward, "RESULT", payload="printed")
        assert await notices(haven, then) >= {(onward["body"]["task_id"], "result")}


async def notices(haven: Haven, last: End) -> set[tuple[str, str]]:
    """What the person has been told, once the last result is on record."""
    await last.hear("ACK")
    inbox = await haven.desk.inbox(await haven.person())
    return {(notice.task_id, notice.kind) for notice in inbox.notices}
