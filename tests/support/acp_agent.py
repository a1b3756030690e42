"""A coding agent over the Agent Client Protocol that does what a script says: `acp_agent.py STATE-FOLDER`.

It is built on the official SDK, and keeps its conversations in the folder as real clients do, so that they can be
loaded by another process of it. The words of a prompt hold the script: `@@DO [step, …] @@`; a step is an object with
one of

- `say`: words, as updates; with `pause`, seconds before it
- `call`: one of our tools, by the MCP server it was given: `{"call": "submit", "args": {…}}`; `{task}` in the arguments
  is the task's id as the prompt names it
- `ask`: a permission for that command; it runs only if it is allowed
- `elicit`: a question to a person, by the protocol
- `run`: a command that runs without asking, in a session of its own if `detached`
- `flood`: so many updates at once
- `wait`: until a file of that name is in the folder
- `die`: exit at once, with that code; `hang`: never answer; `usage`: tokens that it will report; `cost`: dollars so far
- `error`: answers the prompt with that error: `[code, message, data]`
- `stop`: the reason to end with; `lie`: says that it handed in, and does not
- `early`: answers the prompt before it does the rest; `twice`: answers it once more

A prompt to look at what is new does what `woken` of the folder's `plan.json` says.
Other texts (a reminder, a resumed turn) do what `again` says there, or nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import acp
from acp.schema import (
    AgentCapabilities,
    ForkSessionResponse,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    SessionCapabilities,
    SessionForkCapabilities,
    SessionMode,
    SessionModeState,
    ToolCallUpdate,
    Usage,
)

FOLDER = Path(sys.argv[1])
DO = re.compile(r"@@DO (\[.*?\]) @@", re.DOTALL)
TASK = re.compile(r"tsk_[0-9A-Z]{26}")
OPTIONS = [
    PermissionOption(option_id="always", name="Always", kind="allow_always"),
    PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
]


def plan() -> dict[str, Any]:
    """What the test wants of all sessions."""
    try:
        return json.loads((FOLDER / "plan.json").read_text())
    except FileNotFoundError:
        return {}


def log(**what: Any) -> None:
    """One line of what happened, for the test to read."""
    with (FOLDER / "log.jsonl").open("a") as file:
        file.write(json.dumps({"at": time.time(), "pid": os.getpid(), **what}) + "\n")


class Tools:
    """An MCP server that the session was given, started when it is first used."""

    def __init__(self, server: Any) -> None:
        environment = {**os.environ, **{item.name: item.value for item in server.env}}
        self.child = subprocess.Popen(
            [server.command, *server.args], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.number = 0
        told = {"name": "agent", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=told)
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def say(self, message: dict[str, Any]) -> None:
        self.child.stdin.write(json.dumps(message) + "\n")
        self.child.stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        self.say({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        while True:
            line = self.child.stdout.readline()
            if not line:
                raise ConnectionError("the MCP server is gone")
            answer = json.loads(line)
            if answer.get("id") == self.number:
                return answer


class Scripted(acp.Agent):
    """The agent."""

    def __init__(self) -> None:
        self.client: Any = None
        self.servers: dict[str, Any] = {}
        self.tools: dict[str, Tools] = {}
        self.places: dict[str, str] = {}
        self.cancelled: dict[str, asyncio.Event] = {}

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def gate(self, file: str | None) -> None:
        """Wait until a file is there, if one is named: by the plan as it was when this was begun, whatever it says
        once that is in the log."""
        while file and not (FOLDER / file).exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)

    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, **_: Any
    ) -> InitializeResponse:
        offered = client_capabilities.model_dump(by_alias=True, exclude_none=True) if client_capabilities else {}
        starts = plan().get("starts")
        log(what="initialize", offered=offered)
        await self.gate(starts)
        return InitializeResponse(
            protocol_version=protocol_version,
            agent_capabilities=AgentCapabilities(
                load_session=plan().get("loads", True),
                session_capabilities=SessionCapabilities(
                    fork=SessionForkCapabilities() if plan().get("forks", True) else None
                ),
            ),
            agent_info=Implementation(name="scripted", version="1.0"),
        )

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_: Any) -> NewSessionResponse:
        session = str(uuid4())
        self.remember(session, cwd, mcp_servers)
        log(what="new", session=session, cwd=cwd)
        return NewSessionResponse(session_id=session, modes=self.modes())

    def modes(self) -> SessionModeState:
        names = ("ask", "never")
        return SessionModeState(
            available_modes=[SessionMode(id=name, name=name) for name in names], current_mode_id="ask"
        )

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> None:
        log(what="mode", session=session_id, mode=mode_id)

    def remember(self, session: str, cwd: str, servers: Any) -> None:
        self.servers[session] = next((s for s in servers or () if s.name == "tally"), None)
        self.places[session] = cwd

    async def fork_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any) -> ForkSessionResponse:
        file = FOLDER / f"{session_id}.jsonl"
        if not file.exists():
            raise acp.RequestError.resource_not_found(session_id)
        new = str(uuid4())
        shutil.copy(file, FOLDER / f"{new}.jsonl")
        self.remember(new, cwd, mcp_servers)
        log(what="fork", session=new, of=session_id, lines=len(file.read_text().splitlines()))
        return ForkSessionResponse(session_id=new, modes=self.modes())

    async def load_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any) -> LoadSessionResponse:
        file = FOLDER / f"{session_id}.jsonl"
        if not file.exists() and not plan().get("forgets"):
            raise acp.RequestError.resource_not_found(session_id)
        self.remember(session_id, cwd, mcp_servers)
        lines = [] if plan().get("forgets") else file.read_text().splitlines()
        for line in lines:
            said = json.loads(line)
            update = acp.update_user_message_text if said["who"] == "user" else acp.update_agent_message_text
            await self.client.session_update(session_id=session_id, update=update(said["text"]))
        log(what="load", session=session_id, lines=len(lines))
        return LoadSessionResponse(modes=self.modes())

    def keep(self, session: str, who: str, text: str) -> None:
        with (FOLDER / f"{session}.jsonl").open("a") as file:
            file.write(json.dumps({"who": who, "text": text}) + "\n")

    async def cancel(self, session_id: str, **_: Any) -> None:
        log(what="cancel", session=session_id)
        if session_id in self.cancelled and not plan().get("deaf"):
            self.cancelled[session_id].set()

    # --- a turn ---

    async def prompt(self, prompt: Any, session_id: str, **_: Any) -> PromptResponse:
        text = "\n".join(block.text for block in prompt if hasattr(block, "text"))
        unread = plan().get("unread")
        log(what="prompt", session=session_id, text=text, busy=session_id in self.cancelled)
        if plan().get("dies_before"):
            os._exit(9)
        await self.gate(unread)
        if not plan().get("unwritten"):
            self.keep(session_id, "user", text)
        found = DO.findall(text)
        canary = re.search(r"\(touch (\S+)\)", text)
        steps = json.loads(found[-1]) if found else plan().get("again", [])
        if "Look at it with your `inbox` tool" in text:
            steps = plan().get("woken", [])
        if canary:
            steps = [{plan().get("canary", "ask"): f"touch {canary[1]}"}]
        task = (TASK.findall(text) or [""])[0]
        self.cancelled[session_id] = event = asyncio.Event()
        doing = asyncio.create_task(self.steps(session_id, task, steps))
        stopping = asyncio.create_task(event.wait())
        try:
            await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                doing.cancel()
                return PromptResponse(stop_reason="cancelled")
            return doing.result()
        finally:
            stopping.cancel()
            self.cancelled.pop(session_id, None)

    async def steps(self, session: str, task: str, steps: list[dict[str, Any]]) -> PromptResponse:
        stop, usage = "end_turn", None
        for number, step in enumerate(steps):
            await asyncio.sleep(step.get("pause", 0))
            if "stop" in step:
                stop = step["stop"]
            elif "usage" in step:
                usage = Usage(total_tokens=step["usage"], input_tokens=step["usage"], output_tokens=0)
            else:
                await self.step(session, task, number, step)
        return PromptResponse(stop_reason=stop, usage=usage)

    async def step(self, session: str, task: str, number: int, step: dict[str, Any]) -> None:
        if "say" in step:
            self.keep(session, "agent", step["say"])
            await self.update(session, acp.update_agent_message_text(step["say"]))
        if "call" in step:
            args = json.loads(json.dumps(step.get("args", {})).replace("{task}", task)) or {}
            about = {"task": task} if task and step["call"] not in ("ask", "inbox") else {}
            answer = await asyncio.to_thread(self.call, session, step["call"], {**about, **args})
            log(what="called", tool=step["call"], answer=answer)
        if "ask" in step:
            await self.ask(session, number, step["ask"])
        if "elicit" in step:
            await self.elicit(session, step["elicit"])
        if "run" in step:
            self.run(session, step["run"], detached=step.get("detached", False))
        await self.pour(session, step)
        if "wait" in step:
            while not (FOLDER / step["wait"]).exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.02)
        if "raw" in step:
            sys.stdout.write(step["raw"] + "\n")
            sys.stdout.flush()
        if "error" in step:
            raise acp.RequestError(*step["error"])
        if "die" in step:
            os._exit(step["die"])
        if "hang" in step:
            await asyncio.Event().wait()

    async def pour(self, session: str, step: dict[str, Any]) -> None:
        for index in range(step.get("flood", 0)):
            await self.update(session, acp.update_agent_message_text(f"flood {index} "))
        if "large" in step:
            await self.update(session, acp.update_agent_message_text("x" * step["large"]))
        if "cost" in step:
            cost = {"amount": step["cost"], "currency": "USD"}
            await self.update(session, {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost})

    async def update(self, session: str, update: Any) -> None:
        if isinstance(update, dict):
            await self.client._conn.send_notification("session/update", {"sessionId": session, "update": update})
        else:
            await self.client.session_update(session_id=session, update=update)

    def call(self, session: str, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        if session not in self.tools:
            self.tools[session] = Tools(self.servers[session])
        return self.tools[session].ask("tools/call", name=tool, arguments=args)

    async def ask(self, session: str, number: int, command: str) -> None:
        call = ToolCallUpdate(
            tool_call_id=f"call-{number}", title=f"Run {command}", kind="execute", raw_input={"command": command}
        )
        answer = await self.client.request_permission(session_id=session, tool_call=call, options=OPTIONS)
        outcome = answer.outcome.model_dump(by_alias=True)
        log(what="answered", command=command, outcome=outcome)
        if outcome.get("optionId") in ("yes", "always"):
            self.run(session, command, detached=False)

    async def elicit(self, session: str, question: str) -> None:
        schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
        form = {"mode": "form", "sessionId": session, "message": question, "requestedSchema": schema}
        try:
            answer = await self.client._conn.send_request("elicitation/create", form)
        except acp.RequestError as error:
            answer = {"error": error.code}
        log(what="elicited", question=question, answer=answer)

    def run(self, session: str, command: str, *, detached: bool) -> None:
        child = subprocess.Popen(
            ["/bin/sh", "-c", command], cwd=self.places[session], start_new_session=detached, stdout=subprocess.DEVNULL
        )
        log(what="ran", command=command, child=child.pid)
        if not detached and not plan().get("leaves"):
            child.wait()


if __name__ == "__main__":
    log(what="start", cwd=os.getcwd(), env=sorted(os.environ))
    asyncio.run(acp.run_agent(Scripted(), use_unstable_protocol=True))
