"""Whole hosts that drive the scripted agent of `acp_agent`, and what their tests share."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from tests.support.clients import setups
from tests.support.clients.install import need
from tests.support.clients.pins import CLIENTS
from tests.support.hosts import ROOT, eventually
from tests.support.model import tokens_read, tokens_written
from tests.support.places import Place

PACKAGES = {"claude": "claude-agent-acp", **{name: f"{name}-acp" for name in ("codex", "pi", "qwen", "vibe")}}
"""The pinned package of a client that is driven by another program than its own."""
AGENT = Path(__file__).with_name("acp_agent.py")
ADAPTER = Path(__file__).with_name("acp_adapter.py")


def do(*steps):
    """A body whose script the scripted agent carries out."""
    return f"Please. @@DO {json.dumps(list(steps))} @@"


TAKE = {"call": "take"}
DONE = {"call": "submit", "args": {"text": "All is well."}}


class Stage(Place):
    """A host with a scripted agent that it drives."""

    def __init__(self, **limits):
        super().__init__(**{"turn_note_seconds": 0.05, **limits})
        self.folder = self.place / "agent"
        self.folder.mkdir()

    def plan(self, **wishes):
        new = self.folder / "plan.new"
        new.write_text(json.dumps(wishes))
        new.replace(self.folder / "plan.json")

    def own(self, name, text, mode=0o600):
        """The agent's own file."""
        file = self.path / "agents" / f"{name}.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def driven(self, name="reviewer", more="", program=AGENT, **form):
        """Join the scripted agent, driven by its command line; `program`: another one in front of it."""
        self.own(name, f"writable = [{json.dumps(str(self.folder))}]\nreadable = [{json.dumps(str(ROOT))}]\n{more}")
        line = shlex.join([sys.executable, str(program), str(self.folder)])
        return self.call("join", name=name, drive=line, **form)

    def known(self, client, name="reviewer", more="", **form):
        """Join the scripted agent as if it were a client of the table: what that one says, it is taken for."""
        folder = self.place / f"{client}.bin"
        folder.mkdir()
        program = folder / f"{client}-acp"
        program.write_text(f"#!/bin/sh\nexec {shlex.join([sys.executable, str(AGENT), str(self.folder)])}\n")
        program.chmod(0o755)
        self.own(name, f'mode = "ask"\nsandbox = false\ncanary = false\n{more}')
        path = os.pathsep.join([str(folder), os.environ["PATH"]])
        return self.call("join", env={"PATH": path}, name=name, drive=client, **form)

    def ask(self, *steps, to="reviewer", **form):
        """A task whose words are a script."""
        return self.call("ask", address=f"@{to}", **{"title": "a task", "body": do(*steps), **form})["task_id"]

    def log(self, what=""):
        """What the agent did, as it wrote it down."""
        file = self.folder / "log.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [line for line in lines if not what or line["what"] == what]

    def until_log(self, what, count=1):
        return eventually(lambda: found if len(found := self.log(what)) >= count else None, f"{count} × {what}")

    def processes(self, program=AGENT):
        """Numbers of the processes of this stage that run a program."""
        found = []
        for folder in Path("/proc").iterdir():
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
                if str(self.folder).encode() in words and any(word.endswith(program.name.encode()) for word in words):
                    found.append(int(folder.name))
        return found

    def opens(self, name):
        (self.folder / name).touch()

    def used(self, task):
        """What its turns used, in the words that a person reads: one line for each turn that has ended."""
        lines = [line["text"] for line in self.show(task)["history"] if line["what"].startswith("turn ended")]
        return [re.findall(r"\[used: (.*)\]", text)[-1] for text in lines]

    def until_used(self, task):
        return eventually(lambda: self.used(task), "the end of a turn")

    def facts(self, task):
        return {fact["fact"]: fact for fact in self.show(task)["facts"]}

    def permission(self, task):
        """The permission that waits."""

        def waiting():
            code, out, err = self.tally("permission", "list", "--json")
            assert code == 0, err
            found = [p for p in json.loads(out)["permissions"] if p["task_id"] == task]
            return found[0] if found else None

        return eventually(waiting, "a permission")


def model_tokens(model, task):
    """What the scripted model counted of each call for a task, from its prompt on. Some clients make calls besides,
    with far fewer tools: those are left out."""
    asked = [r for r in model.requests if r.asks and task in r.seen.text]
    most = max(len(request.seen.tools) for request in asked)
    turns = [request for request in asked if 2 * len(request.seen.tools) > most]
    return [tokens_read(request) + tokens_written(request.answer) for request in turns]


def counted(client, calls):
    """The words for that in the history, as far as the client tells."""
    at_least = f"at least {calls[-1]} tokens"
    told = {"pi": "tokens unknown", "opencode": at_least, "vibe": at_least}
    return told.get(client, f"{sum(calls)} tokens")


class RealStage(Stage):
    """A host that drives a real client against the scripted model."""

    def __init__(self, client, model, host="127.0.0.1", **limits):
        super().__init__(**limits)
        self.client_name = client
        self.model = model
        self.host_name = host
        """By which name its client knows the model; the host of the test knows what address that is."""
        self.wishes = {"names": {host: "127.0.0.1"}}
        self.pin = CLIENTS[PACKAGES.get(client, client)]
        self.bin = need(self.pin.name) / self.pin.bin
        self.person = self.place / "person"
        for name in ("home", "tmp"):
            (self.person / name).mkdir(parents=True)

    def turns_to(self, client):
        """Whoever joins from here on is this client."""
        package = {"codex": "codex-acp", "claude": "claude-agent-acp"}[client]
        self.client_name, self.bin = client, need(package) / "node_modules" / ".bin"

    def join(self, name="reviewer", more="", **form):
        """Join the real client under a name, with a home and keys of its own."""
        home = self.person / "home"
        environment = {"HOME": str(home), "TMPDIR": str(self.person / "tmp"), "NO_PROXY": "127.0.0.1"}
        environment |= SETUPS[self.client_name](home, self.model.url.replace("127.0.0.1", self.host_name))
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in environment.items())
        self.own(name, f"{more}\n[environment]\n{lines}")
        path = os.pathsep.join([str(self.bin), str(Path(shutil.which("node")).parent), os.environ["PATH"]])
        shown = self.call("join", env={"PATH": path}, name=name, drive=self.client_name, **form)
        assert shown["connection"] == "drive"
        return shown


def codex_home(home, url):
    """The settings of Codex, and what its environment needs."""
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(
        f"""model = "fake-model"
model_provider = "fake"
approval_policy = "on-request"
sandbox_mode = "workspace-write"
check_for_update_on_startup = false
[model_providers.fake]
name = "Fake"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
requires_openai_auth = false
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
"""
    )
    return {"FAKE_KEY": "dummy", "NO_BROWSER": "1"}


def claude_home(home, url):
    """The same of Claude Code."""
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "dummy",
        "ANTHROPIC_MODEL": "claude-sonnet-4-5",
        "ANTHROPIC_SMALL_FAST_MODEL": "claude-haiku-4-5",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
    }


def asking(client):
    """The settings of other clients, as for a person who opens them: they ask before they act."""
    return lambda home, url: setups.SETUPS[client](home, home, url, setups.Wishes(allow=False))


DRIVEN_BY_CHOICE = ("gemini", "opencode", "pi", "qwen", "vibe")
"""Those that are driven where TALLY_TEST_CLIENTS names them."""
SETUPS = {"codex": codex_home, "claude": claude_home, **{name: asking(name) for name in DRIVEN_BY_CHOICE}}
