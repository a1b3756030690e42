"""A small world to test the rules in: a cast, a log in memory, and one way to say who does what. No I/O, no clock."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tallystick.core import commands as cmd
from tallystick.core import decide as rules
from tallystick.core import directory as directories
from tallystick.core import events as ev
from tallystick.core import fold, places, project
from tallystick.core.directory import Directory
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.identity import HOST, Actor, ActorKind, Assertion, Prefix, make_id
from tallystick.core.limits import Limits
from tallystick.core.model import CheckOutcome, CheckRun, CheckSpec, Expects, Reason, TaskState
from tallystick.core.offers import Offer
from tallystick.core.rows import Row
from tallystick.core.state import Context, Delivery, Task, Unchanged, Work

START = 1_800_000_000.0
CHECK = CheckSpec(name="tests", argv=("pytest", "-q"))


def new_id(prefix: Prefix, number: int, at: float = START) -> str:
    """The same number gives the same id."""
    return make_id(prefix, int(at * 1000), number.to_bytes(10, "big"))


ANN = new_id(Prefix.PERSON, 1)
"""Owner of the host."""
BOB = new_id(Prefix.PERSON, 2)
ASKER = new_id(Prefix.AGENT, 11)
WORKER = new_id(Prefix.AGENT, 12)
REVIEWER = new_id(Prefix.AGENT, 13)
RUNNER = new_id(Prefix.AGENT, 14)
"""A command agent."""
SHY = new_id(Prefix.AGENT, 15)
"""Holds what others send."""
CLOSED = new_id(Prefix.AGENT, 16)
"""Refuses what others send."""
PAID = new_id(Prefix.AGENT, 17)
"""Its model has a provider that nobody allowed."""
STRANGER = new_id(Prefix.AGENT, 18)
"""Member of another workspace."""
HOME = new_id(Prefix.WORKSPACE, 21)
ELSEWHERE = new_id(Prefix.WORKSPACE, 22)
DRIVEN = new_id(Prefix.AGENT, 19)
"""The host drives its sessions."""
SPOKE = new_id(Prefix.AGENT, 20)
"""Takes messages for a capability, and may do each twice."""
OTHER = new_id(Prefix.AGENT, 23)
"""Another spoke with that capability, that may not do anything twice."""
AGENTS = {
    "asker": ASKER,
    "worker": WORKER,
    "reviewer": REVIEWER,
    "runner": RUNNER,
    "shy": SHY,
    "closed": CLOSED,
    "paid": PAID,
    "stranger": STRANGER,
    "driven": DRIVEN,
    "spoke": SPOKE,
    "other": OTHER,
}
SESSIONS = {agent: new_id(Prefix.SESSION, 30 + n) for n, agent in enumerate(AGENTS.values())}
SECOND = new_id(Prefix.SESSION, 50)
"""Another session of the worker."""

_GIVEN: dict[str, dict[str, Any]] = {
    "runner": {"connection": "command", "argv": ("run",), "seconds": 60},
    "spoke": {"connection": "spoke", "offers": (Offer("Count", idempotent=True),)},
    "other": {"connection": "spoke", "offers": (Offer("Count", "1.4"),)},
    "driven": {"connection": "drive", "client": "codex", "provider": "none"},
    "shy": {"inbound": "hold"},
    "closed": {"inbound": "refuse"},
    "paid": {"provider": "acme"},
}


def person(party: str = ANN) -> Actor:
    return Actor(party, ActorKind.PERSON, door="cli", assertion=Assertion.TERMINAL, uid=1000)


def agent(party: str, session: str = "", door: str = "mcp") -> Actor:
    return Actor(party, ActorKind.AGENT, session=session or SESSIONS.get(party, ""), door=door)


def actor_of(party: str | Actor) -> Actor:
    if isinstance(party, Actor):
        return party
    if party == HOST.id:
        return HOST
    return person(party) if party.startswith("per_") else agent(party)


def words(body: str = "some words") -> ev.Text:
    return ev.Text(body=body)


def run(outcome: CheckOutcome = CheckOutcome.PASSED, **given: Any) -> CheckRun:
    return CheckRun("tests", ("pytest", "-q"), outcome, **given)


class World:
    """The state of a host and its log. `do` is the write path of `app` in ten lines."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.now = START
        self.directory = Directory()
        self.work: dict[str, Work] = {}
        self.log: list[ev.Recorded] = []
        self.written: list[tuple[ev.Recorded, tuple[Row, ...]]] = []
        """Each event with the rows that were written with it."""
        self.rows: dict[tuple[Any, ...], Row] = {}
        self.notices: list[Row] = []
        self.count = 1000
        self._cast()

    def _cast(self) -> None:
        self.do(cmd.JoinPerson(person_id=ANN, alias="ann", owner=True, uid=1000), HOST)
        self.do(cmd.JoinPerson(person_id=BOB, alias="bob"), ANN)
        self.do(cmd.RegisterWorkspace(workspace_id=HOME, name="home", root="/home", repository="rep_1"), ANN)
        self.do(cmd.RegisterWorkspace(workspace_id=ELSEWHERE, name="elsewhere", root="/elsewhere"), ANN)
        for alias, party in AGENTS.items():
            given = _GIVEN.get(alias, {})
            place = ELSEWHERE if alias == "stranger" else HOME
            # A person's join would consent to the provider; nobody did for this one.
            by = HOST if alias != "paid" else agent(party)
            self.do(cmd.JoinAgent(agent_id=party, alias=alias, workspace=place, **given), by)
            self.do(
                cmd.OpenSession(session_id=SESSIONS[party], agent=party, workspace=place, door="mcp", incarnation="1"),
                HOST,
            )
        self.do(cmd.OpenSession(session_id=SECOND, agent=WORKER, workspace=HOME, door="mcp", incarnation="2"), HOST)

    # --- saying what happens ---

    def id(self, prefix: Prefix) -> str:
        self.count += 1
        return new_id(prefix, self.count, self.now)

    def context(self, command: Any, by: Actor, **given: Any) -> Context:
        """What `app` would fill in."""
        found: dict[str, Any] = {"now": self.now, "actor": by, "directory": self.directory, "limits": self.limits}
        task_id = getattr(command, "task_id", "")
        found["open_children"] = tuple(t.task_id for t in self.tasks() if t.parent == task_id and t.open)
        if isinstance(command, cmd.JoinAgent):
            found["in_hand"] = tuple(t for t, work in self.work.items() if work.is_pushed_to(command.agent_id))
        if isinstance(command, cmd.SubmitTask):
            held = [t.task_id for t in self.tasks() if t.open and t.holder == by.id and t.session == by.session]
            found["held"] = tuple(held) if by.kind is ActorKind.AGENT else ()
            parent = command.parent if command.parent is not None else held[0] if len(held) == 1 else ""
            found["ancestors"] = self._ancestors(parent)
            found["parent"] = found["ancestors"][0] if found["ancestors"] else None
            found["source"] = self.work[command.forwards].task if command.forwards else None
            found["siblings"] = sum(t.parent == parent and t.open for t in self.tasks()) if parent else 0
            found["duplicate"] = next(
                (t for t in self.tasks() if command.key and t.key == command.key and t.requester == by.id), None
            )
        return Context(**{**found, **given})

    def _ancestors(self, parent: str) -> tuple[Task, ...]:
        found: list[Task] = []
        while parent:
            found.append(self.work[parent].task)
            parent = found[-1].parent
        return tuple(found)

    def tasks(self) -> list[Task]:
        return [work.task for work in self.work.values()]

    def do(self, command: Any, by: str | Actor, **given: Any) -> Any:
        """Decide, record, fold, project. Returns the event, or `Unchanged`."""
        who = actor_of(by)
        task_id = getattr(command, "task_id", "")
        before = self.work.get(task_id)
        ctx = self.context(command, who, **given)
        event = rules.decide(before, command, ctx)
        if isinstance(event, Unchanged):
            return event
        stream = task_id or places.stream_of(command)
        version = before.task.version + 1 if before else 1
        if not task_id:
            version = self.directory.version_of(stream) + 1
        record = ev.Recorded(
            position=len(self.log) + 1,
            stream=stream,
            version=version,
            workspace=getattr(command, "workspace", "") or (before.task.workspace if before else ""),
            at=self.now,
            actor=who,
            subject=self.directory.owner_of(who.id),
            trace=getattr(command, "trace", "") or (before.task.trace if before else ""),
            key=getattr(command, "key", ""),
            event=event,
        )
        self.log.append(record)
        if task_id:
            after = fold.evolve(before, record)
            made = rules.make(before, command, ctx)
            assert not isinstance(made, Unchanged)
            assert made.work == after, "what is decided and what its event is folded to are the same"
            assert made.recorded == msgspec.structs.replace(record, position=0)
            self.work[task_id] = after
            self._keep(record, project.project(before, record, after, self.limits))
        else:
            old, self.directory = self.directory, directories.evolve(self.directory, record)
            self._keep(record, project.project_place(old, record, self.directory))
        return event

    def _keep(self, record: ev.Recorded, rows: tuple[Row, ...]) -> None:
        self.written.append((record, rows))
        for row in rows:
            key = (row.TABLE, *(getattr(row, name) for name in row.KEY))
            if row.TABLE == "notices" and key in self.rows and not hasattr(row, "kind"):
                row = msgspec.structs.replace(self.rows[key], unread=0)  # type: ignore[type-var]
            self.rows[key] = row

    # --- short forms ---

    def ask(self, by: str | Actor = ASKER, to: str = WORKER, **given: Any) -> str:
        """Submit a task; its id."""
        command = self.submit(to=to, **{k: v for k, v in given.items() if k not in _CONTEXT})
        answer = self.do(command, by, **{k: v for k, v in given.items() if k in _CONTEXT})
        return answer.task_id if isinstance(answer, Unchanged) else command.task_id

    def submit(self, to: str = WORKER, **given: Any) -> cmd.SubmitTask:
        found: dict[str, Any] = {
            "task_id": self.id(Prefix.TASK),
            "workspace": HOME,
            "trace": self.id(Prefix.TRACE),
            "delivery_id": self.id(Prefix.DELIVERY),
            "message_id": self.id(Prefix.MESSAGE),
            "text": ev.Text(title="Count the tests"),
            "assignee": to,
            "parent": "",
        }
        if given.get("expects") is Expects.CHANGE or given.get("done_when"):
            found |= {"repository": "rep_1", "base_commit": "b" * 40}
        return cmd.SubmitTask(**{**found, **given})

    def command(self, kind: type, task_id: str, by: str | Actor, **given: Any) -> Any:
        """A command with everything it needs filled in as a well-behaved caller would."""
        task = self.work[task_id].task
        fields = {f.name: f for f in msgspec.structs.fields(kind)}
        known: dict[str, Any] = {
            "delivery_id": self._delivery_id(kind, task_id),
            "message_id": self.id(Prefix.MESSAGE),
            "text": words(),
            "fence": task.fence,
            "revision": task.revision,
            "session": actor_of(by).session,
            **_DEFAULTS.get(kind, {}),
        }
        if kind is cmd.StartTurn:
            known["session"] = task.session
        found = {name: known[name] for name in known if name in fields}
        found |= {name: _TYPED[name](value) if name in _TYPED else value for name, value in given.items()}
        return kind(**{"task_id": task_id, **found})

    def _delivery_id(self, kind: type, task_id: str) -> str:
        pushes = (cmd.LeaseDelivery, cmd.BeginDelivery, cmd.ReturnDelivery, cmd.DoubtDelivery, cmd.StartTurn)
        if kind in (cmd.RecordDelivery, *pushes):
            assignment = self.work[task_id].assignment
            return assignment.delivery_id if assignment else ""
        return self.id(Prefix.DELIVERY)

    def act(self, kind: type, task_id: str, by: str | Actor, **given: Any) -> Any:
        """Do a command that is filled in by itself; context fields may be given too."""
        context = {k: given.pop(k) for k in tuple(given) if k in _CONTEXT}
        return self.do(self.command(kind, task_id, by, **given), by, **context)

    def refuses(self, code: ErrorCode, kind: type, task_id: str, by: str | Actor, **given: Any) -> Refused:
        """The same, and it must be refused with that code, with a remedy, and change nothing."""
        before, position = dict(self.work), len(self.log)
        with pytest.raises(Refused) as caught:
            self.act(kind, task_id, by, **given)
        check_refusal(caught.value, code)
        assert (self.work, len(self.log)) == (before, position)
        return caught.value

    def refuses_ask(self, code: ErrorCode, by: str | Actor = ASKER, **given: Any) -> Refused:
        """An ask that must be refused."""
        before = dict(self.work)
        with pytest.raises(Refused) as caught:
            self.ask(by, **given)
        check_refusal(caught.value, code)
        assert self.work == before
        return caught.value

    def task(self, task_id: str) -> Task:
        return self.work[task_id].task

    def place(self, task_id: str) -> str:
        return self.task(task_id).place

    def delivery(self, task_id: str, index: int = -1) -> Delivery:
        return self.work[task_id].deliveries[index]

    def facts(self, task_id: str, index: int = -1) -> list[tuple[str, str]]:
        return [(f.fact.value, f.witness) for f in self.delivery(task_id, index).facts]

    def table(self, name: str) -> list[Any]:
        return [row for key, row in self.rows.items() if key[0] == name]

    # --- tasks that got somewhere ---

    def taken(self, **given: Any) -> str:
        task_id = self.ask(**given)
        self.act(cmd.ClaimTask, task_id, WORKER)
        return task_id

    def asked_back(self, **given: Any) -> str:
        task_id = self.taken(**given)
        self.act(cmd.AskQuestion, task_id, WORKER)
        return task_id

    def in_review(self, **given: Any) -> str:
        task_id = self.taken(**given)
        self.act(cmd.HandInResult, task_id, WORKER, review_wanted=True)
        return task_id

    def in_rework(self, **given: Any) -> str:
        task_id = self.in_review(**given)
        self.act(cmd.RequestChanges, task_id, ASKER)
        return task_id

    def in_check(self, **given: Any) -> str:
        task_id = self.taken(done_when=CHECK, **given)
        self.act(cmd.HandInResult, task_id, WORKER)
        return task_id

    def leased(self, **given: Any) -> str:
        task_id = self.ask(to=RUNNER, **given)
        self.act(cmd.LeaseDelivery, task_id, HOST)
        return task_id

    def pushed(self, **given: Any) -> str:
        task_id = self.leased(**given)
        self.act(cmd.BeginDelivery, task_id, HOST)
        return task_id

    def doubted(self, **given: Any) -> str:
        task_id = self.pushed(**given)
        self.act(cmd.DoubtDelivery, task_id, HOST)
        self.act(cmd.DoubtTask, task_id, HOST)
        return task_id

    def prompted(self, **given: Any) -> str:
        """A task whose prompt is on its way to the session that the host drives."""
        task_id = self.ask(to=DRIVEN, **given)
        self.act(cmd.LeaseDelivery, task_id, HOST, session=SESSIONS[DRIVEN])
        self.act(cmd.StartTurn, task_id, HOST)
        return task_id

    def driven(self, **given: Any) -> str:
        """A task that the session has taken in its turn."""
        task_id = self.prompted(**given)
        self.act(cmd.RecordDelivery, task_id, HOST, witness=SESSIONS[DRIVEN])
        self.act(cmd.ClaimTask, task_id, DRIVEN)
        return task_id

    def compensating(self, **given: Any) -> str:
        task_id = self.taken(on_failure=REVIEWER, **given)
        self.act(cmd.FailTask, task_id, WORKER)
        return task_id

    def held_back(self) -> str:
        return self.ask(to=SHY)

    def asks_permission(self, **given: Any) -> str:
        task_id = self.taken(**given)
        self.act(cmd.RequestPermission, task_id, WORKER)
        return task_id

    def frozen(self, **given: Any) -> str:
        task_id = self.asked_back(**given)
        while self.task(task_id).rounds < self.limits.rounds:
            self.act(cmd.AnswerQuestion, task_id, ASKER)
            self.act(cmd.AskQuestion, task_id, WORKER)
        self.act(cmd.FreezeTask, task_id, HOST)
        return task_id

    def in_place(self, place: str) -> str:
        """A task brought to a place by the moves that lead there."""
        return _WAYS[place](self)


def check_refusal(refused: Refused, code: ErrorCode) -> None:
    assert refused.code is code, refused
    assert refused.message
    assert refused.remedy


_CONTEXT = frozenset(Context.__struct_fields__) - {"parent"}

_TYPED: dict[str, Any] = {"state": TaskState, "reason": Reason, "why": Reason}

_DEFAULTS: dict[type, dict[str, Any]] = {
    cmd.RequestPermission: {"permission_id": new_id(Prefix.PERMISSION, 1), "action": "run it", "digest": "d" * 64},
    cmd.DecidePermission: {"permission_id": new_id(Prefix.PERMISSION, 1), "decision": "allow_once"},
    cmd.ReportCheck: {"run": run()},
    cmd.ReassignTask: {"assignee": REVIEWER, "session": ""},
    cmd.ReleaseTask: {"note": "n1"},
    cmd.SettleDoubt: {"outcome": "done"},
    cmd.RestartTask: {"done": True},
    cmd.CorrectTask: {"state": TaskState.FAILED, "reason": Reason.ERROR},
    cmd.SetTaskMode: {"mode": "paused"},
    cmd.RecordDelivery: {"witness": "reader"},
    cmd.LeaseDelivery: {"session": SESSIONS[RUNNER], "intent_id": "int_1", "lease_seconds": 120.0},
    cmd.StartTurn: {"turn_id": "trn_1", "purpose": "work"},
    cmd.NoteTurn: {"turn_id": "trn_1"},
    cmd.EndTurn: {"turn_id": "trn_1", "stop": "end_turn"},
    cmd.BeginDelivery: {"witness": SESSIONS[RUNNER]},
    cmd.ReturnDelivery: {"retry_at": START + 2},
}


def _closed(kind: type, by: str, **given: Any) -> Any:
    def bring(world: World) -> str:
        task_id = world.ask()
        world.act(kind, task_id, by, **given)
        return task_id

    return bring


def _after(way: Any, kind: type, by: str, **given: Any) -> Any:
    def bring(world: World) -> str:
        task_id: str = way(world)
        world.act(kind, task_id, by, **given)
        return task_id

    return bring


def _expired(world: World) -> str:
    task_id = world.ask(deadline_at=world.now + 10)
    world.now += 11
    world.act(cmd.ExpireTask, task_id, HOST)
    return task_id


def _exhausted(world: World) -> str:
    task_id = world.compensating()
    world.act(cmd.RestartTask, task_id, HOST, done=False)
    world.act(cmd.RestartTask, task_id, HOST, done=False)
    return task_id


def _corrected(state: str, reason: str) -> Any:
    return _closed(cmd.CorrectTask, ANN, state=state, reason=reason)


_WAYS: dict[str, Any] = {
    "submitted/new": World.ask,
    "submitted/unassigned": lambda w: w.ask(to=""),
    "submitted/rework": World.in_rework,
    "submitted/compensating": World.compensating,
    "working": World.taken,
    "working/answered": _after(World.asked_back, cmd.AnswerQuestion, ASKER),
    "working/checking": World.in_check,
    "input_required/question": World.asked_back,
    "input_required/review": World.in_review,
    "input_required/frozen": World.frozen,
    "input_required/unverified": World.doubted,
    "auth_required/permission": World.asks_permission,
    "auth_required/inbound": World.held_back,
    "auth_required/grant": _corrected("auth_required", "grant"),
    "completed/approved": _after(World.in_review, cmd.ApproveResult, ASKER),
    "completed/verified": _after(World.in_check, cmd.ReportCheck, HOST.id),
    "completed/unreviewed": _after(World.taken, cmd.HandInResult, WORKER),
    "failed/error": _after(World.taken, cmd.FailTask, WORKER),
    "failed/refuted": _after(World.in_review, cmd.RefuseResult, ASKER),
    "failed/expired": _expired,
    "failed/budget": _closed(cmd.FailTask, HOST.id, why="budget"),
    "failed/no_route": _closed(cmd.FailTask, HOST.id, why="no_route"),
    "failed/offline": _closed(cmd.FailTask, HOST.id, why="offline"),
    "failed/exhausted": _exhausted,
    "canceled/by_requester": _closed(cmd.CancelTask, ASKER),
    "canceled/by_person": _closed(cmd.CancelTask, ANN),
    "rejected/by_agent": _closed(cmd.DeclineTask, WORKER),
    "rejected/by_policy": lambda w: w.ask(to=CLOSED),
    "rejected/by_person": _after(World.held_back, cmd.TurnAwayTask, ANN),
}
PLACES = tuple(_WAYS)
