"""A client against a hub that does as told: what it sends, and what it makes of the answers."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
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
from tallystick.edge.spoke import frames
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


async def test_a_refusal_of_what_the_host_could_not_read_further_than_its_id_ends_that_message(
    client: ReachClient, port: Port
) -> None:
    refused = {"code": "invalid", "message": "The frame nests deeper than 64.", "remedy": "Send flatter JSON."}
    port.answers["SAIL"] = lambda found: [frame("FAIL", refused, msg_id=found["header"]["msg_id"])]
    with pytest.raises(ReachRefused, match="nests deeper") as caught:
        await client.sail("Echo", 1)
    assert caught.value.code == "invalid"


async def test_without_an_outcome_the_wait_ends_and_says_where_the_message_is(client: ReachClient, port: Port) -> None:
    port.outcomes["Slow"] = None
    with pytest.raises(ReachTimeout) as caught:
        await client.sail("Slow", 1, timeout_ms=20)
    assert "PROVISIONED" in caught.value.message
    assert caught.value.task_id == "tsk_1"


async def test_a_wait_is_as_long_as_was_asked_where_the_host_cannot_be_reached(
    client: ReachClient, port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.sdk.client._WORD_SECONDS", 1000.0)  # never waited for without a link
    port.outcomes["Slow"] = None
    handle = await client.sail("Slow", 1, timeout_ms=400, wait=False)
    async with asyncio.timeout(20):
        with pytest.raises(ReachTimeout, match=r"after 0\.05 s; "):
            await handle.result(timeout_ms=50)  # the host does not speak at the end of a wait of the caller's own
        port.is_reachable = False
        port.cut()
        await port.until(lambda: not client._harbour().is_up)
        with pytest.raises(ReachTimeout, match=r"after 0\.4 s; its link is"):
            await handle.result()


async def test_at_the_deadline_the_word_of_the_host_counts_if_it_comes_soon(
    client: ReachClient, port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.sdk.client._WORD_SECONDS", 20.0)
    port.outcomes["Slow"] = None
    sailing = asyncio.ensure_future(client.sail("Slow", 1, timeout_ms=20))
    sent = await port.got("SAIL")
    await asyncio.wait({sailing}, timeout=0.04)
    told = {"task_id": "tsk_1", "code": "expired", "message": "Nobody was free.", "remedy": ""}
    await port.send(frame("FAIL", told, msg_id=sent["header"]["msg_id"]))
    with pytest.raises(ReachTimeout, match="Nobody was free"):
        await sailing


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
        {"target_capability": "Echo", "payload": 4, "wait": False},
        {"target_capability": "Echo", "payload": 5},
    ]
    found = await client.dispatch(requests)
    assert [type(one) for one in found] == [
        ReachResult,
        ReachRefused,
        ReachRefused,
        ReachOffline,
        ReachRefused,
        ReachResult,
    ]
    assert [one.payload for one in found if isinstance(one, ReachResult)] == [{"echo": 1}, {"echo": 5}]
    groups = {one["body"]["group"] for one in port.heard if one["header"]["msg_type"] == "SAIL"}
    assert len(groups) == 1
    assert groups.pop().startswith("grp_")


async def test_how_many_parts_a_dispatch_may_have_is_for_the_host_to_say(client: ReachClient, port: Port) -> None:
    with pytest.raises(ReachRefused, match="one part at least"):
        await client.dispatch([])
    assert port.heard == []
    found = await client.dispatch([{"target_capability": "Echo", "payload": n} for n in range(65)])
    assert [one.payload for one in found if isinstance(one, ReachResult)] == [{"echo": n} for n in range(65)]


@pytest.mark.parametrize(
    ("most", "part"),
    [
        ({"timeout_ms": 604_800_000}, frames.Header),
        ({"dedup_key": "k" * 200}, frames.Header),
        ({"reply_to": "R" * 200}, frames.Header),
        ({"stall_after_ms": 2**53 - 1}, frames.Sail),
        ({"title": "t" * 200}, frames.Sail),
    ],
)
async def test_what_this_side_refuses_no_host_would_take(
    client: ReachClient, port: Port, most: dict[str, Any], part: type
) -> None:
    await client.sail("Echo", 1, **most)
    [heard] = [one for one in port.heard if one["header"]["msg_type"] == "SAIL"]
    sent = heard["header" if part is frames.Header else "body"]
    assert msgspec.convert(sent, part)
    more = {name: value + (1 if isinstance(value, int) else "x") for name, value in most.items()}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**sent, **more}, part)
    with pytest.raises(ReachRefused):
        await client.sail("Echo", 1, **more)


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


# --- a hub that misbehaves ----------------------------------------------------------------------------------------


async def test_a_message_whose_acknowledgement_was_lost_is_sent_again_on_the_same_link(
    client: ReachClient, port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.sdk.harbour._ACK_SECONDS", 0.01)
    answers = iter([lambda _: [], lambda _: [], port.sailed])
    port.answers["SAIL"] = lambda found: next(answers)(found)
    assert (await client.sail("Echo", 1)).payload == {"echo": 1}
    assert port.heard[0] == port.heard[1] == port.heard[2]
    assert port.links == 1


async def test_answers_out_of_order_twice_or_about_something_else_change_nothing(
    client: ReachClient, port: Port
) -> None:
    def shuffled(found: Frame) -> list[Frame]:
        ack, begin, result = port.sailed(found)
        lies = [
            frame("RESULT", {"task_id": "tsk_other", "payload": "lies"}, msg_id="msg_other"),
            frame("ACK", {"of": "RETREAT", "link": "SUNSET"}, msg_id=found["header"]["msg_id"]),
            frame("FAIL", {"of": "SAIL", "code": "conflict", "message": "late"}, msg_id=found["header"]["msg_id"]),
            frame("RESULT", {"task_id": "tsk_1", "payload": "second"}, msg_id=found["header"]["msg_id"]),
        ]
        return [result, lies[0], lies[1], ack, begin, ack, lies[2], lies[3]]

    port.answers["SAIL"] = shuffled
    assert (await client.sail("Echo", 1)).payload == {"echo": 1}
    port.answers["SAIL"] = port.sailed
    assert (await client.sail("Echo", 2)).payload == {"echo": 2}


async def test_a_message_to_all_ends_when_every_holder_has_answered(client: ReachClient, port: Port) -> None:
    def to_all(found: Frame) -> list[Frame]:
        msg_id = found["header"]["msg_id"]
        assert found["body"]["to"] == "all"
        return [
            frame("RESULT", {"task_id": "tsk_2", "payload": "two", "spoke": "s2"}, msg_id=msg_id),
            port.ack(found, task_id="tsk_1", trace_id="trc_1", tasks=["tsk_1", "tsk_2", "tsk_3"]),
            frame("FAIL", {"task_id": "tsk_3", "code": "failed", "message": "no"}, msg_id=msg_id),
            frame("RESULT", {"task_id": "tsk_1", "payload": "one", "spoke": "s1"}, msg_id=msg_id),
        ]

    port.answers["SAIL"] = to_all
    found = await client.sail("Echo", 1, to="all")
    assert found.payload == ["one", "two", None]
    assert [getattr(part, "spoke", part) for part in found.parts[:2]] == ["s1", "s2"]
    assert isinstance(found.parts[2], ReachRefused)
    assert found.parts[2].task_id == "tsk_3"


async def test_retreat_and_settle_bring_back_what_the_host_says(client: ReachClient, port: Port) -> None:
    port.answers["RETREAT"] = lambda found: [port.ack(found, link="PROVISIONED")]
    assert await client.retreat("msg_1") == "PROVISIONED"
    port.answers["RETREAT"] = lambda found: [port.fail(found, "conflict", "It has begun.")]
    with pytest.raises(ReachRefused, match="It has begun"):
        await client.retreat("msg_1")
    await client.settle("trc_1")
    assert port.heard[-1]["header"]["trace_id"] == "trc_1"
    port.answers["SETTLE"] = lambda found: [port.fail(found, "conflict", "tsk_1 is open.")]
    with pytest.raises(ReachRefused, match="tsk_1 is open"):
        await client.settle("trc_1")


@pytest.mark.parametrize("is_reachable", [True, False])
async def test_a_question_that_nobody_answers_ends(
    client: ReachClient, port: Port, monkeypatch: pytest.MonkeyPatch, is_reachable: bool
) -> None:
    port.outcomes["Slow"] = None
    handle = await client.sail("Slow", 1, wait=False)
    monkeypatch.setattr("tallystick.sdk.harbour.PATIENCE_SECONDS", 0.05)
    port.answers.update({kind: lambda _: [] for kind in ("SAIL", "RETREAT", "SETTLE")})
    port.is_reachable = is_reachable
    if not is_reachable:
        port.cut()
    for question in (handle.state, lambda: client.retreat(handle.msg_id), lambda: client.settle(handle.trace_id)):
        with pytest.raises(ReachTimeout, match="did not answer") as caught:
            await question()
        assert caught.value.code == "timeout"


async def test_a_host_that_does_not_tell_the_state_any_more_says_why(client: ReachClient, port: Port) -> None:
    port.outcomes["Slow"] = None
    handle = await client.sail("Slow", 1, wait=False)
    port.answers["SAIL"] = lambda found: [port.fail(found, "denied", "This agent was stopped.")]
    with pytest.raises(ReachRefused, match="This agent was stopped"):
        await handle.state()
    port.answers["SAIL"] = port.sailed
    assert await handle.state() == "PROVISIONED"


async def test_a_hub_that_stays_away_ends_the_wait_in_time_and_is_not_asked_for_ever(
    client: ReachClient, port: Port
) -> None:
    port.outcomes["Slow"] = None
    waiting = asyncio.ensure_future(client.sail("Slow", 1, timeout_ms=50))
    await port.got("SAIL")
    port.is_reachable = False
    port.cut()
    with pytest.raises(ReachTimeout):
        await waiting


async def test_a_client_that_is_not_let_in_any_more_tells_who_waits(client: ReachClient, port: Port) -> None:
    port.outcomes["Slow"] = None
    waiting = asyncio.ensure_future(client.sail("Slow", 1))
    await port.got("SAIL")

    async def refused(_: bool) -> Any:
        raise ReachRefused("unauthenticated", "The token is no longer known.", "Get another.")

    for harbour in client._harbours.values():
        harbour._channel._dial = refused
    port.cut()
    with pytest.raises(ReachRefused, match="no longer known") as caught:
        await waiting
    assert caught.value.task_id == "tsk_1"


async def test_closing_tells_who_waits_and_a_closed_client_may_be_used_again(client: ReachClient, port: Port) -> None:
    port.outcomes["Slow"] = None
    waiting = asyncio.ensure_future(client.sail("Slow", 1))
    await port.got("SAIL")
    await client.close()
    with pytest.raises(ReachRefused, match="was closed"):
        await waiting
    assert (await client.sail("Echo", 1)).payload == {"echo": 1}


def test_one_client_serves_one_loop_after_the_other() -> None:
    port = Port()
    client = ReachClient(link=port.dial)
    for number in range(3):
        assert asyncio.run(client.sail("Echo", number)).payload == {"echo": number}
    assert port.links == 3


async def test_a_hundred_messages_at_once_begin_with_one_until_the_host_answers(
    client: ReachClient, port: Port
) -> None:
    release: list[Frame] = []
    port.answers["SAIL"] = lambda found: [release.append(found)][1:]
    sailing = [asyncio.ensure_future(client.sail("Echo", number)) for number in range(100)]
    first = await port.got("SAIL")
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(release) == 1
    port.answers["SAIL"] = port.sailed
    for answer in port.sailed(first):
        await port.send(answer)
    assert [(await one).payload for one in sailing] == [{"echo": number} for number in range(100)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"target_capability": ""}, "names no capability"),
        ({"target_capability": None}, "names no capability"),
        ({"target_capability": "Echo@new"}, "names no capability"),
        ({"payload": object()}, r"cannot be sent as JSON: a value of type object at \$"),
        ({"payload": "x" * 262_143}, "at most 262144"),
        ({"payload": float("nan"), "timeout_ms": 0}, "timeout_ms=0"),
        ({"timeout_ms": True}, "timeout_ms=True"),
        ({"timeout_ms": 1.5}, "timeout_ms=1.5"),
        ({"timeout_ms": 604_800_001}, "is not from 1 to"),
        ({"to": "some"}, "to='some' is not known"),
        ({"retry": "always"}, "retry='always' is not known"),
        ({"dedup_key": 5}, "dedup_key='5'"),
        ({"dedup_key": "k" * 201}, "at most 200"),
        ({"title": "\ud800"}, "cannot be written as UTF-8"),
        ({"nonsense": 1}, "'nonsense' is no part of a request"),
    ],
)
async def test_a_message_that_makes_no_sense_is_refused_before_it_is_sent(
    client: ReachClient, port: Port, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(ReachRefused, match=words) as caught:
        await client.sail(**{"target_capability": "Echo", "payload": 1, **given})
    assert caught.value.code == "invalid"
    assert port.heard == []


def test_an_error_survives_being_pickled() -> None:
    import copy
    import pickle

    error = ReachTimeout("timeout", "Late.", "Wait.", task_id="tsk_1", link="REACHED")
    for found in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(found) is ReachTimeout
        assert (found.code, found.message, found.remedy, found.task_id) == ("timeout", "Late.", "Wait.", "tsk_1")


def test_the_public_names_are_twelve_and_load_the_sdk_when_they_are_used() -> None:
    import tallystick

    assert len(tallystick.__all__) == 12
    assert set(tallystick.__all__) <= set(dir(tallystick))
    assert {getattr(tallystick, name).__name__ for name in tallystick.__all__} == set(tallystick.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        tallystick.Nothing  # noqa: B018
