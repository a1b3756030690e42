"""Every entry keeps the contract of a waker; what each says when its client does not behave."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace
from websockets.asyncio.server import unix_serve

from tallystick.app.clock import SystemClock
from tallystick.app.desk import forms
from tallystick.app.ports import Admission, Summons
from tallystick.app.turns import Turns
from tallystick.assembly import rooms
from tallystick.core.directory import Agent, Directory, SessionState
from tallystick.core.identity import Prefix
from tallystick.core.limits import Limits
from tallystick.core.wake import INTENDED, Wake, words
from tallystick.edge.acp import DriveWaker
from tallystick.edge.clients.claude.history import trail
from tallystick.edge.clients.codex.wake import CodexWaker
from tallystick.edge.clients.opencode.server import port_of
from tallystick.edge.clients.opencode.wake import OpenCodeWaker
from tallystick.edge.clients.waiting import HookWaker
from tallystick.edge.command import CommandWaker
from tallystick.edge.process import ProcessRunner
from tallystick.testing import FakeWaker, SeqIds, check_waker
from tests.support.driven import AGENT
from tests.support.ends import Haven

LIMITS = Limits()
SOON = Limits(wake_proof_seconds=1.0)
"""Where a proof never comes."""
IDS = SeqIds()
HISTORY = "e9d024ab-a3ab-4238-8c6e-4f51ba2be58d"


def agent(**given: Any) -> Agent:
    found = {"agent_id": "agt_1", "alias": "pen", "owner": "per_1", "version": 1, "joined_at": 0.0, **given}
    return Agent(**found)


def session(transcript: str, name: str = "ses_1") -> SessionState:
    return SessionState(
        session_id=name,
        agent="agt_1",
        workspace="wsp_1",
        door="client",
        version=1,
        opened_at=0.0,
        incarnation="1@1",
        history=HISTORY,
        transcript=transcript,
    )


def summons(by: Agent, sleeper: SessionState | None, outcome: str = INTENDED, turn: str = "") -> Summons:
    wake_id = IDS(Prefix.WAKE)
    wake = Wake(wake_id, "wsp_1", "claude", 7, 0.0, 0.0, sleeper.session_id if sleeper else "", outcome, turn)
    return Summons(wake=wake, agent=by, session=sleeper, text=f"Look at your inbox. ({wake_id})")


async def test_the_fake_keeps_the_contract() -> None:
    there = summons(agent(), session("/nowhere"))

    class Only(FakeWaker):
        async def reachable(self, by: Agent, sleeper: SessionState | None) -> bool:
            self.is_reachable = sleeper is not None and sleeper.session_id == "ses_1"
            return self.is_reachable

    await check_waker(Only(), there, summons(agent(), session("", "ses_2")), summons(agent(), session("")))


# --- a command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def runner(tmp_path: Path):
    return ProcessRunner(tmp_path / "home", SystemClock(), masks=())


def commanded(tmp_path: Path, code: str) -> Agent:
    program = tmp_path / "wake.py"
    program.write_text(code)
    return agent(connection="wake", argv=(sys.executable, str(program)), search_path="/usr/bin:/bin", seconds=20)


async def test_a_command_keeps_the_contract(tmp_path: Path, runner: ProcessRunner) -> None:
    by = commanded(tmp_path, "import json, sys; assert json.load(sys.stdin)['wake_id']")
    gone = replace(by, argv=("/nowhere/to/be/found",))
    await check_waker(CommandWaker(tmp_path, runner, SOON), summons(by, None), summons(gone, None), summons(by, None))


@pytest.mark.parametrize(
    ("code", "outcome", "said"),
    [
        ("import sys; sys.exit('no such model')", "failed", "exit 1: no such model"),
        ("import os; os.kill(os.getpid(), 9)", "failed", "signal 9"),
    ],
)
async def test_how_a_command_ended_is_said(tmp_path, runner, code: str, outcome: str, said: str) -> None:
    waker, call = CommandWaker(tmp_path, runner, LIMITS), summons(commanded(tmp_path, code), None)
    begun = await waker.wake(call)
    assert begun.outcome == "started"
    ended = await waker.outcome(replace(call, wake=replace(call.wake, outcome="started", turn=begun.turn)))
    assert (ended.outcome, ended.detail, ended.turn) == (outcome, said, begun.turn)


async def test_a_command_that_ran_too_long_is_told_with_its_limit(tmp_path, runner) -> None:
    by = replace(commanded(tmp_path, "import time; time.sleep(1000)"), seconds=0)
    waker, call = CommandWaker(tmp_path, runner, replace(LIMITS, command_seconds=0.5)), summons(by, None)
    begun = await waker.wake(call)
    ended = await waker.outcome(replace(call, wake=replace(call.wake, outcome="started", turn=begun.turn)))
    assert (ended.outcome, ended.detail) == ("failed", "It ran longer than 0.5 seconds.")


# --- a hook that waits --------------------------------------------------------------------------------------------


class Client:
    """A client with a hook that waits: what it is told it writes down and obeys, unless it is deaf."""

    def __init__(self, tmp_path: Path, deaf: bool = False, absorbs: bool = False) -> None:
        self.path = tmp_path / ".claude" / "projects" / "x" / f"{HISTORY}.jsonl"
        self.path.parent.mkdir(parents=True)
        self.path.write_text("")
        self.state = session(str(self.path))
        self.turns = Turns(lambda: Directory(sessions={"ses_1": self.state}))
        self.deaf, self.absorbs = deaf, absorbs

    def write(self, **record: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    async def wait(self, *, ends: bool = True) -> None:
        text = await self.turns.wait("ses_1", 60, asyncio.Event().wait)
        if text and not self.deaf:
            self.write(type="queue-operation", operation="enqueue", content=text)
            if self.absorbs:
                self.write(type="attachment", uuid="a1", attachment={"type": "queued_command", "prompt": text})
            else:
                self.write(type="user", promptId="p1", message={"content": text})
        if text and ends:
            await asyncio.sleep(0)
            self.turns.ended("ses_1")


@pytest.mark.parametrize("absorbs", [False, True])
async def test_a_hook_that_waits_keeps_the_contract(tmp_path: Path, absorbs: bool) -> None:
    client = Client(tmp_path, absorbs=absorbs)
    waiting = asyncio.create_task(client.wait(ends=False))
    await asyncio.sleep(0)
    seen = asyncio.Event()

    class Watched(HookWaker):
        async def outcome(self, call: Summons) -> Admission:
            found = await super().outcome(call)
            if call.wake.wake_id == there.wake.wake_id:
                seen.set()
            return found

    waker = Watched(client.turns, SOON, trail)

    async def end() -> None:
        await waiting
        await seen.wait()
        client.turns.ended("ses_1")

    ending = asyncio.create_task(end())
    there = summons(agent(client="claude"), client.state)
    await check_waker(waker, there, summons(agent(), session("", "ses_2")), summons(agent(), client.state))
    await asyncio.gather(waiting, ending)


async def test_a_hook_that_was_answered_and_shows_nothing_is_unverified(tmp_path: Path) -> None:
    client = Client(tmp_path, deaf=True)
    waiting = asyncio.create_task(client.wait())
    await asyncio.sleep(0)
    waker, call = HookWaker(client.turns, SOON, trail), summons(agent(), client.state)
    assert (await waker.wake(call)).outcome == "queued"
    ended = await waker.outcome(replace(call, wake=replace(call.wake, outcome="queued")))
    assert ended.outcome == "unverified"
    await waiting


async def test_nobody_is_woken_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    client = Client(tmp_path)
    waiting = asyncio.create_task(client.wait())
    await asyncio.sleep(0)
    client.turns.began("ses_1")
    waker, call = HookWaker(client.turns, LIMITS, trail), summons(agent(), client.state)
    assert not await waker.reachable(call.agent, call.session)
    assert (await waker.wake(call)).outcome == "busy"
    waiting.cancel()


async def test_nobody_is_woken_whose_person_plans(tmp_path: Path) -> None:
    client = Client(tmp_path)
    waiting = asyncio.create_task(client.wait())
    await asyncio.sleep(0)
    client.turns.plans("ses_1", now=True)
    waker, call = HookWaker(client.turns, LIMITS, trail), summons(agent(), client.state)
    assert not await waker.reachable(call.agent, call.session)
    assert (await waker.wake(call)).outcome == "plan_mode"
    client.turns.plans("ses_1", now=False)
    assert await waker.reachable(call.agent, call.session)
    waiting.cancel()


async def test_a_session_that_ends_in_the_turn_leaves_it_unverified(tmp_path: Path) -> None:
    client = Client(tmp_path)
    waker, call = HookWaker(client.turns, LIMITS, trail), summons(agent(), client.state, "started", "p1")
    over = asyncio.create_task(waker.outcome(call))
    async with asyncio.timeout(20):
        while "ses_1" not in client.turns._ends:  # noqa: ASYNC110 - whatever is awaited goes on meanwhile
            await asyncio.sleep(0)
    client.turns.forget("ses_1")
    assert (await over).outcome == "unverified"


# --- the app-server of Codex --------------------------------------------------------------------------------------


class AppServer:
    """What a running Codex answers; `turns` are those of its one thread."""

    def __init__(self, tmp_path: Path) -> None:
        home = tmp_path / ".codex"
        self.state = session(str(home / "sessions" / "2026" / "11" / "30" / f"rollout-x-{HISTORY}.jsonl"))
        self.socket = home / "app-server-control" / "app-server-control.sock"
        self.socket.parent.mkdir(parents=True)
        self.loaded, self.status = [HISTORY], "idle"
        self.queue: list[dict[str, Any]] = []
        self.turns: list[dict[str, Any]] = []
        self.ends_as = "completed"
        self.missing: tuple[str, ...] = ()
        self.asked: list[str] = []

    async def serve(self, connection: Any) -> None:
        await connection.send(json.dumps({"method": "thread/status/changed", "params": {}}))
        async for frame in connection:
            message = json.loads(frame)
            assert "jsonrpc" not in message
            self.asked.append(message["method"])
            if "id" in message:
                await connection.send(json.dumps({"id": 99, "method": "item/commandExecution/requestApproval"}))
                await connection.send(json.dumps({"id": message["id"], **self.answer(message)}))

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        method, params = message["method"], message.get("params", {})
        if method in self.missing:
            return {"error": {"code": -32601, "message": "unknown method"}}
        return {"result": getattr(self, "_" + method.replace("/", "_"), lambda **_: {})(**params)}

    def _thread_loaded_list(self) -> Any:
        return {"data": ["ephemeral", *self.loaded]}

    def _thread_read(self, **_: Any) -> Any:
        return {"thread": {"status": {"type": self.status}}}

    def _thread_queue_add(self, clientUserMessageId: str, **_: Any) -> Any:  # noqa: N803 - its own spelling
        self.queue.append({"id": "q1", "clientUserMessageId": clientUserMessageId})
        return {"queuedSubmission": self.queue[-1]}

    def _thread_queue_list(self, **_: Any) -> Any:
        return {"data": self.queue}

    def _thread_queue_delete(self, **_: Any) -> Any:
        self.queue.clear()
        return {"deleted": True}

    def _thread_turns_list(self, **_: Any) -> Any:
        """Each look brings it on by a step: from the queue into a turn, and the turn to its end."""
        found = {"data": [json.loads(json.dumps(turn)) for turn in self.turns]}
        for turn in self.turns:
            turn["status"] = self.ends_as
        for queued in self.queue:
            items = [{"type": "userMessage", "clientId": queued["clientUserMessageId"]}]
            self.turns.insert(0, {"id": f"t{len(self.turns)}", "status": "inProgress", "items": items})
        self.queue.clear()
        return found


@pytest_asyncio.fixture
async def codex():
    with tempfile.TemporaryDirectory(prefix="cx-") as short:  # a socket's path has at most 107 bytes
        server = AppServer(Path(short))
        async with unix_serve(server.serve, str(server.socket)):
            yield server


async def test_codex_keeps_the_contract_and_its_questions_are_never_answered(codex: AppServer) -> None:
    elsewhere = session("/nowhere/.codex/sessions/2026/11/30/rollout-x.jsonl", "ses_2")
    there, lost = summons(agent(client="codex"), codex.state), summons(agent(), codex.state)
    await check_waker(CodexWaker(SOON), there, summons(agent(), elsewhere), lost)
    assert not [method for method in codex.asked if "steer" in method or "approval" in method or "resume" in method]


@pytest.mark.parametrize("how", ["failed", "interrupted"])
async def test_how_the_turn_of_codex_ended_is_said(codex: AppServer, how: str) -> None:
    codex.ends_as = how
    waker, call = CodexWaker(LIMITS), summons(agent(), codex.state)
    assert (await waker.wake(call)).outcome == "queued"
    begun = await waker.outcome(replace(call, wake=replace(call.wake, outcome="queued")))
    assert begun.outcome == "started"
    started = replace(call, wake=replace(call.wake, outcome="started", turn=begun.turn))
    assert (await waker.outcome(started)).outcome == how


@pytest.mark.parametrize(("loaded", "status"), [(True, "active"), (False, "idle")])
async def test_a_thread_that_is_busy_or_not_loaded_is_left_alone(codex: AppServer, loaded: bool, status: str) -> None:
    codex.status, codex.loaded = status, [HISTORY] if loaded else []
    waker, call = CodexWaker(LIMITS), summons(agent(), codex.state)
    assert not await waker.reachable(call.agent, call.session)
    assert (await waker.wake(call)).outcome == "busy"
    assert codex.queue == []


async def test_what_an_earlier_host_put_into_the_queue_is_found_there(codex: AppServer) -> None:
    waker, call = CodexWaker(LIMITS), summons(agent(), codex.state)
    codex.queue.append({"id": "q7", "clientUserMessageId": call.wake.wake_id})
    seen = await waker.outcome(call)
    assert seen.outcome in ("queued", "started")


async def test_what_waits_in_the_queue_is_taken_back_when_a_person_stops_the_agent(codex: AppServer) -> None:
    waker, call = CodexWaker(LIMITS), summons(agent(), codex.state)
    await waker.wake(call)
    assert await waker.end(call)
    assert codex.queue == []
    assert not await waker.end(call)


async def test_an_old_codex_without_a_queue_refuses(codex: AppServer) -> None:
    codex.missing = ("thread/queue/add",)
    assert (await CodexWaker(LIMITS).wake(summons(agent(), codex.state))).outcome == "refused"


async def test_a_codex_that_is_gone_is_unverified_after_a_while(codex: AppServer) -> None:
    waker, call = CodexWaker(SOON), summons(agent(), codex.state, "queued")
    codex.socket.unlink()
    assert (await waker.outcome(call)).outcome == "unverified"


# --- the HTTP API of OpenCode -------------------------------------------------------------------------------------


class OpenCode(BaseHTTPRequestHandler):
    """What a running OpenCode answers; what it knows is in the server."""

    def do_GET(self) -> None:
        self.server.looks += 1
        path = self.path.removeprefix("/session")
        if path == "/status":
            return self.give(200, self.server.busy)
        if path == f"/{HISTORY}":
            return self.give(200, {"id": HISTORY})
        if path == f"/{HISTORY}/message":
            found = json.loads(json.dumps(self.server.messages))
            self.server.go_on()
            return self.give(200, found)
        return self.give(404, {"error": "none"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.messages.append({"info": {"id": "msg_1", "role": "user"}, "parts": body["parts"]})
        self.give(204, None)

    def give(self, status: int, body: Any) -> None:
        raw = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: Any) -> None:
        pass


class OpenCodeServer(ThreadingHTTPServer):
    looks = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), OpenCode)
        self.busy: dict[str, Any] = {}
        self.messages: list[dict[str, Any]] = []
        self.last: dict[str, Any] = {"finish": "stop", "time": {"completed": 1}}

    def go_on(self) -> None:
        """Each look brings it on: an answer begins, then it ends."""
        answers = [m for m in self.messages if m["info"]["role"] == "assistant"]
        if answers:
            answers[0]["info"].update(self.last)
        elif self.messages:
            self.messages.append({"info": {"id": "msg_2", "role": "assistant", "parentID": "msg_1"}, "parts": []})


@pytest.fixture
def opencode():
    server = OpenCodeServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


def at(server: OpenCodeServer) -> OpenCodeWaker:
    return OpenCodeWaker(SOON, lambda process: server.server_address[1] if process == "1@1" else 0)


async def test_opencode_keeps_the_contract(opencode: OpenCodeServer) -> None:
    absent = replace(session("", "ses_2"), incarnation="2@2")
    sleeper = session("")
    await check_waker(
        at(opencode), summons(agent(), sleeper), summons(agent(), absent), summons(agent(), sleeper)
    )


@pytest.mark.parametrize(
    ("error", "outcome"), [("MessageAbortedError", "interrupted"), ("ProviderAuthError", "failed")]
)
async def test_how_the_turn_of_opencode_ended_is_said(opencode, error: str, outcome: str) -> None:
    opencode.last = {"error": {"name": error}}
    waker, call = at(opencode), summons(agent(), session(""))
    assert (await waker.wake(call)).outcome == "queued"
    begun = await waker.outcome(replace(call, wake=replace(call.wake, outcome="queued")))
    started = replace(call, wake=replace(call.wake, outcome="started", turn=begun.turn))
    assert (await waker.outcome(started)).outcome == outcome


async def test_an_opencode_that_is_busy_is_left_alone(opencode: OpenCodeServer) -> None:
    opencode.busy = {HISTORY: {"type": "busy"}}
    waker, call = at(opencode), summons(agent(), session(""))
    assert not await waker.reachable(call.agent, call.session)
    assert (await waker.wake(call)).outcome == "busy"
    assert opencode.messages == []


async def test_an_opencode_that_is_gone_is_unverified_after_a_while() -> None:
    waker = OpenCodeWaker(SOON, lambda _: 1)
    assert (await waker.outcome(summons(agent(), session(""), "queued"))).outcome == "unverified"


def test_the_port_of_a_process_is_that_at_which_it_or_its_children_listen() -> None:
    listens = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)"
    code = f"{listens}; input()"
    shell = ["sh", "-c", f'{sys.executable} -c "{code}"; true']
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        port = int(child.stdout.readline())
        assert port_of(f"{child.pid}@1") == port
        child.communicate("\n")
    assert port_of("nonsense") == port_of("") == 0


# --- a session that the host drives -------------------------------------------------------------------------------


class Driving:
    """A whole host that drives the scripted agent, and the entry that it wakes it by."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self.haven = Haven(place / "home")
        self.wakers: list[DriveWaker] = []

        def keep(*given: Any) -> DriveWaker:
            self.wakers.append(DriveWaker(*given))
            return self.wakers[-1]

        monkeypatch.setattr(rooms, "DriveWaker", keep)

    async def begin(self) -> None:
        own = self.place / "home" / "agents" / "pen.toml"
        own.parent.mkdir()
        own.write_text("sandbox = false\ncanary = false\n")
        own.chmod(0o600)
        line = shlex.join([sys.executable, str(AGENT), str(self.place)])
        await self.haven.desk.join(await self.haven.person(), forms.Join(name="pen", drive=line))

    @property
    def waker(self) -> DriveWaker:
        return self.wakers[-1]

    def plan(self, *steps: dict[str, Any]) -> None:
        (self.place / "plan.json").write_text(json.dumps({"woken": steps}))

    def summons(self, **given: Any) -> Summons:
        """To look again, for the agent in its workspace. `given`: what is another about the agent."""
        directory = self.haven.desk.directory
        by = next(a for a in directory.agents.values() if a.alias == "pen")
        found = summons(replace(by, **given), None)
        wake = replace(found.wake, target=min(by.workspaces), entry="drive")
        return replace(found, wake=wake, text=words("pen", wake.wake_id, []))


@pytest_asyncio.fixture
async def driving(monkeypatch: pytest.MonkeyPatch):
    with tempfile.TemporaryDirectory(prefix="dr-") as short:
        driving = Driving(Path(short), monkeypatch)
        async with driving.haven:
            await driving.begin()
            yield driving


@pytest.mark.parametrize("says", [[{"say": "I look."}], []], ids=["words", "nothing"])
async def test_a_driven_session_keeps_the_contract(driving: Driving, says: list[dict[str, Any]]) -> None:
    driving.plan(*says)
    absent = driving.summons(concurrency=0)
    await check_waker(driving.waker, driving.summons(), absent, driving.summons())
    assert not await driving.waker.reachable(absent.agent, session("")), "it is no session of a person"


async def test_how_the_turn_of_a_driven_session_ended_is_said(driving: Driving) -> None:
    for step, outcome in (({"die": 9}, "failed"), ({"error": [-32603, "no such model", None]}, "failed")):
        driving.plan({"say": "I look."}, {"pause": 0.2}, step)
        call = driving.summons()
        begun = await driving.waker.wake(call)
        assert (begun.outcome, bool(begun.turn)) == ("started", True)
        ended = await driving.waker.outcome(replace(call, wake=replace(call.wake, outcome="started", turn=begun.turn)))
        assert (ended.outcome, ended.turn) == (outcome, begun.turn)
        again = await driving.waker.outcome(call)
        assert again.outcome == "unverified", "what was told is told once"


async def test_a_driven_agent_that_is_stopped_while_it_looks_is_interrupted_and_not_busy_afterwards(
    driving: Driving,
) -> None:
    driving.plan({"say": "I look."}, {"hang": True})
    call = driving.summons()
    begun = await driving.waker.wake(call)
    assert begun.outcome == "started"
    assert not await driving.waker.reachable(call.agent, None)
    assert (await driving.waker.wake(driving.summons())).outcome == "busy"
    started = replace(call, wake=replace(call.wake, outcome="started", turn=begun.turn))
    ended, is_ended = await asyncio.gather(driving.waker.outcome(started), driving.waker.end(started))
    assert is_ended
    assert ended.outcome == "interrupted"
    assert not await driving.waker.end(started)
    assert await driving.waker.reachable(call.agent, None)
