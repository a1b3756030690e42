"""What a spoke tells after the task has gone on without it: nobody else's work ends by it, and nothing is approved that
nobody approved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.app.desk import reach
from tallystick.core import commands as cmd
from tallystick.core.events import Text
from tallystick.core.identity import Actor, ActorKind, Prefix
from tallystick.core.offers import Offer
from tests.support.hub import Hub


async def begun(hub: Hub, **given: object) -> reach.Sailed:
    """A message that a spoke has begun, and will end when it is told to."""
    hub.spokes.answer, hub.spokes.is_deaf = hub.spokes.held, True
    await hub.spoke("counter", Offer("Count", concurrency=4))
    sailed = await hub.sail(**{"timeout_ms": 10**7, **given})
    await hub.until(lambda: sailed.task_id in hub.spokes.running)
    await hub.until(lambda: hub.place(sailed) == "working")
    return sailed


async def told(hub: Hub, sailed: reach.Sailed, outcome: str) -> None:
    """It ends, and whatever follows from that has followed."""
    delivery_id = hub.work(sailed.task_id).deliveries[0].delivery_id
    hub.spokes.ends(sailed.task_id, outcome, text="mine", detail="it broke")
    await hub.until(lambda: delivery_id in hub.spokes.settled_ids)


async def taken_by_a_person(hub: Hub, sailed: reach.Sailed) -> Actor:
    person = hub.guest().actor
    given = {"assignee": person.id, "delivery_id": hub.id(Prefix.DELIVERY)}
    await hub.executor.execute(cmd.ReassignTask(task_id=sailed.task_id, **given), person)
    await hub.executor.execute(cmd.ClaimTask(task_id=sailed.task_id), person)
    return person


@pytest.mark.parametrize("outcome", ["submitted", "failed"])
async def test_what_somebody_else_has_by_now_is_left_to_them(tmp_path: Path, outcome: str) -> None:
    async with Hub(tmp_path) as hub:
        sailed = await begun(hub)
        person = await taken_by_a_person(hub, sailed)
        await told(hub, sailed, outcome)
        task = hub.work(sailed.task_id).task
        assert (task.place, task.holder) == ("working", person.id)


@pytest.mark.parametrize("outcome", ["submitted", "failed"])
async def test_what_was_called_off_is_canceled_whatever_came_of_it(tmp_path: Path, outcome: str) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("mender", "Mend")
        sailed = await begun(hub, on_failure="cap:Mend")
        await hub.executor.execute(cmd.CancelTask(task_id=sailed.task_id), hub.guest().actor)
        await told(hub, sailed, outcome)
        await hub.pass_time(31)
        assert hub.place(sailed) == "canceled/by_requester"


@pytest.mark.parametrize("outcome", ["submitted", "failed"])
async def test_what_a_person_stopped_is_unverified_and_runs_no_second_time(tmp_path: Path, outcome: str) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("mender", "Mend")
        sailed = await begun(hub, on_failure="cap:Mend")
        person = hub.guest().actor
        await hub.executor.execute(cmd.SetHostMode(mode="stopped"), person)
        await told(hub, sailed, outcome)
        await hub.until(lambda: hub.place(sailed) == "input_required/unverified")
        await hub.executor.execute(cmd.SetHostMode(mode="running"), person)
        await hub.pass_time(100)
        assert hub.place(sailed) == "input_required/unverified"
        assert len(hub.spokes.sent) == 1


@pytest.mark.parametrize("outcome", ["submitted", "failed"])
async def test_what_is_to_be_done_again_is_not_ended_by_who_did_it_before(tmp_path: Path, outcome: str) -> None:
    async with Hub(tmp_path) as hub:
        sailed = await begun(hub)
        person = hub.guest().actor
        await hub.executor.execute(cmd.DoubtTask(task_id=sailed.task_id, detail="?"), Actor("host", ActorKind.HOST))
        redo = {"outcome": "redo", "delivery_id": hub.id(Prefix.DELIVERY), "text": Text(body="again")}
        await hub.executor.execute(cmd.SettleDoubt(task_id=sailed.task_id, **redo), person)
        await told(hub, sailed, outcome)
        assert hub.place(sailed) in ("submitted/rework", "working")


@pytest.mark.parametrize("ends_by", ["lease", "deadline"])
@pytest.mark.parametrize(("has", "does"), [("done", "resend"), ("running", "go_on")])
async def test_a_spoke_that_is_back_after_a_restart_and_a_question_to_a_person_is_heard(
    tmp_path: Path, ends_by: str, has: str, does: str
) -> None:
    async with Hub(tmp_path) as hub:
        sailed = await begun(hub, timeout_ms=20_000 if ends_by == "deadline" else 10**7)
        held = hub.holds(sailed.task_id, has)
        store, clock = hub.store, hub.manual
    async with Hub(tmp_path, store, clock) as hub:
        hub.spokes.answer = hub.spokes.held
        await hub.heads.work(sailed.task_id)
        await hub.pass_time(21 if ends_by == "deadline" else 300)
        assert hub.place(sailed) == "input_required/unverified"
        back = await hub.spoke("counter", Offer("Count", concurrency=4), process="2@2", held=(held,))
        assert [answer.do for answer in back.resume] == [does]
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        hub.spokes.ends(sailed.task_id, "submitted", text="at last")
        assert (await hub.outcome(sailed.task_id))[-1].payload == "at last"
        assert hub.place(sailed) == "completed/unreviewed"


async def test_a_result_that_comes_after_a_person_was_asked_is_reviewed_as_any_other(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.join("rvw")
        sailed = await begun(hub, review_by="@rvw")
        spoke = hub.heads.directory.named("counter")
        session = hub.spokes.session_of[spoke]
        hub.desk.lost(session, "1@1")
        hub.spokes.ends(sailed.task_id, "unverified", detail="the connection was lost")
        await hub.pass_time(300)
        assert hub.place(sailed) == "input_required/unverified"
        held = (hub.holds(sailed.task_id, "done"),)
        await hub.spoke("counter", Offer("Count", concurrency=4), process="2@2", held=held)
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        hub.spokes.ends(sailed.task_id, "submitted", text="at last")
        await hub.until(lambda: hub.place(sailed) == "input_required/review")
        (fact,) = [seen for seen in hub.work(sailed.task_id).deliveries[0].facts if seen.fact.value == "submitted"]
        assert fact.witness == session
