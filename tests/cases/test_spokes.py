"""Reported failures that programs which offer capabilities meet too."""

from __future__ import annotations

import pytest

from tallystick.app.ports import Receipt
from tallystick.core.errors import ErrorCode, Refused
from tests.support.harbour import Harbour, end, open_gate
from tests.support.hosts import eventually
from tests.support.hub import Hub


@pytest.fixture
async def hub(tmp_path):
    async with Hub(tmp_path) as made:
        await made.spoke("counter", "Count")
        yield made


@pytest.fixture
def harbour():
    with Harbour(retry_seconds=[0.1] * 5) as made:
        made.revive()
        yield made


async def test_case_34_an_attempt_that_never_began_is_not_remembered_as_seen(hub):
    async def not_now(_envelope, _began):
        hub.spokes.answer = hub.spokes.done
        return Receipt(outcome="returned", detail="It is full.")

    hub.spokes.answer = not_now
    sailed = await hub.sail(key="k")
    await hub.until(lambda: hub.spokes.answer == hub.spokes.done, "the refusal")
    await hub.until(lambda: hub.work(sailed.task_id).task.assignee == "cap:Count")
    await hub.pass_time(3)
    assert (await hub.outcome(sailed.task_id))[-1].what == "result"
    assert len(hub.spokes.sent) == 2


async def test_case_39_a_handler_that_asks_for_the_very_same_gets_the_one_that_is_under_way(hub):
    found = []

    async def asks_again(envelope, began):
        found.append(await hub.sail(key="k"))
        return await hub.spokes.done(envelope, began)

    hub.spokes.answer = asks_again
    sailed = await hub.sail(key="k")
    await hub.outcome(sailed.task_id)
    assert [(again.task_id, again.duplicate) for again in found] == [(sailed.task_id, True)]
    assert len(hub.spokes.sent) == 1


async def test_case_50_a_capability_that_nobody_offers_is_refused_at_once_and_noted(hub):
    with pytest.raises(Refused) as refusal:
        await hub.sail("Absent")
    assert refusal.value.code is ErrorCode.NO_ROUTE
    assert hub.routing.waiting("Absent") == 0


def test_case_36_a_spoke_that_survives_its_host_is_found_again_and_reports_once(harbour):
    gate = harbour.gate("survives")
    call = harbour.ask("survives", gate=gate)
    eventually(lambda: harbour.done("survives"), "the handler")
    spoke = harbour.spoke.pid
    harbour.kill()
    harbour.revive()
    open_gate(gate)
    assert harbour.answer(call)["payload"] == "survives"
    assert (harbour.done("survives"), harbour.spoke.pid) == (1, spoke)


def test_case_54_an_effect_whose_process_died_is_unverified_and_not_done_again(harbour):
    gate = harbour.gate("dies")
    call = harbour.ask("dies", gate=gate)
    eventually(lambda: harbour.done("dies"), "the effect")
    end(harbour.spoke)
    harbour.revive()
    assert harbour.answer(call)["error"] == "unverified"
    assert harbour.answer(harbour.ask("dies", gate=gate))["error"] == "unverified"
    assert harbour.done("dies") == 1
