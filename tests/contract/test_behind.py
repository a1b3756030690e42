"""What a host does behind everybody's back outlives a failure, which the diagnostics tell of."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tallystick.app.custody import Hints
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.host import Host
from tallystick.core import commands as cmd
from tallystick.core.identity import Prefix
from tallystick.core.rows import SeenRow
from tallystick.edge.mcp import channel, serving
from tallystick.edge.spoke import frames as f
from tallystick.edge.spoke.hub import Hub as SpokeHub
from tests.support.hub import Hub

PATIENCE = 20.0


class Fails:
    """Fails the first time, and does as it should from then on."""

    def __init__(self, does: Any = None) -> None:
        self.times = 0
        self._does = does

    async def __call__(self, *given: Any, **named: Any) -> Any:
        self.times += 1
        if self.times == 1:
            raise RuntimeError("broken")
        return await self._does(*given, **named) if self._does else None


async def until(condition: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - whatever is awaited goes on meanwhile
            await asyncio.sleep(0)


def failures(diagnostics: Diagnostics) -> list[str]:
    return [record["where"] for record in diagnostics.newest(100) if record["kind"] == "failure"]


async def test_a_hint_that_could_not_be_counted_is_counted_at_the_next_change(tmp_path: Path, monkeypatch) -> None:
    async with Hub(tmp_path) as hub:
        views = hub.desk.s.views
        agent = hub.new_id(Prefix.AGENT)
        join = cmd.JoinAgent(agent_id=agent, alias="a", workspace=hub.workspace, connection="client", client="claude")
        await hub.executor.execute(join, hub.guest().actor)
        monkeypatch.setattr(views, "unseen", Fails(views.unseen))
        hints = Hints(tmp_path, lambda home, client: f"{home}/hints/{client}", hub.heads, views, hub.diagnostics)
        await hints.start()
        await until(lambda: failures(hub.diagnostics))
        assert failures(hub.diagnostics) == ["hints"]
        assert not (tmp_path / "hints" / "claude").exists(), "no hint means: look"
        hints.inbox_changed(SeenRow(party="agt_another", task_id="tsk_1", version=1))
        await until((tmp_path / "hints" / "claude").exists)
        assert (tmp_path / "hints" / "claude").read_text() == "0\n"
        await hints.stop()


class Watching:
    """A call of `tally mcp` that watches until it is interrupted."""

    facts = SimpleNamespace(environment={})

    def __init__(self) -> None:
        self.arguments = {"watch": [], "channel": True}
        self.over = asyncio.Event()
        self.said: list[str] = []

    async def interrupted(self) -> None:
        await self.over.wait()

    async def out(self, text: str) -> None:
        self.said.append(text)


async def test_a_session_that_could_not_be_heard_once_is_heard_again_and_told_in_its_work(
    tmp_path: Path, monkeypatch
) -> None:
    async def head(_guest: Any) -> dict[str, Any]:
        return {"position": 0}

    async def notices(*_: Any) -> Any:
        yield {"what": "new"}
        await asyncio.Event().wait()

    monkeypatch.setattr(serving, "BEAT_SECONDS", 0.0)
    monkeypatch.setattr(channel, "notices", notices)
    heard, read = Fails(), Fails(head)
    protocol: Any = SimpleNamespace(
        guest=heard, desk=SimpleNamespace(log_head=read), diagnostics=Diagnostics(tmp_path / "host.jsonl")
    )
    call: Any = Watching()
    watching = asyncio.create_task(serving.Serving(protocol, lambda *_: {})(call))
    await until(lambda: heard.times > 10 and call.said)
    call.over.set()
    await watching
    assert failures(protocol.diagnostics) == ["mcp sign of life", "mcp channel"]


async def test_progress_that_could_not_be_recorded_does_not_end_the_recording() -> None:
    told, reported = Fails(), list[Exception]()
    hub: Any = SimpleNamespace(desk=SimpleNamespace(told=told), unforeseen=reported.append)
    envelope: Any = SimpleNamespace(session="ses_1", task_id="tsk_1", fence=1)
    for text in ("half", "whole"):
        await SpokeHub.noted(hub, envelope, f.Progress(delivery="dlv_1", fence=1, text=text))
    assert (told.times, [str(error) for error in reported]) == (2, ["broken"])


class Careless:
    """Begins something that fails, and looks after it no more."""

    async def start(self) -> None:
        asyncio.get_running_loop().create_task(Fails()())
        asyncio.get_running_loop().call_soon(self.breaks)

    def breaks(self) -> None:
        raise ValueError("broken, too")

    async def stop(self) -> None:
        """Nothing is left."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_what_fails_with_nobody_to_tell_is_told_by_the_diagnostics(tmp_path: Path) -> None:
    diagnostics = Diagnostics(tmp_path / "host.jsonl")
    host = Host(tmp_path, [Careless()], diagnostics=diagnostics)
    running = asyncio.create_task(host.run())
    await until(lambda: gc.collect() >= 0 and len(failures(diagnostics)) == 2)
    host.request_stop("enough")
    await running
    found = {record["error"] for record in diagnostics.newest(100) if record["kind"] == "failure"}
    assert found == {"RuntimeError('broken')", "ValueError('broken, too')"}
