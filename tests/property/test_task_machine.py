"""The task machine under every order of moves that hypothesis finds, judged by an oracle that does not read its table.

Guided: most steps are moves that the page on the model allows where the task is, by one who may; the rest is wild.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tallystick.core import commands as cmd
from tallystick.core import directory as directories
from tallystick.core import fold, project
from tallystick.core.directory import Directory
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.identity import HOST, Actor, Prefix
from tallystick.core.limits import Limits
from tallystick.core.link import link_of
from tallystick.core.model import CheckOutcome, Fact, Reason, TaskState
from tallystick.core.state import Unchanged, Work
from tallystick.core.task import DutyKind, next_duty
from tests import oracle
from tests.build import (
    ANN,
    ASKER,
    BOB,
    CHECK,
    CLOSED,
    OTHER,
    PLACES,
    REVIEWER,
    RUNNER,
    SECOND,
    SESSIONS,
    SHY,
    SPOKE,
    STRANGER,
    WORKER,
    World,
    actor_of,
    agent,
    run,
)

PARTIES = [ANN, BOB, ASKER, WORKER, REVIEWER, RUNNER, SHY]
CAP = "cap:Count"
ASSIGNEES = [WORKER, WORKER, RUNNER, RUNNER, CAP, CAP, REVIEWER, SHY, CLOSED, ANN, ""]
SPOKES = (SPOKE, OTHER)
PUSHED = (RUNNER, CAP, *SPOKES)
EVERYBODY = [*PARTIES, CLOSED, STRANGER, HOST.id]
KINDS = {kind.__name__: kind for kind in cmd.TaskCommands.__args__ if kind is not cmd.SubmitTask}
HOLDS = "working working/* input_required/question input_required/frozen auth_required/permission"
ORDER = list(oracle.WITNESSES)
LIMITS = Limits(rounds=4, open_children=2)
ACTIONS = (
    "step step step step step step step step step step step step step step wild wild wild more more dispatch dispatch "
    "race restart time_passes time_passes leave session_ends lose lose"
).split()
ASIDE = (
    "CorrectTask CancelTask FreezeTask MoveTurn SetTaskMode ReassignTask DeclineTask FailTask SettleTrace ExpireTask"
).split()
ONWARD = (
    "ClaimTask AskQuestion AnswerQuestion HandInResult ReportCheck ApproveResult RequestChanges AdmitTask "
    "DecidePermission SettleDoubt RestartTask LeaseDelivery BeginDelivery"
).split()
"""What brings a task on; the rest is tried too, less often."""
picks = st.integers(0, 9999)


class Shadow:
    """What the oracle knows of one task, from the commands that were accepted alone."""

    def __init__(self, requester: str, assignee: str, place: str) -> None:
        self.requester = requester
        self.assignee = assignee
        self.route = assignee if assignee == CAP else ""
        self.place = place
        self.holder = ""
        self.session = ""
        self.last_holder = ""
        self.in_flight = False
        self.in_doubt = False
        self.fence = 0
        self.fences: set[int] = set()
        self.cancel_asked = False
        self.interrupted = ""
        """Where it was when a permission was first asked for."""

    def follow(self, command: Any, by: Actor, after: str) -> None:
        kind = type(command)
        before, self.place = self.place, after
        if kind is cmd.RequestPermission and before != after:
            self.interrupted = before
        if kind is cmd.ClaimTask:
            self.holder, self.session = by.id, by.session
        elif kind is cmd.BeginDelivery:
            self.holder = self.assignee
            self.session = SESSIONS[self.assignee]
        elif kind is cmd.LeaseDelivery:
            self.assignee = command.recipient or self.assignee
        elif kind is cmd.ReassignTask:
            self.assignee = command.assignee
            self.route = self.assignee if self.assignee == CAP else ""
        elif kind is cmd.HandInResult and not self.holder:
            self.holder, self.session = by.id, by.session
            self.assignee = by.id if self.route else self.assignee
        self.last_holder = self.holder or self.last_holder
        self._let_go(kind, after)
        self._flight(kind, after)
        moved = before != after and kind is not cmd.DecidePermission  # that only goes on where it was
        nobodys = after.startswith("submitted/") or after == "auth_required/inbound"
        if self.route and nobodys and (kind in _ANEW or moved):
            self.assignee = self.route  # whoever had it has it no more: the host chooses anew
        if kind is cmd.CancelTask and before == after:
            self.cancel_asked = True
        if kind is cmd.CorrectTask and not oracle.is_open(before):
            self.cancel_asked = False

    def _let_go(self, kind: type, after: str) -> None:
        if kind in (cmd.ReassignTask, cmd.LapseLease) or (kind is cmd.SettleDoubt and after == "submitted/rework"):
            self.last_holder = ""
        if not oracle.matches(after, HOLDS) or (kind is cmd.CorrectTask and not after.startswith("working")):
            self.holder = self.session = ""

    def _flight(self, kind: type, after: str) -> None:
        if kind is cmd.LeaseDelivery:
            self.in_flight = True
        told = (cmd.ReturnDelivery, cmd.HandInResult, cmd.SettleDoubt, cmd.FailTask, cmd.ReleaseTask, cmd.ReassignTask)
        if kind in told or not oracle.is_open(after):
            self.in_flight = False
        if kind is cmd.AnswerQuestion and after == "submitted/rework":
            self.in_flight = False
        if kind is cmd.CorrectTask and not after.startswith("working") and after != "input_required/unverified":
            self.in_flight = False  # a person put it elsewhere
        if kind in (cmd.DoubtDelivery, cmd.DoubtTask) or after == "input_required/unverified":
            self.in_doubt = True
        if kind in (cmd.ClaimTask, cmd.StartTurn) or not self.in_flight:
            self.in_doubt = False  # whoever has it is there again, or what became of it was told


class TaskMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.world = World(LIMITS)
        self.shadows: dict[str, Shadow] = {}
        self.gone: set[str] = set()
        self.ask(ASKER, WORKER, bits=0, parent=0)
        self.ask(ANN, RUNNER, bits=2, parent=0)

    # --- choosing -------------------------------------------------------------------------------------------------

    def pick(self, pick: int, *, place: str = "*") -> str:
        found = [t for t, s in self.shadows.items() if oracle.matches(s.place, place)]
        return found[pick % len(found)] if found else ""

    def rightful(self, kind: str, task_id: str, pick: int) -> Actor:
        """One of those whom the page allows this move."""
        shadow = self.shadows[task_id]
        task = self.world.task(task_id)
        session = shadow.session if shadow.holder else ""
        by_role = {
            "assignee": shadow.assignee or WORKER,
            "holder": agent(shadow.holder, session) if shadow.holder.startswith("agt_") else shadow.holder,
            "last_holder": shadow.last_holder,
            "requester": shadow.requester,
            "reviewer": task.turn,
            "coordinator": ANN,
            "person": (ANN, BOB)[pick % 2],
            "host": HOST,
        }
        found = [by_role[role] for role in oracle.MOVES[kind][0].split() if by_role[role]]
        return actor_of(found[pick % len(found)]) if found else actor_of(ANN)

    def filling(self, kind: str, task_id: str, pick: int) -> dict[str, Any]:
        """What a command of that kind may carry besides what is filled in by itself."""
        outcomes = list(CheckOutcome)
        places = [p for p in PLACES if p != "auth_required/grant"]
        waiting = [p.permission_id for p in self.world.task(task_id).permissions if not p.decision]
        state, _, reason = places[pick % len(places)].partition("/")
        choices: dict[str, dict[str, Any]] = {
            "HandInResult": {"review_wanted": pick % 3 == 0},
            "ReportCheck": {"run": run(outcomes[pick % len(outcomes)])},
            "RequestPermission": {"permission_id": self.world.id(Prefix.PERMISSION)},
            "DecidePermission": {
                "permission_id": waiting[pick % len(waiting)] if waiting else "prm_none",
                "decision": ("allow_once", "reject_once")[pick // 4 % 2],
            },
            "ReassignTask": {"assignee": ASSIGNEES[pick % len(ASSIGNEES)]},
            "SettleDoubt": {"outcome": ("done", "failed", "redo", "cancel")[pick % 4]},
            "RestartTask": {"done": pick % 2 == 0},
            "CorrectTask": {
                "state": TaskState(state),
                "reason": Reason(reason),
                "delivery_id": self.world.id(Prefix.DELIVERY),
            },
            "SetTaskMode": {"mode": ("paused", "running", "running")[pick % 3]},
            "LeaseDelivery": self.leasing(task_id, pick),
            "StartTurn": {
                "turn_id": f"trn_{pick % 50}",
                "purpose": ("work", "answer", "reminder", "resumed", "refuted")[pick % 5],
                "lost": self.world.task(task_id).running if pick % 3 else "",
            },
            "NoteTurn": {"turn_id": self.world.task(task_id).running or "trn_none"},
            "EndTurn": {
                "turn_id": self.world.task(task_id).running or "trn_none",
                "stop": ("end_turn", "lost", "cancelled")[pick % 3],
            },
            "ReturnDelivery": {"retry_at": self.world.now + 2},
            "FailTask": {"why": Reason.ERROR},
        }
        return choices.get(kind, {})

    def leasing(self, task_id: str, pick: int) -> dict[str, Any]:
        """A holder of the capability is chosen where one is asked for; sometimes where it must not be."""
        if (self.shadows[task_id].assignee == CAP) is (pick % 16 != 0):
            chosen = SPOKES[pick % 2]
            return {"session": SESSIONS[chosen], "intent_id": f"int_{pick}", "recipient": chosen}
        return {"session": SESSIONS[RUNNER], "intent_id": f"int_{pick}"}

    # --- doing, and judging what was done -------------------------------------------------------------------------

    def attempt(self, command: Any, by: Actor) -> Any:
        """Try it; whatever is accepted must be what the page allows."""
        task_id = command.task_id
        before = self.world.work.get(task_id)
        position = len(self.world.log)
        try:
            event = self.world.do(command, by)
        except Refused as refused:
            answer = refused
        else:
            answer = None
        if answer is not None:
            assert answer.code is not ErrorCode.INTERNAL, answer
            assert answer.message
            assert answer.remedy
            assert len(self.world.log) == position
            assert self.world.work.get(task_id) is before
            return answer
        if isinstance(event, Unchanged):
            assert len(self.world.log) == position
            return event
        if before is not None:
            self.judge(command, by, before)
        return event

    def judge(self, command: Any, by: Actor, before: Work) -> None:
        name = type(command).__name__
        shadow = self.shadows[command.task_id]
        after = self.world.work[command.task_id]
        returned = name == "ClaimTask" and shadow.place.startswith("working")
        assert oracle.may_lead(name, shadow.place, after.task.place) or (
            returned and after.task.place == shadow.place and (shadow.holder, shadow.session) == (by.id, by.session)
        ), (name, shadow.place, after.task.place)
        self.judge_actor(name, command, by, shadow, before)
        self.judge_fence(command, by, shadow, before, after)
        self.judge_deliveries(command, by, shadow, before, after)
        links = (link_of(before).value, link_of(after).value)
        moved = links[0] == links[1] or links[1] in oracle.LINKS[links[0]].split()
        assert moved or name == "CorrectTask", (name, links)
        shadow.follow(command, by, after.task.place)
        if not after.task.open and (before.task.open or name == "CorrectTask"):
            self.judge_notice(by, after)

    def judge_actor(self, name: str, command: Any, by: Actor, shadow: Shadow, before: Work) -> None:
        roles = {
            "anyone": True,
            "requester": by.id == shadow.requester,
            "assignee": by.id == shadow.assignee,
            "holder": bool(shadow.holder) and by.id == shadow.holder and shadow.session in ("", by.session),
            "last_holder": not shadow.holder and bool(by.id) and by.id == shadow.last_holder,
            "reviewer": by.id == self.reviewer(shadow, before),
            "coordinator": False,
            "person": by.id.startswith("per_"),
            "host": by.id == HOST.id,
        }
        assert any(roles[role] for role in oracle.MOVES[name][0].split()), (name, by)
        if oracle.matches(shadow.place, oracle.PERSONS_ALONE.get(name, "")):
            assert roles["person"], (name, shadow.place)
        assert name != "ReassignTask" or not shadow.cancel_asked, "what is being canceled is not done again"
        assert by.id not in self.gone
        assert by.id != STRANGER
        if name in ("ApproveResult", "RequestChanges", "RefuseResult"):
            assert by.id != shadow.assignee, "the assignee never reviews"
            assert command.revision == before.task.revision
        if command.base is not None:
            assert command.base >= before.task.version
        if shadow.cancel_asked and by.id == shadow.holder and by.id != HOST.id:
            assert name in ("ReleaseTask", "CancelTask", "ClaimTask", "RecordDelivery", *_PERSONS), name

    def judge_fence(self, command: Any, by: Actor, shadow: Shadow, before: Work, after: Work) -> None:
        assert after.task.fence >= before.task.fence, "fences never go down"
        if isinstance(command, cmd.HolderCommand) and by.id != HOST.id and command.fence is not None:
            assert command.fence in (before.task.fence, before.task.fence_before), "a stale fence never writes"
            assert command.fence not in shadow.fences
        if isinstance(command, cmd.ClaimTask) and not shadow.holder:
            assert after.task.fence > before.task.fence
        if after.task.fence > before.task.fence and type(command) is not cmd.RecoverLease:
            shadow.fences.add(before.task.fence)
            if before.task.fence_before:
                shadow.fences.add(before.task.fence_before)

    def judge_deliveries(self, command: Any, by: Actor, shadow: Shadow, before: Work, after: Work) -> None:
        kind = type(command)
        assert len(after.deliveries) >= len(before.deliveries)
        for old, new in zip(before.deliveries, after.deliveries, strict=False):
            facts = [f.fact.value for f in new.facts]
            assert facts == sorted(set(facts), key=ORDER.index), facts
            if kind is cmd.ReturnDelivery and before.task.state is TaskState.WORKING:
                assert shadow.assignee == SPOKE, "only what may be done twice is given to another"
            if kind is cmd.ReturnDelivery and new.due_at:
                assert facts == ["accepted", "persisted"], "back to persisted: there was no dispatch after all"
            else:
                assert set(old.facts) <= set(new.facts), "facts only grow"
            if not old.open:
                assert new == old, "what ended stays as it ended"
            if old.unverified and "submitted" in facts and old.fact is not Fact.SUBMITTED:
                assert kind in (cmd.HandInResult, cmd.SettleDoubt), "only a reconciler or a person tells"
            for fact in set(new.facts) - set(old.facts):
                self.judge_witness(fact, command, by, shadow)
        fresh = [d for d in after.deliveries[len(before.deliveries) :] if d.kind != "answer"]
        assert len(fresh) <= 1
        if kind is cmd.LeaseDelivery:
            assert not shadow.in_flight, "nothing is pushed while the outcome of a push is open"
            assert not shadow.cancel_asked
        if fresh and shadow.in_doubt and not by.id.startswith("per_"):
            assert kind in _OWN_WORD, "who had it tells, or a person has it done again"
        if fresh and shadow.in_flight:
            assert kind in (*_TELLING, cmd.AnswerQuestion, cmd.CorrectTask), kind
            turn_over = before.task.state is TaskState.WORKING and not any(d.unverified for d in before.deliveries)
            assert by.id != HOST.id or kind is cmd.SettleDoubt or (kind is cmd.ReassignTask and turn_over)

    def judge_witness(self, fact: Any, command: Any, by: Actor, shadow: Shadow) -> None:
        who = oracle.WITNESSES[fact.fact.value]
        kind = type(command)
        if who == "host":
            assert fact.witness == "host"
        elif who == "policy":
            assert fact.witness == "policy"
            assert fact.evidence.startswith("rule ")
        elif fact.fact is Fact.SUBMITTED:
            assert kind in (cmd.HandInResult, cmd.SettleDoubt)
            assert fact.witness in (by.session, by.id)
        elif kind is cmd.LeaseDelivery:
            assert fact.witness == SESSIONS[command.recipient or RUNNER]
        elif kind is cmd.BeginDelivery:
            assert fact.witness == SESSIONS[RUNNER], "as told with the command"
        elif kind is not cmd.RecordDelivery:
            assert fact.witness in (by.session, by.id)
            assert by.id == shadow.assignee or (shadow.route and by.id == shadow.last_holder), "who had it took it back"

    def judge_notice(self, by: Actor, after: Work) -> None:
        task = after.task
        if by.id == task.requester:
            return
        row: Any = self.world.rows.get(("notices", task.task_id, task.requester))
        assert row is not None, "a terminal move is told to the requester"
        assert (row.version, row.unread) == (task.version, 1)

    # --- whose turn it is, from the page --------------------------------------------------------------------------

    def able(self, party: str, *, commands: bool = False) -> bool:
        if party in (ANN, BOB, CAP):
            return True
        return party in SESSIONS and party not in self.gone and (commands or party not in (RUNNER, *SPOKES))

    def owner(self, party: str) -> str:
        return party if party in (ANN, BOB) else ANN

    def fall_back(self, party: str, shadow: Shadow, *, commands: bool = False) -> str:
        for candidate in (party, shadow.requester):
            if self.able(candidate, commands=commands and candidate == party):
                return candidate
        return self.owner(shadow.requester)

    def reviewer(self, shadow: Shadow, work: Work) -> str:
        for candidate in (work.task.reviewer, shadow.requester, self.owner(shadow.requester), ANN):
            if candidate and candidate != shadow.assignee and self.able(candidate):
                return candidate
        return ANN

    def expected_turn(self, shadow: Shadow, work: Work) -> str:
        role = oracle.TURN.get(shadow.place, "")
        if role == "assignee":
            return self.fall_back(shadow.assignee, shadow, commands=True)
        if role == "requester":
            return self.fall_back(shadow.requester, shadow)
        if role == "compensator":
            return self.fall_back(work.task.on_failure, shadow, commands=True)
        if role == "reviewer":
            return self.reviewer(shadow, work)
        return self.owner(shadow.requester) if role else ""

    # --- rules ----------------------------------------------------------------------------------------------------

    @rule(plan=st.lists(st.tuples(st.sampled_from(ACTIONS), picks, picks, picks, picks), min_size=8, max_size=24))
    def go(self, plan: list[tuple[str, int, int, int, int]]) -> None:
        """A stretch of a day. One rule, so that every run does everything."""
        for action, *choices in plan:
            getattr(self, action)(*choices)
            self.judge_state()

    def more(self, by: int, to: int, bits: int, parent: int) -> None:
        self.ask(PARTIES[by % len(PARTIES)], ASSIGNEES[to % len(ASSIGNEES)], bits, parent)

    def ask(self, by: str, to: str, bits: int, parent: int) -> None:
        if len(self.shadows) >= 5:
            return
        given: dict[str, Any] = {}
        if bits & 1:
            given["done_when"] = CHECK
        if bits & 2:
            given["on_failure"] = REVIEWER
        if bits & 4:
            given["reviewer"] = (BOB, REVIEWER)[bits & 1]
        if bits & 8:
            given["deadline_at"] = self.world.now + 100
        if bits & 16 and self.shadows:
            given["parent"] = self.pick(parent)
        if bits & 32:
            given["key"] = f"k{bits & 3}"
        command = self.world.submit(to=to, **given)
        event = self.attempt(command, actor_of(by))
        if isinstance(event, Refused | Unchanged):
            return
        task = self.world.task(command.task_id)
        assert by not in self.gone
        assert task.depth <= LIMITS.depth
        assert oracle.may_lead("SubmitTask", "", task.place)
        assert not (given.get("reviewer") and given["reviewer"] == to)
        self.no_cycle(task.task_id)
        self.shadows[task.task_id] = Shadow(by, to, task.place)

    def no_cycle(self, task_id: str) -> None:
        task = self.world.task(task_id)
        above = task.parent
        while above and task.assignee not in ("", CAP):  # a capability waits for nothing, its holders do
            found = self.world.task(above)
            assert task.assignee not in (found.requester, found.assignee)
            above = found.parent

    def step(self, task: int, move: int, who: int, fill: int) -> None:
        """A move that the page allows here, by one who may."""
        task_id = self.pick(task, place=oracle.LIVE) or self.pick(task)
        place = self.shadows[task_id].place
        kinds = [k for k, (_, sources, _) in oracle.MOVES.items() if k in KINDS and oracle.matches(place, sources)]
        pushed = self.shadows[task_id].assignee in PUSHED
        useless = {"ClaimTask"} if pushed else {"LeaseDelivery"}
        useless |= {"LeaseDelivery"} if self.shadows[task_id].in_flight else {"BeginDelivery", "ReturnDelivery"}
        useless |= set() if self.shadows[task_id].cancel_asked else {"ConfirmCancel"}
        kinds = [k for k in kinds if k not in useless]
        if fill % 8:
            kinds = [k for k in kinds if k not in ASIDE] or kinds
        if fill % 3:
            kinds = [k for k in kinds if k in ONWARD] or kinds
        kind = kinds[move % len(kinds)]
        by = self.rightful(kind, task_id, who)
        self.attempt(self.world.command(KINDS[kind], task_id, by, **self.filling(kind, task_id, fill)), by)

    def wild(self, task: int, move: int, who: int, fill: int) -> None:
        """Any move, by anybody, with any fence and base."""
        party = EVERYBODY[who % len(EVERYBODY)]
        kind = sorted(KINDS)[move % len(KINDS)]
        off = (0, 0, -1, 1, -2)[fill % 5]
        base = (None, None, 0, -1, 1)[fill // 5 % 5]
        task_id = self.pick(task)
        by = agent(WORKER, SECOND) if party == WORKER and fill % 4 == 0 else actor_of(party)
        given = self.filling(kind, task_id, fill)
        now = self.world.task(task_id)
        if issubclass(KINDS[kind], cmd.HolderCommand):
            given["fence"] = now.fence + off
        if base is not None:
            given["base"] = now.version + base
        self.attempt(self.world.command(KINDS[kind], task_id, by, **given), by)

    def race(self, task: int, turn: int, _b: int, _c: int) -> None:
        """Several take it at once: one wins, and everybody else is told who."""
        task_id = self.pick(task, place="submitted/new") or self.pick(task)
        actors = [agent(WORKER), agent(WORKER, SECOND), actor_of(self.shadows[task_id].assignee or ANN)]
        wins = [self.take(task_id, actors[(n + turn) % 3]) for n in range(3)]
        assert sum(wins) <= 1

    def take(self, task_id: str, by: Actor) -> bool:
        answer = self.attempt(self.world.command(cmd.ClaimTask, task_id, by), by)
        return not isinstance(answer, Refused | Unchanged)

    def dispatch(self, task: int, how: int, _b: int, _c: int) -> None:
        """What `app` does for a command agent: write the intent ahead, then start it."""
        task_id = self.pick(task, place="submitted/new submitted/rework")
        if not task_id or self.shadows[task_id].assignee not in (RUNNER, CAP):
            return
        then = (cmd.BeginDelivery, cmd.BeginDelivery, cmd.ReturnDelivery)[how % 3]
        lease = self.world.command(cmd.LeaseDelivery, task_id, HOST, **self.leasing(task_id, how % 15 + 1))
        for command in (lease, self.world.command(then, task_id, HOST)):
            self.attempt(command, HOST)

    def lose(self, task: int, to: int, who: int, how: int) -> None:
        """What was pushed is lost sight of, and one who otherwise may reassign has it done by somebody else."""
        self.dispatch(task, how, 0, 0)
        self.restart()
        doubted = [t for t, s in self.shadows.items() if s.in_doubt and oracle.is_open(s.place)]
        if not doubted:
            return
        task_id = doubted[task % len(doubted)]
        if how % 2:
            self.attempt(self.world.command(cmd.DoubtTask, task_id, HOST), HOST)
        by = actor_of((self.shadows[task_id].requester, HOST, ANN)[who % 3])
        given = {"assignee": ASSIGNEES[to % len(ASSIGNEES)]}
        self.attempt(self.world.command(cmd.ReassignTask, task_id, by, **given), by)

    def restart(self, *_: int) -> None:
        """The host comes back: fences rise, what was in flight is unverified."""
        for task_id, shadow in self.shadows.items():
            held = shadow.holder
            if oracle.matches(shadow.place, oracle.MOVES["RecoverLease"][1]):
                answer = self.attempt(self.world.command(cmd.RecoverLease, task_id, HOST), HOST)
                assert not isinstance(answer, Refused)
            if shadow.in_flight and oracle.is_open(shadow.place):
                answer = self.attempt(self.world.command(cmd.DoubtDelivery, task_id, HOST), HOST)
                assert not isinstance(answer, Refused)
            assert shadow.holder == held, "a restart takes nothing away"

    def time_passes(self, seconds: int, *_: int) -> None:
        """What falls due is done; the rules never refuse what they themselves asked for."""
        self.world.now += (1.0, 10.0, 60.0, 500.0, 4000.0)[seconds % 5]
        for task_id in list(self.shadows):
            for _ in range(20):
                duty = next_duty(self.world.work[task_id], LIMITS)
                if duty is None or duty.at > self.world.now or duty.kind is DutyKind.CASCADE:
                    break
                answer = self.attempt(self.do_duty(task_id, duty.kind), HOST)
                assert not isinstance(answer, Refused | Unchanged), (duty, answer)
            else:
                raise AssertionError("a duty that is never done with")

    def do_duty(self, task_id: str, kind: DutyKind) -> Any:
        task = self.world.task(task_id)
        commands: dict[DutyKind, tuple[type, dict[str, Any]]] = {
            DutyKind.CONFIRM_CANCEL: (cmd.ConfirmCancel, {}),
            DutyKind.CHECK: (cmd.ReportCheck, {}),
            DutyKind.COMPENSATE: (cmd.RestartTask, {}),
            DutyKind.FREEZE: (cmd.FreezeTask, {}),
            DutyKind.LAPSE: (cmd.LapseLease, {}),
            DutyKind.DOUBT: (cmd.DoubtTask, {}),
            DutyKind.EXPIRE: (cmd.ExpireTask, {}),
        }
        if kind is DutyKind.PERMISSION:
            waiting = min((p for p in task.permissions if not p.decision), key=lambda p: p.requested_at)
            given = {"permission_id": waiting.permission_id, "decision": "reject_once"}
            return self.world.command(cmd.DecidePermission, task_id, HOST, **given)
        found, filled = commands[kind]
        return self.world.command(found, task_id, HOST, **filled)

    def leave(self, pick: int, rare: int, _b: int, _c: int) -> None:
        """An agent leaves for good; the turns it had move."""
        who = (REVIEWER, SHY, WORKER)[pick % 3]
        if who in self.gone or rare % 4 or len(self.gone) > 1:
            return
        self.world.do(cmd.LeaveAgent(agent_id=who), ANN)
        self.gone.add(who)
        for task_id, shadow in self.shadows.items():
            if oracle.is_open(shadow.place):
                self.attempt(self.world.command(cmd.MoveTurn, task_id, HOST), HOST)

    def session_ends(self, rare: int, *_: int) -> None:
        if not rare % 4:
            self.world.do(cmd.EndSession(session_id=SECOND), HOST)

    # --- always ---------------------------------------------------------------------------------------------------

    def judge_state(self) -> None:
        for task_id, shadow in self.shadows.items():
            work = self.world.work[task_id]
            assert work.task.place == shadow.place
            assert work.task.open == oracle.is_open(shadow.place)
            assert work.task.turn == self.expected_turn(shadow, work), shadow.place
            assert bool(work.task.turn) == work.task.open, "exactly one party has the turn of an open task"
            assert work.task.holder == shadow.holder, shadow.place
            assert (not shadow.holder) or oracle.matches(shadow.place, HOLDS)
            assert work.task.assignee == shadow.assignee, (shadow.place, work.task.assignee)
            assert link_of(work).value == self.expected_link(work, shadow), (shadow.place, link_of(work))
            if work.task.state is TaskState.WORKING and not shadow.holder.startswith("per_"):
                assert next_duty(work, LIMITS) is not None, "nothing is working for ever"

    def expected_link(self, work: Work, shadow: Shadow) -> str:
        facts = [f.fact.value for f in work.assignment.facts] if work.assignment else []
        return oracle.link(shadow.place, shadow.assignee, facts, work.task.settled, shadow.interrupted)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            replayed = replay(self.world)
            assert replayed[0] == self.world.directory
            assert replayed[1] == self.world.work
            assert replayed[2] == self.world.rows


_ANEW = (cmd.ReturnDelivery, cmd.CorrectTask)
"""What puts a task that waits for its holder out of its hands again."""
_TELLING = (cmd.SettleDoubt, cmd.ReassignTask, cmd.ReleaseTask)
_OWN_WORD = (cmd.SettleDoubt, cmd.ReleaseTask)
"""By a reconciler: whoever had it is back and tells, or gives it back itself."""
_PERSONS = (
    "AdmitTask",
    "AnswerQuestion",
    "CorrectTask",
    "DecidePermission",
    "EraseTexts",
    "ReassignTask",
    "SetTaskMode",
)


def replay(world: World) -> tuple[Directory, dict[str, Work], dict[Any, Any]]:
    """Everything once more, from the log alone."""
    fresh = World.__new__(World)
    fresh.rows, fresh.written = {}, []
    directory = Directory()
    work: dict[str, Work] = {}
    for record in world.log:
        if record.stream.startswith("tsk_"):
            before = work.get(record.stream)
            work[record.stream] = fold.evolve(before, record)
            fresh._keep(record, project.project(before, record, work[record.stream], world.limits))
        else:
            old, directory = directory, directories.evolve(directory, record)
            fresh._keep(record, project.project_place(old, record, directory))
    return directory, work, fresh.rows


TestTaskMachine = TaskMachine.TestCase
TestTaskMachine.settings = settings(
    max_examples=int(os.environ.get("MACHINE_EXAMPLES", "100")),
    stateful_step_count=6,
)
