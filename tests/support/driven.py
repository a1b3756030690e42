"""Whole hosts that drive the scripted agent of `acp_agent`, and what their tests share."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from tests.support.hosts import eventually
from tests.support.places import Place

AGENT = Path(__file__).with_name("acp_agent.py")


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

    def driven(self, name="reviewer", **form):
        """Join the scripted agent, driven by its command line."""
        line = shlex.join([sys.executable, str(AGENT), str(self.folder)])
        return self.call("join", name=name, drive=line, **form)

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

    def opens(self, name):
        (self.folder / name).touch()

    def facts(self, task):
        return {fact["fact"]: fact for fact in self.show(task)["facts"]}

    def permission(self, task):
        """The permission that waits."""

        def waiting():
            found = [p for p in self.call("permissions")["permissions"] if p["task_id"] == task]
            return found[0] if found else None

        return eventually(waiting, "a permission")
