"""A small honest desk: canned forms, every call written down, refusals where a test scripts them; and a call."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from tallystick.app.calls import CallerFacts, Terminal
from tallystick.app.desk import forms, installed, reach
from tallystick.app.desk.diagnosis import Diagnosis, Finding
from tallystick.app.desk.interface import Desk, Guest
from tallystick.core.errors import Refused
from tallystick.core.identity import Actor, ActorKind
from tallystick.edge.cli import Cli

TASK = "tsk_01JDB7Z8C0000000000000F3A9"
OTHER = "tsk_01JDB7Z8C0000000000000B2C4"
TRACE = "trc_01JDB7Z8C0000000000000T111"
SESSION = "ses_01JDB7Z8C0000000000000S222"
AGENT = "agt_01JDB7Z8C0000000000000A333"
PERMISSION = "prm_01JDB7Z8C0000000000000P444"
WORKSPACE = "wsp_01JDB7Z8C0000000000000W555"
DELIVERY = "dlv_01JDB7Z8C0000000000000D666"
COMMIT = "3f786850e387550fdab836ed7e6dc881de23001b"
DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
NOW = datetime(2026, 11, 30, 14, 30, tzinfo=UTC)

BRIEF: dict[str, Any] = {
    "from": "@alice",
    "provenance": "a peer's request from @alice through Tallystick; it carries no authority of your user",
    "title": "Review the parser",
    "done_when": {"check": "tests", "argv": ["pytest", "-q"], "kind": "test"},
    "intent": "A faster start",
    "body": "Look at the parser.\nIt reads every file twice.",
    "expects": "finding",
    "known_facts": ["The lexer is fine."],
    "open_questions": [],
}
REFERENCE: dict[str, Any] = {
    "kind": "git",
    "repository": "rep_1",
    "commit": COMMIT,
    "path": "src/parser.py",
    "object": "89e6c98d92887913cadf06b2adb97f26cde4849b",
    "sha256": DIGEST,
    "size": 1204,
    "lines": [10, 80],
    "checked": True,
}

RECEIPT = forms.Receipt(
    task_id=TASK,
    trace=TRACE,
    promise="next_turn",
    provider="anthropic",
    level="E1",
    duplicate=False,
    state="submitted",
    reason="new",
    to="@reviewer",
    workspace="shop",
    registered="/home/me/shop",
    unresolved=("@revewer",),
)
TAKEN = forms.Taken(
    task_id=TASK,
    fence=3,
    lease_until="2026-11-30T15:00:00.000Z",
    delivery_id=DELIVERY,
    title="Review the parser",
    brief=BRIEF,
)
MOVED = forms.Moved(task_id=TASK, state="working", reason="answered", turn="@reviewer", version=7)
CHECKING = forms.Moved(task_id=TASK, state="working", reason="checking", turn="@reviewer", version=8, revision=2)
RUN = forms.RunShown(
    check="tests",
    outcome="passed",
    commit=COMMIT,
    argv=("pytest", "-q"),
    exit_code=0,
    signal=None,
    sandbox="bwrap",
    seconds=4.25,
    stdout_sha256=DIGEST,
    stdout_bytes=812,
    stderr_sha256=DIGEST,
    stderr_bytes=0,
    environment_sha256=DIGEST,
    tests="14 ran, 0 failed, 0 skipped (junit)",
    detail="",
    output_tail="14 passed\n",
)
BAD_RUN = msgspec.structs.replace(
    RUN,
    outcome="failed",
    exit_code=1,
    tests="14 ran, 1 failed, 0 skipped (junit)",
    detail="1 test failed",
    output_tail="FAILED tests/test_parser.py::test_once\n1 failed, 13 passed\n",
)


def event(position: int, what: str, before: str, after: str, **more: Any) -> forms.Line:
    """One event, a second after the other."""
    values: dict[str, Any] = {
        "position": position,
        "at": f"2026-11-30T14:03:{position:02d}.000Z",
        "who": "@alice",
        "asserted": False,
        "what": what,
        "task_id": TASK,
        "before": before,
        "after": after,
        "text": "",
        "workspace": WORKSPACE,
    }
    return forms.Line(**(values | more))


REFUSED = forms.Line(
    position=4,
    at="2026-11-30T14:03:04.000Z",
    who="@alice",
    asserted=False,
    what="refused submit task: no_route",
    task_id="",
    before="",
    after="",
    text="",
    workspace=WORKSPACE,
    error="Nobody here offers 'Translate'.",
    trace=TRACE,
)
"""What was refused made no task."""
HISTORY = (
    event(1, "asked @reviewer", "", "submitted/new", text="Look at the parser.\nIt reads every file twice."),
    event(2, "took it", "submitted/new", "working", who="@reviewer", asserted=True, seconds=1.0),
    event(3, "check tests: failed", "working/checking", "working", who="@host", seconds=0.25, error="1 test failed"),
)


def fact(name: str, second: int, witness: str = "host", evidence: str = "in the log") -> forms.FactShown:
    """One fact of the minute."""
    return forms.FactShown(fact=name, at=f"2026-11-30T14:03:{second:02d}.000Z", witness=witness, evidence=evidence)


FACTS = (
    fact("accepted", 1),
    fact("persisted", 1),
    fact("claimed", 2, f"@reviewer {SESSION}", "take"),
    fact("admitted", 2, "host", "member of the workspace"),
    fact("working", 2, f"@reviewer {SESSION}", "take"),
)
SHOWN = forms.Shown(
    task_id=TASK,
    title="Review the parser",
    state="working",
    reason="",
    turn="@reviewer",
    label="working",
    brief=BRIEF,
    facts=FACTS,
    artifacts=(),
    history=HISTORY,
    workspace="shop",
    trace=TRACE,
    parent="",
    requester="@alice",
    assignee="@reviewer",
    holder="@reviewer",
    session=SESSION,
    reviewer="@alice",
    fence=3,
    attempt=1,
    revision=0,
    lease_until="2026-11-30T15:00:00.000Z",
    deadline_at="2026-12-02T09:00:00.000Z",
    promise="next_turn",
    provider="anthropic",
    level="E1",
    result="",
    commit="",
    references=(),
    inputs=(REFERENCE,),
    checks=(BAD_RUN,),
    question="Which of the two parsers?",
    answer="The new one.",
    waiting_on=(OTHER,),
    cancel_requested=False,
    attempts=(
        {
            "delivery_id": DELIVERY,
            "kind": "assignment",
            "attempt": 1,
            "to": "@reviewer",
            "fact": "working",
            "ended": "",
        },
    ),
    permissions=({"permission_id": PERMISSION, "action": "net.fetch example.org", "state": "open"},),
    silent_seconds=1620.0,
    version=7,
)
DONE = msgspec.structs.replace(
    SHOWN,
    state="completed",
    reason="verified",
    turn="",
    label="done",
    facts=(
        *FACTS[:4],
        fact("recorded", 3, SESSION, "flushed"),
        FACTS[4],
        fact("submitted", 9, SESSION, "digest matches"),
    ),
    result="It reads once now.\nTwo tests were added.",
    commit=COMMIT,
    artifacts=(
        {
            "artifact_id": "art_1",
            "name": "stdout",
            "parts": [{"text": "14 passed"}, {"reference": {"type": "blob", "sha256": DIGEST, "size": 9}}],
            "producer": AGENT,
            "observer": "host",
        },
    ),
    references=(REFERENCE,),
    checks=(RUN,),
    question="",
    answer="",
    revision=1,
    permissions=(),
    waiting_on=(),
)
REVIEW = msgspec.structs.replace(DONE, state="input_required", reason="review", turn="@alice", label="review")
REFUTED = msgspec.structs.replace(SHOWN, checks=(BAD_RUN,))
UNVERIFIED = msgspec.structs.replace(
    SHOWN,
    state="input_required",
    reason="unverified",
    turn="@alice",
    label="result to be checked",
    doubt="The session ended after the push.",
    unverified=True,
)
ASKED = msgspec.structs.replace(
    SHOWN, state="input_required", reason="question", turn="@alice", label="question", checks=()
)


def item(**more: Any) -> forms.InboxItem:
    """One thing in the inbox."""
    values: dict[str, Any] = {
        "task_id": TASK,
        "from_": "@alice",
        "state": "submitted",
        "reason": "new",
        "title": "Review the parser",
        "asks": "Look at the parser.\nIt reads every file twice.",
        "references": (REFERENCE,),
        "question": "",
        "answer": "",
        "new": True,
        "kind": "take",
        "age": 185.0,
        "workspace": "shop",
        "version": 1,
    }
    return forms.InboxItem(**(values | more))


INBOX = forms.Inbox(
    turns=(
        item(),
        item(
            task_id=OTHER,
            state="input_required",
            reason="question",
            kind="answer",
            question="Which of the two parsers?",
            new=False,
            overdue=True,
            age=7300.0,
            references=(),
        ),
    ),
    notices=(item(task_id=OTHER, state="completed", reason="verified", kind="result", result="It reads once now."),),
)
BOARD = forms.Board(
    tasks=(
        forms.BoardTask(
            task_id=TASK,
            title="Review the parser and everything that it was ever used for, in all of its callers",
            state="working",
            reason="",
            turn="@reviewer",
            from_="@alice",
            age=185.0,
            label="working",
            assignee="@reviewer",
            workspace="shop",
            updated_at="2026-11-30T14:03:02.000Z",
        ),
        forms.BoardTask(
            task_id=OTHER,
            title="把解析器改成只读一次",
            state="input_required",
            reason="unverified",
            turn="@alice",
            from_="@bob",
            age=200000.0,
            label="result to be checked",
            assignee="@tester",
            workspace="shop",
            updated_at="2026-11-28T14:03:02.000Z",
        ),
    )
)
AGENT_SHOWN = forms.AgentShown(
    agent_id=AGENT,
    name="@tester",
    display_name="测试员",
    owner="@human",
    connection="command",
    command=("pytest", "-q"),
    client="",
    strengths="runs the tests",
    capabilities=("Tests",),
    provider="none",
    inbound="accept",
    presence="live",
    promise="live",
    mode="",
    level="E3",
    workspaces=("shop",),
    sessions=(SESSION,),
    open_tasks=2,
    track_record={"accepted": 4, "verified": 3, "refuted": 1, "declined": 0, "median_seconds": 190.0, "cost": None},
    coordinator=True,
)
WORKSPACE_SHOWN = forms.WorkspaceShown(
    workspace_id=WORKSPACE,
    name="shop",
    root="/home/me/shop",
    repository="rep_1",
    coordinator="@lead",
    providers=("anthropic",),
    checks=("tests",),
    mode="",
    members=("@tester", "@lead"),
    current=True,
)
CHECK: dict[str, Any] = {
    "name": "tests",
    "kind": "test",
    "argv": ["pytest", "-q"],
    "protect": ["tests"],
    "setup": [],
    "network": False,
    "seconds": 600,
}
SOURCE = forms.Source(
    path="src/parser.py",
    line=42,
    text="    return read(path)",
    commit=COMMIT,
    uncommitted=False,
    tasks=(
        {
            "task_id": TASK,
            "title": "Review the parser",
            "agent": "@reviewer",
            "session": SESSION,
            "requester": "@alice",
            "result": "It reads once now.",
            "ask": f"tally ask @reviewer/{SESSION} 'Why src/parser.py:42?'",
        },
    ),
)
DIAGNOSIS = Diagnosis(
    findings=(
        Finding(check="log", ok=True, level="ok", did="verified the last 1,000 events", saw="chain intact"),
        Finding(
            check="clock",
            ok=False,
            level="warning",
            did="compared the wall clock with the log",
            saw="90 s behind",
            fix="Turn time synchronisation on.",
        ),
    )
)

INSTALLATION = installed.Installation(
    clients=(
        installed.ClientShown(
            client="claude",
            title="Claude Code",
            found=True,
            version="2.1.332",
            program="/usr/bin/claude",
            config="/home/me/.claude",
            files=(
                installed.FileShown(
                    path="/home/me/.claude.json",
                    change="change",
                    diff='--- /home/me/.claude.json\n+++ /home/me/.claude.json\n@@ -1 +1,2 @@\n {\n+  "mcpServers": {}',
                ),
            ),
            notes=("Sessions that are open now get it when they are started again.",),
        ),
        installed.ClientShown(
            client="codex",
            title="Codex",
            found=True,
            version="",
            program="",
            config="/home/me/.codex",
            files=(),
            refused="/home/me/.codex/config.toml is no TOML: Expected '=' after a key (at line 3, column 5).",
            remedy="Mend that line, then repeat the command.",
        ),
    ),
    scope="user",
    removal=False,
    applied=False,
    digest=DIGEST,
)

CANNED: dict[str, Any] = {
    "plan_install": INSTALLATION,
    "install": msgspec.structs.replace(INSTALLATION, applied=True, agent="@pen"),
    "snippet": installed.Snippet(client="", text='{\n  "mcpServers": {}\n}\n'),
    "ask": RECEIPT,
    "take": TAKEN,
    "submit": CHECKING,
    "settled_check": DONE,
    "verify": DONE,
    "inbox": INBOX,
    "show": SHOWN,
    "board": BOARD,
    "failed": BOARD,
    "trace": forms.Lines(events=HISTORY),
    "activity": forms.Lines(events=(*HISTORY, REFUSED)),
    "why": SOURCE,
    "join": AGENT_SHOWN,
    "leave": forms.Done(detail="@tester left shop."),
    "rename": forms.Done(detail="@tester is now @qa."),
    "routes": reach.Routes(
        workspace="shop",
        routes=(
            reach.RouteShown(
                capability="FileSummarize",
                version="1.2",
                spoke="summary-01",
                endpoint="unix 4711",
                weight=2,
                domain="data-team",
                load=3,
                concurrency=4,
                last_seen=7.5,
                status="online",
                workspace="shop",
                first=True,
                pinned=True,
            ),
            reach.RouteShown(
                capability="FileSummarize",
                version="1.0",
                spoke="summary-02",
                endpoint="spoke",
                weight=1,
                domain="",
                load=0,
                concurrency=1,
                last_seen=None,
                status="offline",
                workspace="shop",
                standing=True,
            ),
            reach.RouteShown(
                capability="FileSummarize",
                version="1.0",
                spoke="summary-03",
                endpoint="spoke",
                weight=1,
                domain="",
                load=1,
                concurrency=1,
                last_seen=2.5,
                status="draining",
                workspace="default",
                why="workspace default is draining",
            ),
        ),
        stats=(
            reach.CapabilityShown(
                capability="FileSummarize",
                waiting=1,
                asked=10,
                done=7,
                failed=1,
                unverified=1,
                open=2,
                median_seconds=0.25,
            ),
        ),
    ),
    "agents": forms.Agents(agents=(AGENT_SHOWN,), context="# Shop\nWe sell things."),
    "whoami": forms.WhoAmI(
        name="@human",
        id="per_01JDB7Z8C0000000000000H777",
        kind="person",
        workspace="shop",
        workspace_id=WORKSPACE,
        session="",
        assertion="terminal",
        because="the user of this host",
        read_only=False,
    ),
    "watch": forms.Done(
        detail="@reviewer is woken when ref main of /home/me/shop changes.", id="wch_01JDB7Z8C0000000000000W999"
    ),
    "watches": forms.Watched(
        watches=(
            {
                "watch_id": "wch_01JDB7Z8C0000000000000W999",
                "agent": "@reviewer",
                "kind": "ref",
                "what": "ref main of /home/me/shop",
                "changed": True,
                "by": "@human",
            },
        )
    ),
    "unwatch": forms.Done(detail="wch_00w999 of @reviewer is watched no longer."),
    "workspaces": forms.Workspaces(workspaces=(WORKSPACE_SHOWN,)),
    "register_workspace": WORKSPACE_SHOWN,
    "allow": forms.Done(detail="anthropic may get the inputs of shop."),
    "coordinator": forms.Done(detail="@lead routes in shop."),
    "add_check": forms.Done(detail="Check tests is registered."),
    "remove_check": forms.Done(detail="Check tests is gone."),
    "checks": forms.Checks(checks=(CHECK,)),
    "add_token": reach.TokenMade(
        name="summary-01",
        domains=("data-team",),
        workspace="shop",
        token="s3cret" * 7 + "x",
        replaced=True,
        known=False,
    ),
    "tokens": reach.Tokens(
        tokens=(
            reach.TokenShown(name="old-01", domains=(), made="2026-01-02T03:04:05.000Z", fault="It cannot be trusted."),
            reach.TokenShown(
                name="summary-01", domains=("data-team", "ops"), workspace="shop", made="2026-02-03T04:05:06.000Z"
            ),
        )
    ),
    "remove_token": forms.Done(detail="The token of summary-01 opens nothing any more; its connections were ended."),
    "set_mode": forms.Done(detail="All is paused.", changed=False),
    "permissions": forms.Permissions(
        permissions=(
            forms.PermissionShown(
                permission_id=PERMISSION,
                task_id=TASK,
                title="Review the parser",
                action="net.fetch example.org",
                digest=DIGEST,
                age=61.0,
                kind="permission",
            ),
        )
    ),
    "doctor": DIAGNOSIS,
    "log_head": {"position": 12, "hash": DIGEST},
    "log_verify": {"ok": True, "events": 12},
    "log_replay": {"ok": True, "rows": 40},
    "log_erase": forms.Done(detail="The texts of the task are erased."),
}
"""What each verb of the desk answers unless a test scripts something else; the rest answers `MOVED`."""

STREAMS = {"follow": (SHOWN, DONE), "feed": (HISTORY[2],), "log_export": ('{"position":1}', '{"position":2}')}


class FakeDesk:
    """Answers every verb of the desk from `answers`: a form, a list of them in turn, or a `Refused` to raise."""

    def __init__(self, **answers: Any) -> None:
        self.answers = CANNED | STREAMS | answers
        self.asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.words: dict[str, list[str]] = {"agent": ["reviewer", "tester"], "task": [TASK, OTHER], "check": ["tests"]}

    async def guest(self, facts: CallerFacts, **options: Any) -> Guest:
        """Whoever calls is a person, in shop."""
        self.asked.append(("guest", (), options))
        return Guest(
            actor=Actor("per_1", ActorKind.PERSON),
            subject="per_1",
            workspace=WORKSPACE,
            directory=facts.directory,
            because="the user",
            read_only=False,
            facts=facts,
            registered="/home/me/shop" if options.get("register") else "",
        )

    async def names(self, guest: Guest, kind: str) -> list[str]:
        """The names of a kind."""
        return self.words.get(kind, [])

    def follow(self, guest: Guest, task: str) -> AsyncIterator[forms.Shown]:
        """What is scripted, then for ever nothing where the script ends in an ellipsis."""
        return self._stream("follow", task)

    def feed(self, guest: Guest, *, after: int) -> AsyncIterator[forms.Line]:
        """As `follow`."""
        return self._stream("feed", after)

    def log_export(self, guest: Guest, *, after: int = 0) -> AsyncIterator[str]:
        """As `follow`."""
        return self._stream("log_export", after)

    async def _stream(self, name: str, argument: Any) -> AsyncIterator[Any]:
        self.asked.append((name, (argument,), {}))
        for value in self.answers[name]:
            if value is ...:
                await asyncio.Event().wait()
            if isinstance(value, Refused):
                raise value
            yield value

    def __getattr__(self, name: str) -> Any:
        signature = inspect.signature(getattr(Desk, name))

        async def verb(guest: Guest, *arguments: Any, **options: Any) -> Any:
            signature.bind(self, guest, *arguments, **options)
            self.asked.append((name, arguments, options))
            answer = self.answers.get(name, MOVED)
            if isinstance(answer, list):
                answer = answer.pop(0)
            if answer is ...:
                await asyncio.Event().wait()
            if isinstance(answer, Refused):
                raise answer
            return answer

        return verb

    def calls(self, name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        """How a verb was called, in order."""
        return [(arguments, options) for asked, arguments, options in self.asked if asked == name]


class FakeCall:
    """A client whose streams are strings. `streams` holds what was written, in order and by stream."""

    def __init__(
        self,
        argv: list[str],
        *,
        tty: bool = False,
        columns: int = 100,
        environment: dict[str, str] | None = None,
        stdin: bytes = b"",
        reply: str | None = None,
        stays: bool = True,
        interrupt_at: str = "",
    ) -> None:
        terminal = Terminal(stdin=tty, stdout=tty, stderr=tty, columns=columns)
        self.facts = CallerFacts(
            uid=1000, pid=1, environment=environment or {}, directory="/home/me", terminal=terminal
        )
        self.arguments: dict[str, Any] = {"argv": argv}
        self.streams: list[tuple[str, str]] = []
        self.prompts: list[str] = []
        self.interrupt = asyncio.Event()
        self.flushes: list[int] = []
        self._stdin, self._reply, self._stays = stdin, reply, stays
        self._interrupt_at = interrupt_at

    async def out(self, text: str) -> None:
        """Keep it."""
        self.streams.append(("out", text))
        if self._interrupt_at and self._interrupt_at in text:
            self.interrupt.set()

    async def err(self, text: str) -> None:
        """Keep it."""
        self.streams.append(("err", text))

    async def ask(self, prompt: str) -> str | None:
        """The scripted reply."""
        self.prompts.append(prompt)
        return self._reply

    async def stdin(self) -> bytes:
        """The scripted input."""
        return self._stdin

    async def flushed(self) -> bool:
        """Whether the client is still there; notes after how many writes it was asked."""
        self.flushes.append(len(self.streams))
        return self._stays

    async def interrupted(self) -> None:
        """When `interrupt` is set."""
        await self.interrupt.wait()

    def written(self, stream: str) -> str:
        """All of one stream."""
        return "".join(text for name, text in self.streams if name == stream)


class Outcome(msgspec.Struct):
    """How a command ended, and what it left."""

    code: int
    out: str
    err: str
    call: Any
    desk: Any


async def _status() -> dict[str, Any]:
    return {"pid": 4711, "version": "0.1.0", "home": "/home/me/.local/share/tallystick", "ready": True, "events": 12}


async def run(*argv: str, desk: FakeDesk | None = None, stop: Any = None, **call: Any) -> Outcome:
    """Run one command of `tally` against the desk."""
    desk = desk or FakeDesk()
    made = FakeCall(list(argv), **call)

    async def stopped() -> None:
        desk.asked.append(("stop", (), {}))

    cli = Cli(desk, status=_status, stop=stop or stopped, now=lambda: NOW)  # type: ignore[arg-type]
    code = await cli(made)
    return Outcome(code, made.written("out"), made.written("err"), made, desk)
