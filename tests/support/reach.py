"""A hub inside the test that does as told: what a real host cannot be made to do — lie, repeat, reorder, lose answers.

    hub = ScriptedHub()
    spoke = Spoke(..., link=hub.dial)
    await hub.deliver("Echo", {"n": 1})           # SAIL to the spoke
    result = await hub.got("RESULT")

By default it acknowledges everything. `hub.answers["BEGIN"] = lambda frame: []` loses those answers, and so on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tallystick.sdk.frames import Frame, frame
from tallystick.sdk.ids import new_id
from tallystick.sdk.link import Link, LinkLost, MemoryLink

BOUND = 20.0
"""Seconds after which something that must happen has not."""


class ScriptedHub:
    """One hub with one link at a time."""

    def __init__(self) -> None:
        self.heard: list[Frame] = []
        """Everything that came in, in order."""
        self.links = 0
        self.link: Link | None = None
        self.is_reachable = True
        self.answers: dict[str, Callable[[Frame], list[Frame]]] = {"ANCHOR": self.anchored, "PROGRESS": lambda _: []}
        self.resume: dict[str, str] = {}
        """What ANCHOR's answer says about deliveries that the spoke holds."""
        self._changed = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._seen: dict[str, int] = {}

    async def dial(self, may_start: bool) -> Link:
        if not self.is_reachable:
            raise LinkLost("nobody there")
        ours, theirs = MemoryLink.pair()
        self.links += 1
        self.link = ours
        self._reader = asyncio.create_task(self._read(ours))
        return theirs

    async def _read(self, link: Link) -> None:
        try:
            while True:
                found = await link.receive()
                self.heard.append(found)
                self._changed.set()
                for answer in self._answer(found):
                    await link.send(answer)
        except LinkLost:
            return

    def _answer(self, found: Frame) -> list[Frame]:
        kind = found["header"]["msg_type"]
        if kind in self.answers:
            return self.answers[kind](found)
        return [] if kind == "ACK" else [self.ack(found)]

    def ack(self, found: Frame, **body: Any) -> Frame:
        told = {"of": found["header"]["msg_type"], **body}
        if "delivery" in found["body"]:
            told["delivery"] = found["body"]["delivery"]
        return frame("ACK", told, msg_id=found["header"]["msg_id"])

    def fail(self, found: Frame, code: str, message: str = "No.", **body: Any) -> Frame:
        answer = self.ack(found, code=code, message=message, remedy="Look.", **body)
        answer["header"]["msg_type"] = "FAIL"
        return answer

    def anchored(self, found: Frame) -> list[Frame]:
        resume = [
            {"delivery": one["delivery"], "do": self.resume[one["delivery"]]}
            for one in found["body"].get("held", ())
            if one["delivery"] in self.resume
        ]
        told = {"agent": "agt_1", "session": "ses_1", "workspace": "default", "heartbeat_seconds": 15.0}
        return [self.ack(found, **told, lease_seconds=120.0, resume=resume)]

    # --- what a test does ---

    async def send(self, sent: Frame) -> None:
        assert self.link is not None
        await self.link.send(sent)

    async def deliver(self, capability: str, payload: Any, **given: Any) -> Frame:
        """SAIL to the spoke. `given`: fields of the body, or of the header by their names there."""
        head = {name: given.pop(name) for name in ("dedup_key", "traceparent", "timeout_ms") if name in given}
        body = {"delivery": new_id("dlv"), "task_id": new_id("tsk"), "fence": 1, "attempt": 1, "payload": payload}
        sent = frame(
            "SAIL",
            {**body, **given},
            msg_id=given.pop("msg_id", "") or new_id("msg"),
            target_capability=capability,
            trace_id="trc_1",
            **head,
        )
        sent["body"].pop("msg_id", None)
        await self.send(sent)
        return sent

    async def got(self, kind: str, where: Callable[[Frame], bool] = lambda _: True) -> Frame:
        """The next frame of that kind that was not asked for yet; waits for it."""
        async with asyncio.timeout(BOUND):
            while True:
                start = self._seen.get(kind, 0)
                for index in range(start, len(self.heard)):
                    found = self.heard[index]
                    if found["header"]["msg_type"] == kind and where(found):
                        self._seen[kind] = index + 1
                        return found
                self._changed.clear()
                await self._changed.wait()

    def count(self, kind: str) -> int:
        return sum(found["header"]["msg_type"] == kind for found in self.heard)

    def cut(self) -> None:
        """The network is gone."""
        assert self.link is not None
        self.link.close()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that a frame brings about."""
        async with asyncio.timeout(BOUND):
            while not condition():
                self._changed.clear()
                await asyncio.wait({asyncio.ensure_future(self._changed.wait())}, timeout=0.02)
