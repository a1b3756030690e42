"""Messages that fail: before they began, and put right by another capability."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tallystick.app.ports import Began, Envelope, Receipt
from tallystick.app.reaches import CODES
from tallystick.app.remedies import BY_CODE
from tallystick.core import commands as cmd
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.events import Text
from tallystick.core.identity import short
from tallystick.core.offers import Offer
from tests.support.hub import Hub


class Mending:
    """`Count` fails until `Mend` has run, and `Mend` may fail too."""

    def __init__(self, hub: Hub, *, mends: bool) -> None:
        self.hub, self.mends, self.is_mended = hub, mends, False
        self.notices: list[dict[str, object]] = []

    async def __call__(self, envelope: Envelope, began: Began) -> Receipt:
        await began("fake spoke", "BEGIN")
        if envelope.work.task.capability == "Mend":
            self.notices.append(json.loads(envelope.text.body))
            self.is_mended = self.mends
            return Receipt(outcome="submitted", text="true")
        if self.is_mended:
            return Receipt(outcome="submitted", text="1")
        return Receipt(outcome="failed", code="failed", detail="It is broken.")


async def test_a_capability_that_compensates_is_told_what_failed_why_and_what_it_was_given(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = mending = Mending(hub, mends=True)
        await hub.spoke("counter", "Count")
        await hub.spoke("mender", "Mend")
        sailed = await hub.sail(payload='{"n":1}', on_failure="cap:Mend")
        await hub.until(lambda: mending.notices, "the notice")
        told = (await hub.outcome(sailed.task_id))[-1]
        assert (told.what, told.payload) == ("result", "1")
        (notice,) = mending.notices
        assert (notice["task_id"], notice["capability"], notice["round"]) == (sailed.task_id, "Count", 1)
        assert (notice["message"], notice["payload"]) == ("It is broken.", {"n": 1})


async def test_a_failure_notice_reaches_a_capability_in_a_domain_that_its_sender_sees(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = mending = Mending(hub, mends=True)
        await hub.spoke("counter", "Count")
        await hub.spoke("mender", Offer("Mend", domain="data-team"))
        sailed = await hub.sail(on_failure="cap:Mend")
        assert (await hub.outcome(sailed.task_id))[-1].payload == "1"
        assert len(mending.notices) == 1


async def test_after_two_rounds_it_has_failed(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = mending = Mending(hub, mends=False)
        await hub.spoke("counter", "Count")
        await hub.spoke("mender", "Mend")
        sailed = await hub.sail(on_failure="cap:Mend")
        told = (await hub.outcome(sailed.task_id))[-1]
        assert (told.what, hub.work(sailed.task_id).task.place) == ("failed", "failed/exhausted")
        assert [notice["round"] for notice in mending.notices] == [1, 2]


async def test_who_asks_for_a_version_that_is_not_there_is_told_which_ones_it_may_see(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", Offer("Count", version="1.0"))
        with pytest.raises(Refused) as caught:
            await hub.sail("Count@1.2")
        assert caught.value.message == "Nobody here offers 'Count@1.2'. It is offered here as version 1.0."
        with pytest.raises(Refused) as other:
            await hub.sail("Count@1.2", guest=hub.guest(domains=("sales",)), domain="nowhere")
        assert "version" not in other.value.message


async def test_a_compensation_that_nobody_offers_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", "Count")
        with pytest.raises(Refused) as caught:
            await hub.sail(on_failure="cap:Nobody")
        assert (caught.value.code, "'Nobody'" in caught.value.message) == (ErrorCode.NO_ROUTE, True)
        assert not hub.spokes.sent


async def test_a_compensation_whose_holder_has_left_meanwhile_ends_with_the_words_of_the_failure(
    tmp_path: Path,
) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        await hub.spoke("counter", "Count")
        mender = await hub.spoke("mender", "Mend")
        sailed = await hub.sail(on_failure="cap:Mend")
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        leave = cmd.LeaveAgent(agent_id=mender.agent)
        await hub.executor.execute(leave, hub.guest().actor, workspace=hub.workspace)
        hub.spokes.ends(sailed.task_id, "failed", code="failed", detail="ValueError: 1")
        told = (await hub.outcome(sailed.task_id))[-1]
        assert (told.what, told.code) == ("failed", "failed")
        assert hub.work(sailed.task_id).task.place == "failed/exhausted"
        assert "ValueError: 1" in told.message
        assert "Nobody here offers 'Mend'." in told.message


async def test_what_is_refused_before_it_began_has_failed_with_the_words_and_the_code_of_who_refused(
    tmp_path: Path,
) -> None:
    async def refuses(_envelope: Envelope, _began: Began) -> Receipt:
        return Receipt(outcome="failed", code="invalid", detail="The payload has the wrong shape: $.n.")

    async with Hub(tmp_path) as hub:
        hub.spokes.answer = refuses
        await hub.spoke("counter", "Count")
        told = (await hub.outcome((await hub.sail()).task_id))[-1]
        assert (told.what, told.code, told.link) == ("failed", "invalid", "SUNSET")
        assert "The payload has the wrong shape: $.n." in told.message
        assert told.remedy.startswith("Correct what was sent")


@pytest.mark.parametrize(
    ("code", "wanted"),
    [("invalid", "the message speaks of the result"), ("failed", "the log of the spoke"), ("odd", "handler says")],
)
async def test_what_to_do_next_goes_by_what_went_wrong_and_names_the_task(
    tmp_path: Path, code: str, wanted: str
) -> None:
    async def fails(_envelope: Envelope, began: Began) -> Receipt:
        await began("fake spoke", "BEGIN")
        return Receipt(outcome="failed", code=code, detail="No.")

    async with Hub(tmp_path) as hub:
        hub.spokes.answer = fails
        await hub.spoke("counter", "Count")
        told = (await hub.outcome((await hub.sail()).task_id))[-1]
        assert (told.code, wanted in told.remedy) == (code, True)
        assert told.remedy.endswith(f"tally trace {short(told.task_id)}")


@pytest.mark.parametrize(
    ("given", "place", "wanted"),
    [
        ({}, "failed/refuted", "its handler is what is to be corrected"),
        ({"on_failure": "cap:Mend"}, "failed/exhausted", "so did what was to make it good"),
    ],
)
async def test_what_its_reviewer_refuses_is_told_as_invalid_however_many_rounds_there_were(
    tmp_path: Path, given: dict[str, str], place: str, wanted: str
) -> None:
    async with Hub(tmp_path) as hub:
        await hub.spoke("counter", "Count")
        await hub.spoke("mender", "Mend")
        sailed = await hub.sail(review_by="@owner", **given)
        while hub.work(sailed.task_id).task.open:
            await hub.until(lambda: _is_for_review(hub, sailed.task_id) or not hub.work(sailed.task_id).task.open)
            if _is_for_review(hub, sailed.task_id):
                revision = hub.work(sailed.task_id).task.revision
                refuse = cmd.RefuseResult(task_id=sailed.task_id, revision=revision, text=Text(body="Not that."))
                await hub.executor.execute(refuse, hub.guest().actor)
        told = (await hub.outcome(sailed.task_id))[-1]
        assert (hub.work(sailed.task_id).task.place, told.code) == (place, "invalid")
        assert wanted in told.remedy


def _is_for_review(hub: Hub, task_id: str) -> bool:
    return hub.work(task_id).task.place == "input_required/review"


async def test_the_list_of_what_failed_says_why(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = Mending(hub, mends=False)
        await hub.spoke("counter", "Count")
        await hub.reaches_()
        (task,) = (await hub.desk.s.views.failed(lambda _: True)).tasks
        assert task.why == "It is broken."


async def test_the_list_of_what_failed_says_why_also_of_what_came_too_late(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        await hub.spoke("counter", "Count")
        sailed = await hub.sail(timeout_ms=15_000)
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        await hub.pass_time(15)
        (task,) = (await hub.desk.s.views.failed(lambda _: True)).tasks
        assert (hub.work(sailed.task_id).task.place, task.why) == (
            "failed/expired",
            "Its time was over before it had a result.",
        )


def test_every_code_that_a_place_is_told_as_has_a_remedy() -> None:
    assert {*CODES.values(), "canceled", "denied"} <= BY_CODE.keys()


async def test_what_is_in_doubt_is_not_to_be_sent_again_and_the_command_that_settles_it_is_whole(
    tmp_path: Path,
) -> None:
    async with Hub(tmp_path) as hub:
        hub.spokes.answer = hub.spokes.held
        spoke = await hub.spoke("counter", "Count")
        sailed = await hub.sail(timeout_ms=20_000)
        await hub.until(lambda: sailed.task_id in hub.spokes.running)
        await hub.loses(spoke, sailed)
        await hub.pass_time(21)
        told = [told async for told in hub.told(sailed.task_id, "unverified")][-1]
        assert told.remedy.startswith("Do not send it again unseen.")
        assert "If its spoke is away" in told.remedy, "one that is there has said what it knows"
        assert f"tally verify {short(sailed.task_id)} --settle done|failed|redo|cancel TEXT" in told.remedy


async def test_whom_a_person_drains_is_shown_as_draining_and_gets_nothing_new(tmp_path: Path) -> None:
    async with Hub(tmp_path) as hub:
        anchored = await hub.spoke("counter", "Count")
        drain = cmd.SetAgentMode(agent_id=anchored.agent, mode="draining")
        await hub.executor.execute(drain, hub.guest().actor, workspace=hub.workspace)
        agent = hub.heads.directory.agents[anchored.agent]
        assert hub.routing.status(agent) == "draining"
