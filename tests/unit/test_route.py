"""Who holds a capability for whom, and how a task for one moves."""

from __future__ import annotations

import msgspec
import pytest

from tallystick.core import commands as cmd
from tallystick.core.errors import ErrorCode
from tallystick.core.identity import HOST
from tallystick.core.limits import Limits
from tallystick.core.link import LINKS, is_suspected, link_of
from tallystick.core.model import Promise
from tallystick.core.offers import Offer
from tallystick.core.places import CONNECTIONS
from tallystick.core.route import HEARD, addressed, domains_of, holders, promise_to
from tests import oracle
from tests.build import ANN, ASKER, HOME, OTHER, REVIEWER, SESSIONS, SPOKE, WORKER, World, agent, person


def names(world: World, spec: str = "Count", **given: object) -> list[str]:
    found = holders(spec, HOME, world.directory, **given)  # type: ignore[arg-type]
    return [world.directory.agents[h.agent.agent_id].alias for h in found]


def offer(world: World, party: str, *offers: Offer, **given: object) -> None:
    alias = world.directory.agents[party].alias
    world.do(cmd.JoinAgent(agent_id=party, alias=alias, workspace=HOME, offers=offers, **given), ANN)  # type: ignore[arg-type]


def routed(world: World, chosen: str = SPOKE, **given: object) -> str:
    task_id = world.ask(to="cap:Count", **given)
    world.act(cmd.LeaseDelivery, task_id, HOST, recipient=chosen, session=SESSIONS[chosen])
    return task_id


def begun(world: World, chosen: str = SPOKE, **given: object) -> str:
    task_id = routed(world, chosen, **given)
    world.act(cmd.BeginDelivery, task_id, HOST)
    return task_id


def evidence(world: World, task_id: str) -> dict[str, str]:
    return {seen.fact.value: seen.evidence for seen in world.delivery(task_id).facts}


def test_a_spokes_facts_rest_on_the_domain_of_its_offer_and_on_its_stored_begin(world: World) -> None:
    for domain, rule in (("data-team", "rule domain:data-team"), ("", "rule domain:*")):
        offer(world, SPOKE, Offer("Count", domain=domain))
        task_id = routed(world)
        world.act(cmd.BeginDelivery, task_id, HOST, evidence="BEGIN, stored by the spoke")
        seen = evidence(world, task_id)
        assert (seen["admitted"], seen["recorded"], seen["working"]) == (rule, "BEGIN, stored by the spoke", "auto")


def test_what_a_command_agent_has_is_inferred_and_admitted_as_it_joined(world: World) -> None:
    task_id = world.leased()
    world.act(cmd.BeginDelivery, task_id, HOST, evidence="child started, brief written")
    seen = evidence(world, task_id)
    assert (seen["admitted"], seen["recorded"]) == ("rule inbound:accept", "inferred")


# --- who holds it -----------------------------------------------------------------------------------------------


def test_versions_narrow_the_holders(world: World) -> None:
    assert names(world) == ["spoke", "other"]
    assert names(world, "Count@1.2") == ["other"]
    assert names(world, "Count@2") == []


def test_of_one_agent_the_newest_version_that_serves_is_meant(world: World) -> None:
    offer(world, SPOKE, Offer("Count", "1.2"), Offer("Count", "1.10"), Offer("Count", "2.0"))
    found = holders("Count@1.1", HOME, world.directory)
    assert [h.offer.version for h in found] == ["1.10", "1.4"]


def test_a_domain_is_seen_by_who_is_registered_for_it_and_by_local_callers_without_any(world: World) -> None:
    offer(world, SPOKE, Offer("Count", domain="data"))
    assert names(world) == ["spoke", "other"]
    assert names(world, domains=("", "data")) == ["spoke", "other"]
    assert names(world, domains=("", "web")) == ["other"]
    assert names(world, domains=("data",)) == ["spoke"]


def test_whoever_offers_in_a_domain_or_was_given_one_is_registered_for_it(world: World) -> None:
    assert domains_of(ANN, None, world.directory) == ()
    assert domains_of(ANN, (), world.directory) == ("",)
    offer(world, SPOKE, Offer("Count", domain="data"), domains=("web",))
    assert domains_of(SPOKE, None, world.directory) == ("", "data", "web")
    assert domains_of(SPOKE, ("more",), world.directory) == ("", "data", "more", "web")


def test_a_pin_leaves_one_holder_until_a_person_takes_it_back(world: World) -> None:
    world.do(cmd.PinCapability(workspace_id=HOME, capability="Count", agent=OTHER), ANN)
    assert names(world) == ["other"]
    world.do(cmd.PinCapability(workspace_id=HOME, capability="Count"), ANN)
    assert names(world) == ["spoke", "other"]


@pytest.mark.parametrize("by", [ASKER, SPOKE])
def test_only_a_person_pins(world: World, by: str) -> None:
    with pytest.raises(Exception, match="Only a person"):
        world.do(cmd.PinCapability(workspace_id=HOME, capability="Count", agent=SPOKE), by)


def test_nobody_is_pinned_who_does_not_offer_it(world: World) -> None:
    with pytest.raises(Exception, match="does not offer"):
        world.do(cmd.PinCapability(workspace_id=HOME, capability="Count", agent=WORKER), ANN)


def test_whoever_refuses_or_holds_what_others_send_holds_nothing_for_them(world: World) -> None:
    offer(world, SPOKE, Offer("Count"), inbound="refuse")
    assert names(world, requester=ASKER) == ["other"]
    assert names(world, requester=ANN) == ["spoke", "other"]


def test_a_holder_whose_provider_nobody_allowed_is_none(world: World) -> None:
    alias = world.directory.agents[WORKER].alias
    paid = cmd.JoinAgent(agent_id=WORKER, alias=alias, workspace=HOME, capabilities=("Sum",), provider="acme")
    world.do(paid, agent(WORKER))
    assert names(world, "Sum") == []


def test_where_all_holders_pull_the_one_that_offered_it_first_is_addressed(world: World) -> None:
    offer(world, WORKER, Offer("Sum"))
    offer(world, REVIEWER, Offer("Sum"))
    said = [addressed(spec, holders(spec, HOME, world.directory)) for spec in ("Sum", "Count", "Absent")]
    assert said == [WORKER, "cap:Count", "cap:Absent"]


def test_who_leaves_or_offers_something_else_holds_it_no_more(world: World) -> None:
    world.do(cmd.LeaveAgent(agent_id=SPOKE), ANN)
    offer(world, OTHER, Offer("Sum"))
    assert names(world) == []
    assert names(world, "Sum") == ["other"]


# --- asking -----------------------------------------------------------------------------------------------------


def test_a_domain_that_one_may_not_see_and_a_capability_that_nobody_offers_are_refused_in_the_same_words(
    world: World,
) -> None:
    offer(world, SPOKE, Offer("Count", domain="data"))
    offer(world, OTHER, Offer("Sum"))
    ways = [
        {"to": "cap:Count", "domains": ("web",)},
        {"to": "cap:Count", "domains": ("web",), "domain": "data"},
        {"to": SPOKE, "capability": "Count", "domains": ()},
        {"to": "cap:Absent"},
    ]
    told = {world.refuses_ask(ErrorCode.NO_ROUTE, **way).message.replace("Absent", "Count") for way in ways}
    assert len(told) == 1


def test_a_message_at_once_is_refused_where_every_lease_has_lapsed_and_none_stands(world: World) -> None:
    world.refuses_ask(ErrorCode.OFFLINE, to="cap:Count", at_once=True)
    there = {"live": frozenset({OTHER}), "reachable": frozenset({OTHER})}
    assert world.task(world.ask(to="cap:Count", at_once=True, **there)).promise == Promise.LIVE
    returning = world.ask(to="cap:Count", at_once=True, live=frozenset({OTHER}))
    assert world.task(returning).promise == Promise.MAILBOX, "it gets it when it is back"
    assert world.task(world.ask(to="cap:Count")).promise == Promise.OFFLINE
    offer(world, SPOKE, Offer("Count", standing=True))
    assert world.task(world.ask(to="cap:Count", at_once=True)).promise == Promise.MAILBOX


def test_a_part_may_go_to_the_capability_that_its_whole_waits_for_before_and_after_that_is_begun(world: World) -> None:
    offer(world, SPOKE, Offer("Count", concurrency=4))
    parent = world.ask(to="cap:Count")
    assert world.task(world.ask(to="cap:Count", parent=parent)).assignee == "cap:Count"
    begun_parent = begun(world)
    assert world.task(world.ask(to="cap:Count", parent=begun_parent)).assignee == "cap:Count"
    world.refuses_ask(ErrorCode.CONFLICT, to=SPOKE, capability="Count", parent=begun_parent)


@pytest.mark.parametrize("connection", CONNECTIONS)
def test_signs_of_life_change_a_promise_exactly_where_they_are_looked_for(world: World, connection: str) -> None:
    asked = msgspec.structs.replace(world.directory.agents[WORKER], connection=connection)
    signs = [(live, reachable) for live in (False, True) for reachable in (False, True)]
    said = {promise_to(asked, world.directory, live=live, reachable=reachable) for live, reachable in signs}
    assert (len(said) > 1) == (connection in HEARD)


def test_a_holder_that_this_caller_does_not_see_promises_it_nothing(world: World) -> None:
    offer(world, SPOKE, Offer("Count", domain="data"))
    task_id = world.ask(to="cap:Count", domains=("web",), live=frozenset({SPOKE}))
    assert world.task(task_id).promise == Promise.OFFLINE


def test_a_message_without_a_deadline_waits_a_week(world: World) -> None:
    task = world.task(world.ask(to="cap:Count"))
    assert task.deadline_at == world.now + world.limits.anchor_seconds
    assert world.task(world.ask(to=WORKER)).deadline_at == 0


def test_so_many_messages_wait_for_one_capability_and_no_more(world: World) -> None:
    world.refuses_ask(ErrorCode.UNAVAILABLE, to="cap:Count", queued=world.limits.anchor_queue)
    world.ask(to="cap:Count", queued=world.limits.anchor_queue - 1)


def test_a_spoke_is_not_asked_by_its_name_but_for_what_it_offers(world: World) -> None:
    assert "cap:Count" in world.refuses_ask(ErrorCode.INVALID, to=SPOKE).remedy
    task = world.task(world.ask(to=SPOKE, capability="Count"))
    assert (task.assignee, task.route, task.capability) == (SPOKE, "", "Count")


def test_the_parts_of_one_dispatch_are_one_child(world: World) -> None:
    parent = world.taken()
    most = world.limits.open_children
    given = {"by": agent(WORKER), "to": "cap:Count", "parent": parent}
    world.ask(**given, group="g", siblings=most - 1, parts=0)
    world.ask(**given, group="g", siblings=most - 1, parts=1)
    world.refuses_ask(ErrorCode.DENIED, **given, siblings=most)
    world.refuses_ask(ErrorCode.DENIED, **given, group="g", siblings=0, parts=world.limits.dispatch_parts)


def test_a_way_to_try_again_that_nobody_knows_is_refused(world: World) -> None:
    world.refuses_ask(ErrorCode.INVALID, to="cap:Count", retry="always")


# --- handing over -----------------------------------------------------------------------------------------------


def test_a_lease_names_a_holder_exactly_where_the_host_chooses(world: World) -> None:
    task_id = world.ask(to="cap:Count")
    world.refuses(ErrorCode.CONFLICT, cmd.LeaseDelivery, task_id, HOST)
    refused = world.refuses(ErrorCode.CONFLICT, cmd.LeaseDelivery, task_id, HOST, recipient=WORKER)
    assert "does not hold 'Count' now" in refused.message
    named = world.ask(to=SPOKE, capability="Count")
    world.refuses(ErrorCode.CONFLICT, cmd.LeaseDelivery, named, HOST, recipient=SPOKE)
    world.act(cmd.LeaseDelivery, named, HOST)
    assert world.task(named).assignee == SPOKE


def test_the_slots_are_those_of_the_capability(world: World) -> None:
    offer(world, SPOKE, Offer("Count", concurrency=3))
    task_id = world.ask(to="cap:Count")
    world.refuses(ErrorCode.CONFLICT, cmd.LeaseDelivery, task_id, HOST, recipient=SPOKE, outstanding=3)
    world.act(cmd.LeaseDelivery, task_id, HOST, recipient=SPOKE, outstanding=2)


def test_what_is_returned_waits_for_any_holder_again(world: World) -> None:
    task_id = routed(world)
    assert (world.task(task_id).assignee, world.task(task_id).turn) == (SPOKE, SPOKE)
    world.act(cmd.ReturnDelivery, task_id, HOST)
    task, delivery = world.task(task_id), world.delivery(task_id)
    assert (task.assignee, task.turn, task.session) == ("cap:Count", "cap:Count", "")
    assert (delivery.recipient, delivery.fact.value, delivery.retries) == ("cap:Count", "persisted", 1)


def test_what_began_goes_elsewhere_only_where_it_may_be_done_twice(world: World) -> None:
    world.refuses(ErrorCode.CONFLICT, cmd.ReturnDelivery, begun(world, OTHER), HOST)
    task_id = begun(world, SPOKE)
    world.act(cmd.ReturnDelivery, task_id, HOST)
    assert (world.place(task_id), world.task(task_id).assignee) == ("submitted/new", "cap:Count")
    world.refuses(ErrorCode.CONFLICT, cmd.HandInResult, task_id, agent(SPOKE, door="spoke"))


def test_a_fence_from_before_a_restart_ends_with_what_was_returned(world: World) -> None:
    task_id = begun(world, SPOKE)
    old = world.task(task_id).fence
    world.act(cmd.RecoverLease, task_id, HOST)
    world.act(cmd.ReturnDelivery, task_id, HOST, retry_at=world.now)
    world.act(cmd.LeaseDelivery, task_id, HOST, recipient=SPOKE, session=SESSIONS[SPOKE])
    world.act(cmd.BeginDelivery, task_id, HOST)
    world.refuses(ErrorCode.CONFLICT, cmd.ReportProgress, task_id, agent(SPOKE, door="spoke"), fence=old)
    world.act(cmd.ReportProgress, task_id, agent(SPOKE, door="spoke"), fence=world.task(task_id).fence)


def test_without_retry_what_never_began_fails_at_once(world: World) -> None:
    task_id = routed(world, retry="none")
    world.act(cmd.ReturnDelivery, task_id, HOST)
    assert world.place(task_id) == "failed/offline"


def test_a_late_begin_is_refused(world: World) -> None:
    task_id = routed(world)
    world.act(cmd.ReturnDelivery, task_id, HOST)
    world.refuses(ErrorCode.CONFLICT, cmd.BeginDelivery, task_id, HOST)


def test_a_spoke_neither_takes_nor_reviews_nor_coordinates(world: World) -> None:
    world.refuses(ErrorCode.DENIED, cmd.ClaimTask, world.ask(to=SPOKE, capability="Count"), SPOKE)
    world.refuses_ask(ErrorCode.INVALID, reviewer=SPOKE)
    with pytest.raises(Exception, match="cannot coordinate"):
        world.do(cmd.ChooseCoordinator(workspace_id=HOME, agent=SPOKE), ANN)


def test_only_a_person_joins_a_spoke_and_it_may_change_what_it_offers_itself(world: World) -> None:
    new = cmd.JoinAgent(agent_id="agt_new", alias="new", workspace=HOME, connection="spoke", offers=(Offer("Sum"),))
    with pytest.raises(Exception, match="Only a person"):
        world.do(new, ASKER)
    world.do(new, ANN)
    again = cmd.JoinAgent(agent_id="agt_new", alias="new", workspace=HOME, offers=(Offer("Mean"),))
    world.do(again, agent("agt_new", "ses_x"))
    assert world.directory.agents["agt_new"].capabilities == ("Mean",)


def test_a_returning_spoke_restores_what_was_doubted(world: World) -> None:
    task_id = begun(world, OTHER)
    world.act(cmd.DoubtDelivery, task_id, HOST)
    world.act(cmd.ClaimTask, task_id, agent(OTHER))
    assert not world.delivery(task_id).unverified
    world.refuses(ErrorCode.CONFLICT, cmd.ClaimTask, task_id, agent(OTHER))


def test_a_failure_goes_to_a_capability_as_its_compensation_and_the_original_is_routed_again(world: World) -> None:
    task_id = begun(world, on_failure="cap:Count")
    world.act(cmd.FailTask, task_id, HOST, code="invalid")
    assert (world.place(task_id), world.task(task_id).turn) == ("submitted/compensating", "cap:Count")
    world.act(cmd.RestartTask, task_id, HOST)
    assert (world.place(task_id), world.task(task_id).assignee) == ("submitted/new", "cap:Count")


def test_changes_that_a_reviewer_wants_go_to_any_holder(world: World) -> None:
    task_id = begun(world, reviewer=REVIEWER)
    world.act(cmd.HandInResult, task_id, agent(SPOKE, door="spoke"))
    assert link_of(world.work[task_id]).value == "CONFIRMED"
    world.act(cmd.RequestChanges, task_id, REVIEWER)
    assert world.task(task_id).assignee == world.delivery(task_id).recipient == "cap:Count"


# --- links ------------------------------------------------------------------------------------------------------


def test_the_table_of_links_is_that_of_the_page() -> None:
    assert {row.link.value: {link.value for link in row.next} for row in LINKS} == {
        link: set(after.split()) for link, after in oracle.LINKS.items()
    }


def test_links_go_from_idle_to_sunset(world: World) -> None:
    task_id = world.ask(to="cap:Count")
    seen = [link_of(world.work[task_id])]
    moves = [
        (cmd.LeaseDelivery, HOST, {"recipient": SPOKE, "session": SESSIONS[SPOKE]}),
        (cmd.BeginDelivery, HOST, {}),
        (cmd.HandInResult, agent(SPOKE, door="spoke"), {}),
        (cmd.SettleTrace, person(), {}),
    ]
    for kind, by, given in moves:
        world.act(kind, task_id, by, **given)
        seen.append(link_of(world.work[task_id]))
    assert [link.value for link in seen] == ["IDLE", "PROVISIONED", "REACHED", "CONFIRMED", "SUNSET"]


def test_a_message_is_suspected_after_its_stall_and_progress_begins_it_anew(world: World) -> None:
    deadline = world.now + 100
    task_id = begun(world, deadline_at=deadline, stall_seconds=30.0)
    world.now += 29
    assert not is_suspected(world.work[task_id], world.now)
    world.act(cmd.ReportProgress, task_id, agent(SPOKE, door="spoke"))
    world.now += 29
    assert not is_suspected(world.work[task_id], world.now)
    world.now += 1
    assert is_suspected(world.work[task_id], world.now)
    assert world.task(task_id).deadline_at == deadline, "progress does not extend it"


def test_what_was_not_begun_is_never_suspected(world: World) -> None:
    task_id = routed(world, deadline_at=world.now + 10)
    assert not is_suspected(world.work[task_id], world.now + 11)


def test_limits_are_those_of_the_page() -> None:
    limits = Limits()
    assert (limits.heartbeat_seconds, limits.suspect_seconds, limits.presence_seconds) == (15, 45, 120)
    assert (limits.anchor_queue, limits.anchor_seconds, limits.dispatch_parts) == (1000, 7 * 86400, 64)
    assert (limits.reach_bytes, limits.reach_seconds) == (262144, 30)
