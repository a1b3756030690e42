"""A driven task under every order of what its session, its requester, its host and a person do, and of crashes between.

What must hold whatever comes: one turn at a time; a delivery is handed over once unless it was proved that it never
arrived or a person said so; facts only grow; fences never go down; nothing works for ever; replay is the same as live.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tallystick.core import commands as cmd
from tallystick.core import fold
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.identity import HOST
from tallystick.core.limits import Limits
from tallystick.core.model import CheckOutcome, Spent, TaskState
from tallystick.core.state import Unchanged
from tallystick.core.task import next_duty, wanted
from tests import oracle
from tests.build import ANN, ASKER, CHECK, DRIVEN, SESSIONS, World, run

MINE = SESSIONS[DRIVEN]
LIMITS = Limits(rounds=50)
ORDER = list(oracle.WITNESSES)
WHO: dict[str, str] = {
    "ClaimTask": DRIVEN,
    "AskQuestion": DRIVEN,
    "HandInResult": DRIVEN,
    "ReportProgress": DRIVEN,
    "AnswerQuestion": ASKER,
    "CancelTask": ASKER,
    "DecidePermission": ANN,
    "SettleDoubt": ANN,
    "RequestChanges": ASKER,
    "ApproveResult": ASKER,
}
STEPS = (
    "LeaseDelivery StartTurn StartTurn StartTurn RecordDelivery ClaimTask ClaimTask AskQuestion AnswerQuestion "
    "HandInResult HandInResult EndTurn EndTurn NoteTurn DoubtDelivery ReturnDelivery BeginDelivery RecoverLease "
    "RequestPermission DecidePermission ReportCheck RequestChanges DoubtTask SettleDoubt CancelTask ConfirmCancel "
    "LapseLease ReportProgress"
).split()
PURPOSES = ("work", "changes", "answer", "refuted", "reminder", "resumed")
picks = st.tuples(st.sampled_from(STEPS), st.integers(0, 5), st.booleans())


class DrivenMachine(RuleBasedStateMachine):
    @initialize(checked=st.booleans())
    def begin(self, checked: bool) -> None:
        self.world = World(LIMITS)
        given = {"done_when": CHECK} if checked else {"reviewer": ""}
        self.task = self.world.ask(to=DRIVEN, **given)
        self.handed: dict[str, int] = {}
        """How often each delivery was handed over since it was last proved that it never arrived."""
        self.turn = 0

    @rule(plan=st.lists(picks, min_size=6, max_size=30))
    def go(self, plan: list[tuple[str, int, bool]]) -> None:
        for name, pick, flag in plan:
            self.attempt(name, pick, flag)
            self.judge()

    def filling(self, name: str, pick: int, flag: bool) -> dict[str, Any]:
        work = self.world.work[self.task]
        task = work.task
        self.turn += 1
        waiting = [p.permission_id for p in task.permissions if not p.decision]
        found: dict[str, dict[str, Any]] = {
            "LeaseDelivery": {"session": MINE, "intent_id": f"int_{self.turn}"},
            "StartTurn": {
                "turn_id": f"trn_{self.turn}",
                "purpose": wanted(work) or PURPOSES[pick],
                "lost": task.running if flag else "",
            },
            "NoteTurn": {"turn_id": task.running or "trn_none", "spent": Spent(tokens=pick)},
            "EndTurn": {"turn_id": task.running or "trn_none", "stop": "lost" if flag else "end_turn"},
            "RecordDelivery": {"witness": MINE},
            "BeginDelivery": {"witness": MINE},
            "RequestPermission": {"permission_id": f"prm_{self.turn}"},
            "DecidePermission": {"permission_id": waiting[0] if waiting else "prm_none"},
            "ReportCheck": {"run": run(CheckOutcome.FAILED if flag else CheckOutcome.PASSED)},
            "SettleDoubt": {"outcome": ("redo", "done", "failed", "cancel")[pick % 4]},
            "HandInResult": {"review_wanted": flag},
            "ReturnDelivery": {"retry_at": self.world.now},
        }
        return found.get(name, {})

    def attempt(self, name: str, pick: int, flag: bool) -> None:
        before = self.world.work[self.task]
        self.world.now += pick
        kind = getattr(cmd, name)
        command = self.world.command(kind, self.task, WHO.get(name, HOST.id), **self.filling(name, pick, flag))
        try:
            event = self.world.do(command, WHO.get(name, HOST.id))
        except Refused as refusal:
            assert refusal.code is not ErrorCode.INTERNAL, refusal  # noqa: PT017 - any other refusal is right
            return
        if isinstance(event, Unchanged):
            return
        after = self.world.work[self.task]
        assert after.task.fence >= before.task.fence
        if kind is cmd.StartTurn:
            assert not before.task.running or before.task.running == command.lost
            assert not before.task.cancel_requested_at
            if command.purpose in ("work", "changes"):
                self.hand_over(command.delivery_id)
        if kind is cmd.ReturnDelivery:
            assert not any(seen.fact.value == "recorded" for seen in self.of(before, command.delivery_id).facts)
            self.handed.pop(command.delivery_id, None)
        for old, new in zip(before.deliveries, after.deliveries, strict=False):
            facts = [seen.fact.value for seen in new.facts]
            assert facts == sorted(set(facts), key=ORDER.index)
            assert kind is cmd.ReturnDelivery or set(old.facts) <= set(new.facts)
            if not old.open:
                assert new == old

    def of(self, work: Any, delivery_id: str) -> Any:
        found = work.delivery(delivery_id)
        assert found is not None
        return found

    def hand_over(self, delivery_id: str) -> None:
        delivery = self.of(self.world.work[self.task], delivery_id)
        self.handed[delivery_id] = self.handed.get(delivery_id, 0) + 1
        assert delivery.intent == "intended", "only what was leased is handed over"
        assert self.handed[delivery_id] == 1, "nothing is handed over twice"

    def judge(self) -> None:
        work = self.world.work[self.task]
        task = work.task
        assert bool(task.turn) == task.open
        if task.state is TaskState.WORKING and not task.cancel_requested_at:
            assert next_duty(work, LIMITS) is not None, "nothing is working for ever"
        if work.assignment is not None and work.assignment.unverified and work.assignment.open:
            assert wanted(work) == "", "what is in doubt is not gone on with by itself"

    def teardown(self) -> None:
        if hasattr(self, "world"):
            again = None
            for record in self.world.log:
                if record.stream == self.task:
                    again = fold.evolve(again, record)
            assert again == self.world.work[self.task]


TestDrivenMachine = DrivenMachine.TestCase
TestDrivenMachine.settings = settings(
    max_examples=int(os.environ.get("MACHINE_EXAMPLES", "60")), stateful_step_count=6
)
