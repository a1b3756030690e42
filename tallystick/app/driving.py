"""What the host records of sessions that it drives: each call here is one command, on the word of the connection.

The protocol stands in the edge; whatever it witnesses comes in here, and the rules decide what it means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256

import msgspec

from tallystick.app.clock import HighWater
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.execute import Executor
from tallystick.app.heads import Heads
from tallystick.app.ports import NewId
from tallystick.app.presence import Presence
from tallystick.app.recording import until_recorded
from tallystick.app.words import Words
from tallystick.core import commands as cmd
from tallystick.core import events as ev
from tallystick.core.directory import Agent, SessionState
from tallystick.core.errors import Refused
from tallystick.core.identity import HOST, Actor, ActorKind, Assertion, Prefix
from tallystick.core.limits import Limits
from tallystick.core.model import Reason, Spent
from tallystick.core.route import is_stopped
from tallystick.core.state import Task, Work
from tallystick.core.task import is_held_back, may_resume
from tallystick.store.interface import Store

_CARRIED = {
    "TaskProgressed": "said how far it was",
    "QuestionAsked": "asked",
    "QuestionAnswered": "answered",
    "ResultHandedIn": "handed in",
    "ChangesRequested": "wanted changes",
    "TaskReassigned": "reassigned it",
    "TaskReleased": "gave it back",
    "TurnEnded": "said last",
}
"""Events whose words go with a task to another session, and what they are."""
_CARRIED_EACH, _CARRIED_ALL = 1500, 8 * 1024
DOOR = "acp"
"""The door of sessions that the host drives."""


_NOTHING = Spent()


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What runs in a session."""

    client: str
    version: str = ""
    protocol: int = 0
    mode: str = ""
    model: str = ""
    directory: str = ""
    level: str = "E1"
    detail: str = ""
    forks: bool = False


class Driving:
    """Records, and waits for what persons decide."""

    def __init__(
        self,
        store: Store,
        heads: Heads,
        executor: Executor,
        words: Words,
        presence: Presence,
        clock: HighWater,
        new_id: NewId,
        limits: Limits,
        diagnostics: Diagnostics,
    ) -> None:
        self._store = store
        self._heads = heads
        self._executor = executor
        self._words = words
        self._presence = presence
        self._clock = clock
        self.new_id = new_id
        self.limits = limits
        self.diagnostics = diagnostics
        self._asked: dict[str, asyncio.Future[str]] = {}
        """By permission: done with what was decided."""
        self._closing: dict[str, asyncio.Future[None]] = {}
        """By task: done when a part of it has ended."""
        self.modes_changed: Callable[[], None] = lambda: None
        """Told when a person stopped something, held it back or let it go on."""

    def now(self) -> float:
        """UTC seconds."""
        return self._clock.now()

    # --- sessions -----------------------------------------------------------------------------------------------

    def session(self, session_id: str) -> SessionState | None:
        """A session that is known and has not ended."""
        found = self._heads.directory.sessions.get(session_id)
        return found if found is not None and not found.ended else None

    def history_of(self, session_id: str) -> str:
        """The client's own id of the conversation of a session, also of one that has ended; empty for none."""
        found = self._heads.directory.sessions.get(session_id)
        return found.history if found is not None else ""

    def sessions(self, agent: Agent, workspace: str) -> list[SessionState]:
        """The driven sessions of an agent in a workspace that have not ended and that nobody holds back, oldest
        first."""
        directory = self._heads.directory
        mine = [directory.sessions[s] for s in directory.open_sessions.get(agent.agent_id, ())]
        return [s for s in mine if s.door == DOOR and s.workspace == workspace and s.mode == "running"]

    def is_stopped(self, session_id: str) -> bool:
        """Whether a person stopped it, its agent, its workspace or everything."""
        directory = self._heads.directory
        known = directory.sessions.get(session_id)
        return known is not None and is_stopped(known.agent, session_id, known.workspace, directory)

    async def opened(self, session_id: str, agent: Agent, workspace: str, parent: str = "") -> None:
        """A session begins; nothing where it is known."""
        if self.session(session_id) is None:
            command = cmd.OpenSession(
                session_id=session_id, agent=agent.agent_id, workspace=workspace, door=DOOR, parent=parent
            )
            await self._executor.execute(command, HOST, workspace=workspace)

    async def described(self, session_id: str, about: About) -> None:
        """What runs in it, with its versions and its level."""
        fields = msgspec.structs.asdict(about)
        await self._of_session(cmd.DescribeSession(session_id=session_id, **fields), session_id)

    async def linked(self, session_id: str, history: str) -> None:
        """The client's own id of its conversation."""
        await self._of_session(cmd.LinkSession(session_id=session_id, history=history), session_id)

    async def ended(self, session_id: str, detail: str) -> None:
        """It is over; its id is never used again."""
        await self._of_session(cmd.EndSession(session_id=session_id, detail=detail), session_id)

    async def _of_session(self, command: cmd.Command, session_id: str) -> None:
        known = self._heads.directory.sessions.get(session_id)
        await self._executor.execute(command, HOST, workspace=known.workspace if known else "")

    async def held(self, session_id: str) -> tuple[str, ...]:
        """The open tasks that a session holds."""
        return await self._heads.held.of(session_id)

    async def asked_by(self, task_id: str) -> str:
        """The session that asked for a task; empty where none did."""
        return (await self._store.load(task_id))[0].actor.session if task_id else ""

    def heard(self, session_id: str) -> None:
        """Its process lives."""
        self._presence.heard(session_id)

    def alias_of(self, party: str) -> str:
        """What a party is called."""
        return self._heads.directory.alias_of(party)

    # --- turns --------------------------------------------------------------------------------------------------

    async def work(self, task_id: str) -> Work | None:
        """The task with its deliveries, as it is now."""
        return await self._heads.work(task_id)

    async def parts(self, task_id: str) -> tuple[str, ...]:
        """The parts of a task, asked of others, that are open."""
        return await self._heads.children.of(task_id)

    async def part_ended(self, task_id: str, parts: tuple[str, ...]) -> None:
        """Until one of these parts of a task has ended."""
        while not set(parts) - set(await self.parts(task_id)):
            ended = self._closing.setdefault(task_id, asyncio.get_running_loop().create_future())
            await asyncio.shield(ended)

    def is_held_back(self, task: Task, session_id: str) -> bool:
        """Whether no prompt may go out about a task because a person said so."""
        directory = self._heads.directory
        agent = directory.agents.get(task.assignee)
        return agent is not None and is_held_back(task, agent, session_id, directory)

    def may_go_on(self, task: Task) -> bool:
        """Whether a session may go on with a turn that broke off; after a few times in a row somebody has to look."""
        return may_resume(task)

    async def newest(self, task: Task, kinds: tuple[str, ...]) -> str:
        """The body of the newest message of these kinds."""
        return await self._words.newest(task, kinds)

    async def before(self, task: Task) -> str:
        """What others did for a task that comes to its session anew: a brief that any client can go on with. The
        conversation itself never moves."""
        told: list[str] = []
        for recorded in await self._store.load(task.task_id):
            text = recorded.event.text.body if recorded.event.text else ""
            what = _CARRIED.get(type(recorded.event).__name__)
            if what and text.strip() and recorded.version > 1:
                told.append(f"{self.alias_of(recorded.actor.id)} {what}: {text.strip()[-_CARRIED_EACH:]}")
        if task.commit:
            told.append(f"commit handed in: {task.commit}")
        told += [f"check {run.check}: {run.outcome.value} {run.detail}".strip() for run in task.runs[-3:]]
        return "\n".join(told)[-_CARRIED_ALL:]

    async def started(self, work: Work, session_id: str, delivery_id: str, purpose: str) -> str:
        """Write down that a prompt is about to go out; the id of its turn. Refused where it may not."""
        task = work.task
        turn_id = self.new_id(Prefix.TURN)
        command = cmd.StartTurn(
            task_id=task.task_id,
            turn_id=turn_id,
            session=session_id,
            delivery_id=delivery_id,
            purpose=purpose,
            lost=task.running,
        )
        await self._executor.execute(command, HOST)
        return turn_id

    async def noted(self, task_id: str, turn_id: str, text: str, spent: Spent, updates: int) -> Work | None:
        """What a turn said and did since the last note; the task afterwards."""
        command = cmd.NoteTurn(task_id=task_id, turn_id=turn_id, text=ev.Text(body=text), spent=spent, updates=updates)
        return (await until_recorded(self._executor, command, HOST)).work

    async def over(
        self, task_id: str, turn_id: str, stop: str, text: str = "", spent: Spent = _NOTHING, detail: str = ""
    ) -> Work | None:
        """A turn has ended; the task afterwards."""
        words = ev.Text(body=text) if text else None
        command = cmd.EndTurn(task_id=task_id, turn_id=turn_id, stop=stop, text=words, spent=spent, detail=detail)
        return (await until_recorded(self._executor, command, HOST)).work

    async def recorded(self, task_id: str, delivery_id: str, session_id: str, proof: str) -> None:
        """The session's own history has what was handed over, or its turn has begun."""
        command = cmd.RecordDelivery(task_id=task_id, delivery_id=delivery_id, witness=session_id, proof=proof)
        await self._softly(command, HOST)

    async def doubted(self, task_id: str, delivery_id: str, detail: str) -> None:
        """It was dispatched, and nobody knows what became of it."""
        await self._softly(cmd.DoubtDelivery(task_id=task_id, delivery_id=delivery_id, detail=detail), HOST)

    # --- what the host does in a session's place ------------------------------------------------------------------

    async def asked_back(self, task: Task, delivery_id: str, session_id: str, text: str) -> bool:
        """Hand the turn to the requester: the session's turn ended without a result. True if it was handed."""
        if not task.holder:
            begun = cmd.BeginDelivery(
                task_id=task.task_id,
                delivery_id=delivery_id,
                witness=session_id,
                proof="inferred: its turn ended",
                evidence="auto",
            )
            await self._softly(begun, HOST)
        work = await self._heads.work(task.task_id)
        if work is None:
            return False
        question = cmd.AskQuestion(
            task_id=task.task_id,
            message_id=self.new_id(Prefix.MESSAGE),
            text=ev.Text(body=text),
            fence=work.task.fence,
        )
        return await self._softly(question, self._as_session(work.task))

    async def handed_on(self, task_id: str, named: str, text: str) -> str:
        """Give a task to whom a person named for this in its agent's own file; why not, where it cannot be."""
        party = self._heads.directory.named(named.removeprefix("@"))
        if party is None:
            return f"There is no @{named.removeprefix('@')}."
        command = cmd.ReassignTask(
            task_id=task_id, assignee=party, delivery_id=self.new_id(Prefix.DELIVERY), text=ev.Text(body=text)
        )
        try:
            await self._executor.execute(command, HOST)
        except Refused as refusal:
            return refusal.message
        return ""

    async def failed(self, task_id: str, text: str, why: Reason) -> None:
        """The host ends a task: its budget is used up."""
        await self._softly(cmd.FailTask(task_id=task_id, text=ev.Text(body=text), why=why), HOST)

    def _as_session(self, task: Task) -> Actor:
        return Actor(task.holder, ActorKind.AGENT, session=task.session, door=DOOR, assertion=Assertion.HOST)

    # --- permissions --------------------------------------------------------------------------------------------

    async def permission(self, task_id: str, action: str, exact: bytes, options: tuple[str, ...]) -> str:
        """Ask a person for one exact action, and wait: allow_once, reject_once, or canceled."""
        permission_id = self.new_id(Prefix.PERMISSION)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._asked[permission_id] = answer
        command = cmd.RequestPermission(
            task_id=task_id,
            permission_id=permission_id,
            action=action,
            digest=sha256(exact).hexdigest(),
            options=options,
        )
        try:
            await self._executor.execute(command, HOST)
            return await answer
        finally:
            self._asked.pop(permission_id, None)

    async def withdrawn(self, task_id: str) -> None:
        """Nobody waits for what was asked any more: denied, so that the task does not wait for it."""
        work = await self._heads.work(task_id)
        for asked in work.task.permissions if work is not None else ():
            if not asked.decision and work is not None and work.task.open:
                denied = cmd.DecidePermission(
                    task_id=task_id, permission_id=asked.permission_id, decision="reject_once"
                )
                await self._softly(denied, HOST)

    def committed(self, recorded: ev.Recorded) -> None:
        """An event of a task was committed: a permission may have been decided, or withdrawn with its task."""
        if self._closing:
            self._note_part(recorded.stream)
        if not self._asked:
            return
        event = recorded.event
        if isinstance(event, ev.PermissionDecided):
            self._answer(event.permission_id, event.decision)
            return
        work = self._heads.committed_work(recorded.stream)
        for asked in work.task.permissions if work is not None else ():
            if asked.decision:
                self._answer(asked.permission_id, asked.decision)

    def _note_part(self, task_id: str) -> None:
        """Whoever waits looks again; what is not in memory may be anybody's part."""
        work = self._heads.committed_work(task_id)
        if work is not None and work.task.open:
            return
        for parent in [work.task.parent] if work is not None else list(self._closing):
            waiting = self._closing.pop(parent, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

    def _answer(self, permission_id: str, decision: str) -> None:
        waiting = self._asked.get(permission_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(decision)

    # --- doing --------------------------------------------------------------------------------------------------

    async def _softly(self, command: cmd.Command, actor: Actor) -> bool:
        """Record it if the task is still where it applies. False, with a note, where it is not."""
        try:
            await self._executor.execute(command, actor)
        except Refused as refusal:
            self.diagnostics.record("driving refused", what=type(command).__name__, detail=str(refusal))
            return False
        return True
