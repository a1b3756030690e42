"""Messages to capabilities through real rules, write path, routing and delivery; the spokes do as each test says."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import pytest

from tallystick.app import deliver, duties
from tallystick.app.desk import forms
from tallystick.app.ports import Began, Envelope, Receipt
from tallystick.app.presence import Presence
from tallystick.app.views.show import lines
from tallystick.core import commands as cmd
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.events import Text
from tallystick.core.identity import HOST, Prefix
from tallystick.core.offers import Offer
from tallystick.core.state import Work
from tallystick.edge.mcp import verbs
from tests.support.hub import Hub


async def test_a_message_to_a_capability_is_four_events_and_its_result_comes_back(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", "Count")
        sailed = await hub.sail(payload='{"n":1}')
        told = await hub.outcome(sailed.task_id)
        assert told[-1].what == "result"
        assert (told[-1].payload, told[-1].spoke, told[-1].link) == ('{"by":"counter"}', "counter", "CONFIRMED")
        events = ["TaskSubmitted", "DeliveryLeased", "DeliveryBegun", "ResultHandedIn"]
        assert await hub.events(sailed.task_id) == events
        assert [envelope.text.body for envelope in hub.spokes.sent] == ['{"n":1}']


async def test_a_message_waits_for_a_slot_and_links_go_in_their_order(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        await hub.spoke("counter", "Count")
        first = await hub.sail()
        second = await hub.sail()
        assert (first.link, second.link, first.promise) == ("IDLE", "IDLE", "live")
        await hub.until(lambda: first.task_id in hub.spokes.running)
        assert hub.work(first.task_id).task.state.value == "working"
        assert hub.work(second.task_id).task.assignee == "cap:Count"
        assert hub.work(second.task_id).task.turn == "cap:Count"
        hub.spokes.ends(first.task_id, "submitted", text="1")
        await hub.until(lambda: second.task_id in hub.spokes.running)
        hub.spokes.ends(second.task_id, "submitted", text="2")
        assert [told.link for told in await hub.outcome(second.task_id)][-1] == "CONFIRMED"


async def test_what_never_began_waits_again_and_goes_elsewhere(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.unanswered
        await hub.spoke("one", "Count")
        sailed = await hub.sail()
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        await hub.spoke("two", "Count")
        hub.spokes.answer = hub.spokes.done
        hub.spokes.ends(sailed.task_id, "returned", detail="the connection was lost")
        await hub.until(lambda: hub.work(sailed.task_id).task.assignee == "cap:Count")
        assert hub.work(sailed.task_id).task.session == ""
        await hub.pass_time(3)
        told = await hub.outcome(sailed.task_id)
        assert (told[-1].what, told[-1].spoke) == ("result", "two")


@pytest.mark.parametrize("idempotent", [False, True])
async def test_what_began_is_doubted_unless_it_may_be_done_twice(tmp_path: Path, *, idempotent: bool) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        await hub.spoke("one", Offer("Count", idempotent=idempotent))
        sailed = await hub.sail()
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        hub.spokes.ends(sailed.task_id, "unverified", code="unverified", detail="what it did is not in its store")
        if idempotent:
            await hub.until(lambda: hub.work(sailed.task_id).task.assignee == "cap:Count")
            assert hub.work(sailed.task_id).task.holder == ""
        else:
            told = [reached async for reached in hub.told(sailed.task_id, "unverified")]
            assert (told[-1].code, told[-1].link) == ("unverified", "REACHED")
            await hub.until(lambda: hub.heads.committed_work(sailed.task_id))
            late = [reached async for reached in hub.told(sailed.task_id, "unverified")]
            assert late[0].code == "unverified", "whoever comes later is told at once"


async def test_what_began_at_an_idempotent_holder_goes_to_no_other_that_must_not_do_it_twice(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        again = await hub.spoke("again", Offer("Count", idempotent=True))
        sailed = await hub.sail()
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        await hub.spoke("once", Offer("Count", weight=1000))
        hub.desk.lost(again.session, "1@1")
        hub.spokes.ends(sailed.task_id, "unverified", detail="the connection was lost")
        await hub.until(lambda: hub.work(sailed.task_id).task.assignee == "cap:Count")
        await hub.pass_time(10)
        assert [envelope.agent.alias for envelope in hub.spokes.sent] == ["again"]
        await hub.spoke("another", Offer("Count", idempotent=True))
        await hub.until(lambda: len(hub.spokes.sent) == 2)
        assert hub.spokes.sent[-1].agent.alias == "another"
        history = await hub.store.load(sailed.task_id)
        shown = [line.what for line in lines(history, hub.heads.directory)]
        assert "its holder was lost" in shown
        assert "did not begin" not in shown


async def test_whether_it_may_be_done_twice_is_told_by_the_version_that_got_it(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        await hub.spoke("two", Offer("Count", idempotent=True), Offer("Count", version="2.0"))
        sailed = await hub.sail()
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        hub.spokes.ends(sailed.task_id, "unverified", code="unverified", detail="what it did is not in its store")
        told = [reached async for reached in hub.told(sailed.task_id, "unverified")]
        assert told[-1].code == "unverified"


async def test_a_domain_that_the_caller_is_not_in_is_told_as_absent(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("secret", Offer("Count", domain="data-team"))
        stranger = hub.guest(domains=("web",))
        refusals = []
        for name in ("Count", "Absent"):
            with pytest.raises(Refused) as caught:
                await hub.sail(name, guest=stranger)
            assert caught.value.code is ErrorCode.NO_ROUTE
            refusals.append((caught.value.message.replace(name, "X"), caught.value.remedy))
        assert refusals[0] == refusals[1]
        assert (await hub.reaches_("Count", guest=hub.guest(domains=("data-team",)))).what == "result"
        assert (await hub.reaches_("Count")).what == "result"
        assert (await hub.desk.routes(stranger)).routes == ()


async def test_an_agent_sees_the_routes_in_its_overview_as_far_as_its_domains_go(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", Offer("Count", "1.2", domain="data-team", concurrency=2), "Mend")
        shown = await verbs.overview(hub.desk, hub.guest(), {"what": "routes"}, "")  # type: ignore[arg-type]
        assert [(row["capability"], row["version"], row["status"]) for row in shown.data["routes"]] == [
            ("Count", "1.2", "online"),
            ("Mend", "1.0", "online"),
        ]
        assert shown.text.splitlines() == [
            "- cap:Count 1.2: @counter [online, 0 of 2 in hand, domain data-team]",
            "- cap:Mend 1.0: @counter [online, 0 of 1 in hand]",
        ]
        stranger = hub.guest(domains=("web",))
        shown = await verbs.overview(hub.desk, stranger, {"what": "routes"}, "")  # type: ignore[arg-type]
        assert [row["capability"] for row in shown.data["routes"]] == ["Mend"]


async def test_sail_is_refused_as_offline_only_when_every_lease_has_lapsed(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        spoke = await hub.spoke("counter", "Count", process="9@9")
        hub.desk.lost(spoke.session, "9@9")
        hub.manual.advance(100)
        returning = await hub.sail(timeout_ms=60_000)
        assert (returning.link, returning.promise) == ("IDLE", "mailbox")
        assert (await hub.sail(timeout_ms=60_000, to="all")).promise == "mailbox", "also of one that is named"
        hub.manual.advance(30)
        with pytest.raises(Refused) as caught:
            await hub.sail()
        assert caught.value.code is ErrorCode.OFFLINE
        assert (await hub.sail(at_once=False)).promise == "offline"
        await hub.spoke("counter", process="10@10")
        assert (await hub.outcome(returning.task_id))[-1].what == "result", "it comes back within the timeout"


async def test_who_waited_in_vain_is_told_who_was_there_and_how(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        away = await hub.spoke("away", "Count", process="7@7")
        hub.desk.lost(away.session, "7@7")
        hub.manual.advance(40)
        hub.spokes.answer = hub.spokes.held
        await hub.spoke("busy", "Count")
        first = await hub.sail(timeout_ms=10**6)
        await hub.until(lambda: first.task_id in hub.spokes.running)
        sailed = await hub.sail(timeout_ms=15_000)
        await hub.pass_time(15)
        told = (await hub.outcome(sailed.task_id))[-1]
        assert (told.what, told.code, told.link) == ("failed", "timeout", "SUNSET")
        assert told.message.endswith(
            "is failed/expired: Nobody began it; registered for 'Count': @away (returning, last heard 55 s ago), "
            "@busy (online, 1 of 1 in hand)."
        )
        assert "tally routes" in told.remedy
        line = (await hub.desk.s.views.trace(sailed.trace_id, lambda _: True)).events[-1]
        assert "@away (returning, last heard 55 s ago)" in line.error, "the trace says so, too"


async def test_what_a_waiting_message_waits_for_is_told_with_it_and_its_trace_until_it_begins(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        spoke = await hub.spoke("mender", "Mend")
        hub.desk.drain_spoke(spoke.session)
        hub.spokes.session_of.clear()  # nobody takes anything
        sailed = await hub.sail("Mend")
        told = "registered for 'Mend': @mender (draining, last heard 0 s ago)"
        assert hub.routing.waits_for(hub.work(sailed.task_id)) == told
        await hub.spoke("mender", "Mend")
        pause = cmd.SetWorkspaceMode(workspace_id=hub.workspace, mode="paused")
        await hub.executor.execute(pause, hub.guest().actor, workspace=hub.workspace)
        assert hub.routing.waits_for(hub.work(sailed.task_id)) == told, "its workspace takes nothing new"
        await hub.pass_time(31)
        await hub.outcome(sailed.task_id)
        assert hub.routing.waits_for(hub.work(sailed.task_id)) == ""


async def test_one_that_cannot_be_ended_yet_does_not_keep_the_deadlines_of_others_waiting(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:

        async def never(_work: Work) -> bool:
            await asyncio.Event().wait()
            return True

        await hub.spoke("away", "Count")
        hub.spokes.session_of.clear()  # nobody takes anything
        stuck = await hub.sail(timeout_ms=10_000)
        hub.duties.end_run = never
        await hub.pass_time(11)
        assert hub.work(stuck.task_id).task.open
        for _ in range(6):  # it is tried again ever more rarely
            await hub.pass_time(31)
        await hub.spoke("away")
        hub.spokes.session_of.clear()
        await hub.sail(timeout_ms=2_000)
        assert await hub.duties.once() <= 2.0


async def test_more_of_them_than_are_looked_at_at_once_do_not_hide_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duties, "_PAGE", 3)
    async with Hub(tmp_path) as hub:

        async def what_never_ran(work: Work) -> bool:
            return not work.in_flight

        await hub.spoke("away", Offer("Count", concurrency=4))
        hub.spokes.answer = hub.spokes.held
        stuck = [await hub.sail(timeout_ms=10_000) for _ in range(4)]
        for one in stuck:
            await hub.until(lambda one=one: one.task_id in hub.spokes.running)
        hub.duties.end_run = what_never_ran
        await hub.pass_time(11)
        assert all(hub.work(one.task_id).task.open for one in stuck)
        await hub.spoke("other", "Other")
        hub.spokes.session_of.clear()  # nobody takes anything
        behind = await hub.sail("Other", timeout_ms=2_000)
        await hub.pass_time(3)
        assert hub.work(behind.task_id).task.place == "failed/expired"


async def test_what_was_begun_and_came_too_late_says_nothing_of_who_was_there(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        await hub.spoke("slow", "Count")
        sailed = await hub.sail(timeout_ms=15_000)
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        await hub.pass_time(15)
        told = (await hub.outcome(sailed.task_id))[-1]
        assert told.message.endswith("is failed/expired.")
        assert f"tally trace {sailed.task_id[-6:].lower()}" in told.remedy.replace("tsk_", "")


async def test_the_same_message_again_is_the_first_one(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", "Count")
        first = await hub.sail(key="day-1")
        await hub.outcome(first.task_id)
        again = await hub.sail(key="day-1")
        assert (again.task_id, again.duplicate, again.link) == (first.task_id, True, "CONFIRMED")
        assert (await hub.outcome(again.task_id))[-1].duplicate
        with pytest.raises(Refused) as caught:
            await hub.sail(key="day-1", payload='{"other":1}')
        assert caught.value.code is ErrorCode.CONFLICT
        assert len(hub.spokes.sent) == 1


async def test_a_payload_whose_keys_stand_in_another_order_is_the_same_and_any_other_is_not(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", "Count")
        first = await hub.sail(key="day-1", payload='{"a":{"x":1,"y":[1,2]},"b":12345678901234567890123}')
        again = await hub.sail(key="day-1", payload='{"b": 12345678901234567890123, "a": {"y": [1, 2], "x": 1}}')
        assert (again.task_id, again.duplicate) == (first.task_id, True)
        for other in ('{"a":{"x":1,"y":[2,1]},"b":12345678901234567890123}', '{"a":{"x":1,"y":[1,2]},"b":1}', "{"):
            with pytest.raises(Refused) as caught:
                await hub.sail(key="day-1", payload=other)
            assert caught.value.code is ErrorCode.CONFLICT


async def test_a_spoke_asks_where_nobody_coordinates_and_does_not_coordinate_by_it(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("mine", "Mine")
        for address in ("cap:Mine", "@human", "@coordinator"):
            asked = await hub.desk.ask(hub.guest("mine"), forms.Ask(address=address, title="t"))
            assert asked.task_id
        assert hub.heads.directory.workspaces[hub.workspace].coordinator == ""


async def test_the_first_agent_whose_ask_goes_through_coordinates(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        agents = [hub.id(Prefix.AGENT) for _ in range(2)]
        for alias, agent_id in zip(("early", "later"), agents, strict=True):
            join = cmd.JoinAgent(agent_id=agent_id, alias=alias, workspace=hub.workspace)
            await hub.executor.execute(join, hub.guest().actor)
        with pytest.raises(Refused):
            await hub.desk.ask(hub.guest("early"), forms.Ask(address="@human", title=""))
        assert hub.heads.directory.workspaces[hub.workspace].coordinator == ""
        for alias in ("later", "early"):
            await hub.desk.ask(hub.guest(alias), forms.Ask(address="@human", title="t"))
        assert hub.heads.directory.workspaces[hub.workspace].coordinator == agents[1]


async def test_what_people_ask_of_a_capability_is_the_same_however_its_json_is_written(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", "Count")
        asked = [
            await hub.desk.ask(hub.guest(), forms.Ask(address="cap:Count", title="t", body=body, key="day-1"))
            for body in ('{"a":1,"b":2}', '{"b": 2, "a": 1}')
        ]
        assert [receipt.duplicate for receipt in asked] == [False, True]
        for other in ('{"a":2,"b":1}', "{a b", "[" * 5000):
            with pytest.raises(Refused) as caught:
                await hub.desk.ask(hub.guest(), forms.Ask(address="cap:Count", title="t", body=other, key="day-1"))
            assert caught.value.code is ErrorCode.CONFLICT


async def test_all_who_hold_it_get_it_once_each(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        for name in ("one", "two", "three"):
            await hub.spoke(name, "Count")
        sailed = await hub.sail(to="all")
        ends = [(await hub.outcome(task_id))[-1].spoke for task_id in sailed.tasks]
        assert sorted(ends) == ["one", "three", "two"]


async def test_holders_are_chosen_by_their_weights(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        for weight in (1, 2, 4):
            await hub.spoke(f"w{weight}", Offer("Count", weight=weight))
        for _ in range(70):
            await hub.reaches_()
        assert Counter(envelope.agent.alias for envelope in hub.spokes.sent) == {"w1": 10, "w2": 20, "w4": 40}


async def test_the_live_spoke_of_a_name_wins_and_another_store_is_another_session(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        first = await hub.spoke("counter", "Count", process="1@1")
        with pytest.raises(Refused) as caught:
            await hub.spoke("counter", "Count", process="2@2")
        assert caught.value.code is ErrorCode.CONFLICT
        hub.desk.lost(first.session, "1@1")
        back = await hub.spoke("counter", process="2@2")
        assert (back.session, back.agent) == (first.session, first.agent)
        hub.desk.lost(first.session, "2@2")
        other = await hub.spoke("counter", process="3@3", store="another")
        assert other.session != first.session
        assert hub.heads.directory.sessions[first.session].ended


async def test_retreat_takes_back_what_has_not_begun(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.unanswered
        await hub.spoke("counter", "Count")
        sailed = await hub.sail()
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        link = await hub.desk.retreat(hub.guest(), sailed.msg_id)
        assert (link.link, link.task_id) == ("IDLE", sailed.task_id)


async def test_retreat_of_what_is_no_message_of_the_caller_says_so(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        for named in ("nope", "tsk_nope", hub.id(Prefix.TASK), hub.id(Prefix.MESSAGE)):
            with pytest.raises(Refused, match=r"There is no .*message") as caught:
                await hub.desk.retreat(hub.guest(), named)
            assert caught.value.code is ErrorCode.NOT_FOUND


async def test_retreat_of_what_has_begun_is_refused(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        await hub.spoke("counter", "Count")
        sailed = await hub.sail()
        await hub.until(lambda: hub.work(sailed.task_id).task.state.value == "working")
        with pytest.raises(Refused) as caught:
            await hub.desk.retreat(hub.guest(), sailed.msg_id)
        assert caught.value.code is ErrorCode.CONFLICT


async def test_the_route_table_shows_who_holds_what_and_what_became_of_it(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", Offer("Count", "1.2", weight=3))
        await hub.reaches_()
        shown = await hub.desk.routes(hub.guest(), stats=True)
        (route,) = shown.routes
        assert (route.capability, route.version, route.spoke, route.status, route.first) == (
            "Count",
            "1.2",
            "counter",
            "online",
            True,
        )
        assert (shown.stats[0].asked, shown.stats[0].done, shown.stats[0].failed) == (1, 1, 0)


async def test_who_is_offline_stands_last_among_the_routes(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        gone = await hub.spoke("a-gone", "Count")
        await hub.spoke("b-here", "Count")
        hub.desk.departed(gone.session, "1@1")
        shown = (await hub.desk.routes(hub.guest())).routes
        assert [(route.spoke, route.status) for route in shown] == [("b-here", "online"), ("a-gone", "offline")]


async def test_a_spoke_that_was_lost_takes_its_work_back_and_its_result_counts(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        spoke = await hub.spoke("counter", "Count")
        sailed = await hub.sail()
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        await hub.loses(spoke, sailed)
        back = await hub.spoke("counter", process="2@2", held=(hub.holds(sailed.task_id, "running"),))
        assert [answer.do for answer in back.resume] == ["go_on"]
        assert not hub.work(sailed.task_id).deliveries[0].unverified
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        assert hub.spokes.sent[-1].adopted
        hub.spokes.ends(sailed.task_id, "submitted", text="late")
        assert (await hub.outcome(sailed.task_id))[-1].payload == "late"


async def test_a_result_that_comes_after_a_person_was_asked_settles_it(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        spoke = await hub.spoke("counter", "Count")
        sailed = await hub.sail(timeout_ms=10**7)
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        await hub.loses(spoke, sailed)
        await hub.pass_time(200)
        assert hub.work(sailed.task_id).task.place == "input_required/unverified"
        back = await hub.spoke("counter", process="2@2", held=(hub.holds(sailed.task_id, "done"),))
        assert [answer.do for answer in back.resume] == ["resend"]
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        hub.spokes.ends(sailed.task_id, "submitted", text="at last")
        assert (await hub.outcome(sailed.task_id))[-1].payload == "at last"


async def test_what_began_and_whose_spoke_is_away_at_the_deadline_is_unverified_and_a_late_result_settles_it(
    tmp_path: Path,
) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        spoke = await hub.spoke("counter", "Count")
        sailed = await hub.sail(timeout_ms=20_000)
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        await hub.loses(spoke, sailed)
        await hub.pass_time(21)
        assert hub.work(sailed.task_id).task.place == "input_required/unverified"
        back = await hub.spoke("counter", process="2@2", held=(hub.holds(sailed.task_id, "done"),))
        assert [answer.do for answer in back.resume] == ["resend"]
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        hub.spokes.ends(sailed.task_id, "submitted", text="late")
        assert (await hub.outcome(sailed.task_id))[-1].payload == "late"


@pytest.mark.parametrize(("outcome", "what"), [("submitted", "result"), ("unverified", "unverified")])
async def test_a_spoke_that_is_back_after_the_deadline_before_anybody_looked_makes_nothing_of_it_expired(
    tmp_path: Path, outcome: str, what: str
) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        spoke = await hub.spoke("counter", "Count")
        sailed = await hub.sail(timeout_ms=20_000)
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        await hub.loses(spoke, sailed)
        hub.manual.advance(21)
        back = await hub.spoke("counter", process="2@2", held=(hub.holds(sailed.task_id, "done"),))
        assert [answer.do for answer in back.resume] == ["resend"]
        await hub.pass_time(1)
        assert hub.work(sailed.task_id).task.place == "input_required/unverified"
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        hub.spokes.ends(sailed.task_id, outcome, text="late")
        if outcome == "submitted":
            assert (await hub.outcome(sailed.task_id))[-1].what == what
        else:
            await hub.pass_time(400)
            assert hub.work(sailed.task_id).task.place == "input_required/unverified"


async def test_what_a_returning_spoke_has_lost_is_for_a_person_at_once(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        spoke = await hub.spoke("counter", "Count")
        sailed = await hub.sail()
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        await hub.loses(spoke, sailed)
        stale = hub.holds(sailed.task_id, "running", fence=99)
        unknown = hub.holds(sailed.task_id, "done", delivery="dlv_x")
        back = await hub.spoke("counter", process="2@2", held=(stale, unknown))
        assert [answer.do for answer in back.resume] == ["drop", "drop"]
        assert hub.work(sailed.task_id).task.place == "input_required/unverified"
        hub.spokes.answer = hub.spokes.done
        assert (await hub.reaches_()).what == "result", "what is in doubt for good takes no slot"


async def test_after_a_restart_of_the_host_what_began_waits_for_its_spoke_and_the_rest_goes_out_anew(
    tmp_path: Path,
) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        await hub.spoke("counter", Offer("Count", concurrency=2))
        begun = await hub.sail(timeout_ms=10**6)
        await hub.until(lambda: hub.work(begun.task_id).task.state.value == "working")
        hub.spokes.answer = hub.spokes.unanswered
        sent = await hub.sail(timeout_ms=10**6)
        await hub.until(lambda: sent.task_id in hub.spokes.running)
        waits = await hub.sail(timeout_ms=10**6)
        store, clock = hub.store, hub.manual
    async with Hub(tmp_path, store, clock) as hub:
        (route,) = (await hub.desk.routes(hub.guest())).routes
        assert route.status == "returning"
        hub.spokes.answer = hub.spokes.held
        assert (await hub.sail()).promise == "mailbox", "it is waited for"
        back = await hub.spoke("counter", process="2@2", held=(await hub.holds_of(begun.task_id, "running"),))
        assert [answer.do for answer in back.resume] == ["go_on"]
        for sailed in (begun, sent, waits):
            await hub.until(lambda task_id=sailed.task_id: task_id in hub.spokes.running)
            hub.spokes.ends(sailed.task_id, "submitted", text="whole")
            assert (await hub.outcome(sailed.task_id))[-1].what == "result"
        assert (await hub.outcome(begun.task_id))[-1].payload == "whole"


async def test_the_desk_takes_the_longest_wait_that_a_frame_carries_and_no_longer_one(tmp_path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", "Count")
        assert await hub.sail(timeout_ms=604_800_000)
        with pytest.raises(Refused, match="7 days"):
            await hub.sail(timeout_ms=604_800_001)


@pytest.mark.parametrize("to", ["all", "one"])
async def test_after_a_restart_every_message_that_waits_is_taken_up_by_name_or_by_capability(tmp_path, to: str) -> None:
    many = 1001
    async with Hub(tmp_path, push_queue=many + 1, anchor_queue=many + 1) as hub:
        hub.spokes.answer = hub.spokes.held
        await hub.spoke("counter", "Count")
        first = await hub.sail(timeout_ms=10**8)
        await hub.until(lambda: first.task_id in hub.spokes.running)
        sails = [hub.sail(timeout_ms=10**8, to=to) for _ in range(many)]
        await asyncio.gather(*sails)
        assert hub.routing.waiting("Count") == many
        store, clock = hub.store, hub.manual
    async with Hub(tmp_path, store, clock) as hub:
        assert hub.routing.waiting("Count") == many


async def test_who_waits_for_a_message_is_told_of_it_though_others_fail(tmp_path, monkeypatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("an event that nobody understands")

    monkeypatch.setattr(Presence, "leased", fails)
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        await hub.spoke("counter", "Count")
        sailed = await hub.sail()
        broken, whole = [await hub.desk.reaches(hub.guest(), sailed.task_id) for _ in range(2)]
        assert [(await anext(reading)).what for reading in (broken, whole)] == ["waits", "waits"]
        monkeypatch.setattr(hub.reaches._readers[sailed.task_id][0], "told", fails)
        waits = asyncio.ensure_future(anext(broken))
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        hub.spokes.ends(sailed.task_id, "submitted", text="1")
        async with asyncio.timeout(20):
            assert [reached.what async for reached in whole][-1] == "result"
            with pytest.raises(ValueError, match="nobody understands"):
                await waits


@pytest.mark.parametrize("by", ["requester", "host"])
@pytest.mark.parametrize("during", [False, True], ids=["before the look", "during the look"])
async def test_a_trace_is_not_settled_over_a_part_that_is_just_being_opened(
    tmp_path, monkeypatch, by: str, *, during: bool
) -> None:
    async with Hub(tmp_path) as hub:
        asker, trace = hub.guest().actor, hub.id(Prefix.TRACE)

        def submit() -> cmd.SubmitTask:
            given = {"task_id": Prefix.TASK, "delivery_id": Prefix.DELIVERY, "message_id": Prefix.MESSAGE}
            ids = {name: hub.id(prefix) for name, prefix in given.items()}
            to = {"workspace": hub.workspace, "assignee": hub.owner, "parent": "", "trace": trace}
            return cmd.SubmitTask(**ids, **to, text=Text(title="x"))

        root, part = submit(), submit()
        await hub.executor.execute(root, asker)
        await hub.executor.execute(cmd.CancelTask(task_id=root.task_id), asker)
        may_commit = asyncio.Event()
        append, query = hub.store.append, hub.store.query

        async def held(batch: Any) -> Any:
            await may_commit.wait()
            return await append(batch)

        async def slow(name: str, **given: Any) -> Any:
            rows = await query(name, **given)
            if name == "in_trace":
                may_commit.set()
                await hub.until(lambda: during is False or not hub.heads.pending)
            return rows

        monkeypatch.setattr(hub.store, "append", held)
        monkeypatch.setattr(hub.store, "query", slow)
        opening = asyncio.ensure_future(hub.executor.execute(part, asker))
        await hub.until(lambda: part.task_id in hub.heads.pending)
        settle = hub.executor.execute(cmd.SettleTrace(task_id=root.task_id), asker if by == "requester" else HOST)
        settling = asyncio.ensure_future(settle)
        await hub.until(lambda: may_commit.is_set() or root.task_id in hub.heads.pending)
        may_commit.set()
        with pytest.raises(Refused) as caught:
            await settling
        assert caught.value.code is ErrorCode.CONFLICT
        assert part.task_id[-6:].lower() in caught.value.message
        await opening
        await hub.executor.execute(cmd.CancelTask(task_id=part.task_id), asker)
        assert (await hub.executor.execute(cmd.SettleTrace(task_id=root.task_id), asker)).recorded is not None


async def test_references_of_a_message_are_fetched_and_verified(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", "Count")
        digest = hub.desk.s.blobs.put(b"the words")
        sailed = await hub.sail(inputs=(f"blob:{digest}", "https://example.org/x"))
        assert await hub.desk.fetch(hub.guest(), sailed.task_id, 0) == b"the words"
        for index, code in ((1, ErrorCode.UNSUPPORTED), (2, ErrorCode.NOT_FOUND), (-1, ErrorCode.NOT_FOUND)):
            with pytest.raises(Refused) as caught:
                await hub.desk.fetch(hub.guest(), sailed.task_id, index)
            assert caught.value.code is code


async def test_a_failed_message_is_compensated_by_a_capability_and_tried_again(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", "Count")
        await hub.spoke("cleaner", "CleanUp")
        failures = iter([Receipt(outcome="failed", code="invalid", detail="the result has the wrong shape")])

        async def fails_once(envelope: Envelope, began: Began) -> Receipt:
            await began("fake spoke", "BEGIN")
            done = Receipt(outcome="submitted", text=envelope.agent.alias)
            return done if envelope.agent.alias == "cleaner" else next(failures, done)

        hub.spokes.answer = fails_once
        sailed = await hub.sail(on_failure="cap:CleanUp")
        assert (await hub.outcome(sailed.task_id))[-1].payload == "counter"
        assert [envelope.agent.alias for envelope in hub.spokes.sent] == ["counter", "cleaner", "counter"]


async def test_parts_of_one_dispatch_are_one_open_child_of_their_parent(tmp_path: Path) -> None:
    async with Hub(tmp_path, open_children=1) as hub:
        hub.spokes.answer = hub.spokes.held
        await hub.spoke("counter", Offer("Count", concurrency=8))
        parent = await hub.sail(timeout_ms=10**6)
        parts = [await hub.sail(parent=parent.task_id, group="msg_g") for _ in range(5)]
        assert {part.trace_id for part in parts} == {parent.trace_id}
        with pytest.raises(Refused) as caught:
            await hub.sail(parent=parent.task_id, group="msg_other")
        assert caught.value.code is ErrorCode.DENIED


@pytest.mark.parametrize("inside", [False, True], ids=["of no task", "of a task"])
async def test_a_dispatch_has_so_many_open_parts_and_no_more(tmp_path: Path, *, inside: bool) -> None:
    async with Hub(tmp_path, dispatch_parts=3) as hub:
        hub.spokes.answer = hub.spokes.held
        await hub.spoke("counter", Offer("Count", concurrency=8))
        given = {"parent": (await hub.sail(timeout_ms=10**6)).task_id} if inside else {}
        parts = [await hub.sail(group="grp_1", **given) for _ in range(3)]
        with pytest.raises(Refused) as caught:
            await hub.sail(group="grp_1", **given)
        assert (caught.value.code, "3 open parts" in caught.value.message) == (ErrorCode.DENIED, True)
        if not inside:
            await hub.sail(group="grp_2")
        await hub.until(lambda: parts[0].task_id in hub.spokes.running)
        hub.spokes.ends(parts[0].task_id, "submitted", text="1")
        await hub.outcome(parts[0].task_id)
        await hub.sail(group="grp_1", **given)


async def test_a_drained_spoke_finishes_what_it_has_and_gets_nothing_new(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        spoke = await hub.spoke("counter", Offer("Count", concurrency=2))
        first = await hub.sail()
        await hub.until(lambda: first.task_id in hub.spokes.running)
        hub.desk.drain_spoke(spoke.session)
        second = await hub.sail()
        hub.spokes.ends(first.task_id, "submitted", text="done")
        assert (await hub.outcome(first.task_id))[-1].payload == "done"
        assert hub.work(second.task_id).task.assignee == "cap:Count"
        assert (await hub.desk.routes(hub.guest())).routes[0].status == "draining"


async def test_many_messages_leave_nothing_behind_in_memory(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", Offer("Count", concurrency=64))
        for _ in range(20):
            tasks = [await hub.sail() for _ in range(20)]
            for sailed in tasks:
                assert (await hub.outcome(sailed.task_id))[-1].what == "result"
        await hub.until(lambda: not hub.deliverer._pushes)
        routing = hub.routing
        left = (routing._waiting, routing._route_of, routing._taken, routing._avoided, hub.reaches._readers)
        assert not any(left), left


async def test_every_message_that_finds_no_holder_says_so_as_the_first_line_of_its_trace(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        for trace in (hub.id(Prefix.TRACE), hub.id(Prefix.TRACE)):
            with pytest.raises(Refused):
                await hub.sail("Absent", trace=trace)
            noted = []
            while not noted:
                noted = await hub.store.tail(0, trace=trace)
                await asyncio.sleep(0)
            assert (noted[0].event.code, noted[0].event.object) == ("no_route", "cap:Absent")


async def test_links_stand_in_the_trace_before_and_after(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", "Count")
        sailed = await hub.sail()
        await hub.outcome(sailed.task_id)
        lines = (await hub.desk.s.views.trace(sailed.trace_id, lambda _: True)).events
        assert [line.link for line in lines] == [
            "IDLE",
            "IDLE → PROVISIONED",
            "PROVISIONED → REACHED",
            "REACHED → CONFIRMED",
        ]


async def test_a_trace_id_must_be_one(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", "Count")
        for trace in ("nonsense", "trc_1", hub.id(Prefix.TASK)):
            with pytest.raises(Refused) as caught:
                await hub.sail(trace=trace)
            assert (caught.value.code, "trc_" in caught.value.remedy) == (ErrorCode.INVALID, True)


async def test_an_agent_writes_into_no_trace_of_another_workspace_but_one_that_it_has_a_part_in(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        place = hub.id(Prefix.WORKSPACE)
        register = cmd.RegisterWorkspace(workspace_id=place, name="shop", root=str(tmp_path))
        await hub.executor.execute(register, hub.guest().actor)
        await hub.spoke("counter", "Count")
        await hub.spoke("till", "Pay", workspace=place)
        shop = hub.guest(workspace=place)
        private = await hub.sail("Pay", guest=shop)
        counter = hub.guest("counter")
        with pytest.raises(Refused) as caught:
            await hub.sail(guest=counter, trace=private.trace_id)
        assert caught.value.code is ErrorCode.DENIED
        given = await hub.sail(guest=shop)  # nobody of the shop counts, so one of `default` does
        await hub.outcome(given.task_id)
        assert (await hub.sail(guest=counter, trace=given.trace_id)).trace_id == given.trace_id
        assert (await hub.sail(guest=hub.guest(), trace=private.trace_id)).trace_id == private.trace_id


async def test_of_progress_that_its_reader_does_not_fetch_only_the_newest_keeps_its_words(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        spoke = await hub.spoke("counter", "Count")
        sailed = await hub.sail()
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        reading = await hub.desk.reaches(hub.guest(), sailed.task_id)
        await anext(reading)
        fence = hub.work(sailed.task_id).task.fence
        for number in range(20):
            await hub.desk.told(spoke.session, sailed.task_id, fence, f"step {number}")
        (reader,) = hub.reaches._readers[sailed.task_id]
        kept = [told.text for told in reader._came]
        assert kept == ["step 19"]
        hub.spokes.ends(sailed.task_id, "submitted", text="1")
        told = [reached async for reached in reading]
        assert [(reached.what, reached.text) for reached in told] == [("progress", "step 19"), ("result", "")]


async def test_however_many_wait_only_the_first_of_them_is_looked_at(tmp_path: Path) -> None:
    looked: list[str] = []

    class Queue(OrderedDict[str, Any]):
        def items(self) -> Any:
            for delivery_id, waiting in super().items():
                looked.append(delivery_id)
                yield delivery_id, waiting

        def values(self) -> Any:
            return [waiting for _, waiting in self.items()]

    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        await hub.spoke("counter", "Count")
        sailed = [await hub.sail() for _ in range(5)]
        await hub.until(lambda: sailed[0].task_id in hub.spokes.running)
        ((route, waiting),) = hub.routing._waiting.items()
        assert len(waiting) == 4
        hub.routing._waiting[route] = Queue(waiting)
        hub.deliverer._route(route)
        assert looked == [hub.work(sailed[1].task_id).deliveries[0].delivery_id]


@pytest.mark.parametrize(("is_in_it", "told"), [(False, ["waits", "progress", "result"]), (True, ["waits", "result"])])
async def test_what_happens_while_the_log_is_read_is_told_once(tmp_path, monkeypatch, is_in_it, told):
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        spoke = await hub.spoke("counter", "Count")
        sailed = await hub.sail()
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        hub.heads.histories.forget(sailed.task_id)
        load, fence = hub.store.load, hub.work(sailed.task_id).task.fence

        async def meanwhile(task_id):
            before = await load(task_id)
            await hub.desk.told(spoke.session, task_id, fence, "half of it")
            return await load(task_id) if is_in_it else before

        monkeypatch.setattr(hub.store, "load", meanwhile)
        reading = await hub.desk.reaches(hub.guest(), sailed.task_id)
        first = await anext(reading)
        hub.spokes.ends(sailed.task_id, "submitted", text="1")
        assert [first.what, *[reached.what async for reached in reading]] == told


async def test_what_was_taken_back_is_tried_again_as_soon_as_it_is_due(tmp_path, monkeypatch):
    monkeypatch.setattr(deliver, "_SWEEP_SECONDS", 1000.0)
    async with Hub(tmp_path, retry_seconds=(0.05,) * 5) as hub:
        tool = hub.new_id(Prefix.AGENT)
        join = cmd.JoinAgent(
            agent_id=tool, alias="tool", workspace=hub.workspace, connection="command", argv=("true",)
        )
        await hub.executor.execute(join, hub.guest().actor)
        hub.spokes.session_of[tool] = hub.new_id(Prefix.SESSION)
        hub.deliverer._transports = {"command": hub.spokes}
        monkeypatch.setattr(hub.desk, "_level", lambda *_: "none")

        async def not_now(_envelope, _began):
            hub.spokes.answer = hub.spokes.done
            return Receipt(outcome="returned", detail="It is full.")

        hub.spokes.answer = not_now
        asked = await hub.desk.ask(hub.guest(), forms.Ask(address="@tool", title="Count"))
        await hub.until(lambda: hub.work(asked.task_id).deliveries[-1].retries, "the refusal")
        await hub.until(lambda: not (hub.deliverer._pushes or hub.deliverer._named), "the look after it")
        for _ in range(50):
            await asyncio.sleep(0)
        hub.manual.advance(1.0)
        await hub.until(lambda: not hub.work(asked.task_id).task.open, "its end")
        assert len(hub.spokes.sent) == 2
