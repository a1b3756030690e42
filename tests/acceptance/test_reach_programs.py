"""The two programs that a newcomer pastes, word for word, against a host that they start themselves."""

# ruff: noqa: E501 - the programs stand here as they stand in the guide
from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.hosts import ROOT, Home, eventually

SPOKE = """
import asyncio
from tallystick import Spoke, Capability, ReachMessage

async def handle_summarize(message: ReachMessage):
    with open(message.payload["file_path"], encoding="utf-8") as f:
        return {"status": "ok", "summary": f.readline().strip()}

async def main():
    spoke = Spoke(spoke_id="agent-file-summary-01",
                  capabilities=[Capability(name="FileSummarize", version="1.0", domain="data-team")],
                  handler_map={"FileSummarize": handle_summarize})       # hub_url="http://127.0.0.1:8765" works too once the host listens
    await spoke.start()
    await asyncio.Event().wait()

asyncio.run(main())
"""

CLIENT = """
import asyncio
from tallystick import ReachClient

async def main():
    client = ReachClient()
    result = await client.sail(target_capability="FileSummarize", payload={"file_path": "/etc/hostname"}, timeout_ms=15000, dedup_key="summary-20241215-01")
    print(result.payload)
    paths = ["/etc/hostname", "/etc/os-release", "/etc/passwd"]
    results = await client.dispatch(requests=[{"target_capability": "FileSummarize", "payload": {"file_path": p}} for p in paths], timeout_ms=30000)
    print([r.payload["summary"] for r in results])

asyncio.run(main())
"""


@pytest.fixture
def home() -> Any:
    with Home() as home:
        yield home


def run(home: Any, name: str, source: str) -> list[str]:
    path = home.place / name
    path.write_text(source, encoding="utf-8")
    return [sys.executable, str(path)]


def started(home: Any, source: str, **env: str) -> Any:
    place = {"XDG_STATE_HOME": str(home.place / "state"), "PYTHONPATH": str(ROOT), **env}
    return home.spawn(*run(home, "spoke.py", source), env=place, cwd=str(home.place))


def first_lines(*paths: str) -> list[str]:
    return [Path(path).read_text(encoding="utf-8").splitlines()[0].strip() for path in paths]


def test_the_two_programs_of_the_guide_run_as_they_stand(home: Any) -> None:
    spoke = started(home, SPOKE)
    eventually(lambda: home.holder() is not None or spoke.poll() is not None, "a host")
    eventually(lambda: "agent-file-summary-01" in home.tally("agents")[1] or spoke.poll() is not None, "the route")
    assert spoke.poll() is None, spoke.stderr.read()
    env = {"PYTHONPATH": str(ROOT)}
    code, out, err = home.run(*run(home, "client.py", CLIENT), env=env, cwd=str(home.place))
    assert code == 0, err
    assert err == ""
    one, many = (ast.literal_eval(line) for line in out.splitlines())
    assert one == {"status": "ok", "summary": first_lines("/etc/hostname")[0]}
    assert many == first_lines("/etc/hostname", "/etc/os-release", "/etc/passwd")


def test_a_spoke_comes_back_by_itself_after_the_host_was_stopped_and_started_by_another(home: Any) -> None:
    spoke = started(home, SPOKE)
    eventually(lambda: "agent-file-summary-01" in home.tally("agents")[1] or spoke.poll() is not None, "the spoke")
    assert home.tally("down")[0] == 0
    assert home.holder() is None
    env = {"PYTHONPATH": str(ROOT)}
    code, out, err = home.run(*run(home, "client.py", CLIENT), env=env, cwd=str(home.place))
    assert code == 0, err
    assert "ok" in out
    assert spoke.poll() is None
