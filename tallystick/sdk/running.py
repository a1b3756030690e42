"""A spoke that was started: its connection, its heartbeat, its work."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec

from tallystick.sdk.capability import Capability, offer_of
from tallystick.sdk.channel import Channel
from tallystick.sdk.errors import ReachError, ReachRefused
from tallystick.sdk.frames import Frame, Heard, frame
from tallystick.sdk.handlers import Handler
from tallystick.sdk.link import Dial, LinkLost
from tallystick.sdk.outbox import ACK_SECONDS, Outbox
from tallystick.sdk.store import SpokeStore
from tallystick.sdk.tables import Held
from tallystick.sdk.work import Bench, Station
from tallystick.sdk.works import Works

log = logging.getLogger("tallystick.sdk")

_ANCHOR_SECONDS = 30.0
_HELD = 10_000


class _Resume(msgspec.Struct, frozen=True):
    delivery: str
    do: str


class _Anchored(msgspec.Struct, frozen=True):
    """What the ACK of ANCHOR says, as far as a spoke needs it."""

    agent: str = ""
    session: str = ""
    workspace: str = ""
    heartbeat_seconds: float = 15.0
    resume: tuple[_Resume, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What a spoke offers, and where."""

    spoke_id: str
    offers: tuple[tuple[Capability, Handler], ...]
    workspace: str
    dial: Dial

    def anchor(self, store: str, incarnation: str, held: list[dict[str, object]], *, has_structs: bool = True) -> Frame:
        """The frame that tells the host of it; without the schemas of Structs for a host that cannot apply them."""
        offers = [offer_of(one, has_structs=has_structs) for one, _ in self.offers]
        body: dict[str, object] = {
            "spoke_id": self.spoke_id,
            "store": store,
            "incarnation": incarnation,
            "capabilities": offers,
        }
        body |= {"held": held} if held else {}
        body |= {"workspace": self.workspace} if self.workspace else {}
        return frame("ANCHOR", body, source_spoke=self.spoke_id)


class Running:
    """What a started spoke is made of."""

    def __init__(self, plan: Plan, store: SpokeStore) -> None:
        self._plan, self._store = plan, store
        self._incarnation = f"{os.getpid()}@{time.time():.3f}"
        self.channel = Channel(plan.dial, greet=self._greet, hear=self._hear, lost=lambda: self.works.lost())
        self.outbox = Outbox(self.channel, store)
        slots = sum(one.concurrency for one, _ in plan.offers)
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix=plan.spoke_id)
        bench = Bench(plan.spoke_id, store, self.channel, self.outbox, self._threads)
        self.works = Works(bench, [Station(one, handler) for one, handler in plan.offers])
        self.beating: asyncio.Task[None] | None = None
        self._beat_seconds = 15.0
        self._beside: set[asyncio.Task[None]] = set()
        self._has_said = False
        """That the host checks no schemas."""

    async def end(self) -> None:
        """Let go of everything."""
        if self.beating is not None:
            self.beating.cancel()
        self.outbox.close()
        self.channel.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._store.close)

    async def say_drain(self) -> None:
        """Tell the host to send nothing more; without a link it finds out by the refusals."""
        try:
            await self.channel.ask(frame("DRAIN", {}, source_spoke=self._plan.spoke_id), seconds=ACK_SECONDS)
        except (LinkLost, ReachError, TimeoutError):
            log.info("The host did not acknowledge the drain of %s", self._plan.spoke_id)

    async def beat(self) -> None:
        """Tell the host that the spoke lives, and how busy it is. A host that does not answer is reached anew."""
        while True:
            await asyncio.sleep(self._beat_seconds)
            if not self.channel.is_up:
                continue
            sent = frame("HEARTBEAT", {"load": self.works.load()}, source_spoke=self._plan.spoke_id)
            try:
                await self.channel.ask(sent, seconds=2 * self._beat_seconds)
            except TimeoutError:
                self.channel.drop("it did not answer two heartbeats")
            except (LinkLost, ReachError) as error:
                log.info("A heartbeat of %s was not taken: %s", self._plan.spoke_id, error)

    async def _greet(self) -> None:
        """ANCHOR: who this is, what it offers, and what it still holds."""
        held: list[Held] = await self._store.do(lambda tables: tables.held())
        told: list[dict[str, object]] = [
            {"delivery": one.delivery, "fence": one.fence, "state": self.works.stage_of(one)} for one in held[:_HELD]
        ]
        self.works.is_held = False  # the host says so again where it is still meant
        try:
            answer = await self._anchor(told)
            anchored = msgspec.convert(answer.body, _Anchored)
        except TimeoutError:
            raise LinkLost("The host did not answer ANCHOR.") from None
        except msgspec.ValidationError as error:
            raise LinkLost(f"The host answered ANCHOR with what cannot be read: {error}.") from None
        self._beat_seconds = max(0.05, anchored.heartbeat_seconds)
        resume = {one.delivery: one.do for one in anchored.resume}
        for one in held:
            await self.works.resume(one, resume.get(one.delivery, ""))
        if self.works.is_draining:
            await self.say_drain()  # a host that was started anew does not know of it
        log.info("Spoke %s is anchored as %s in %s", self._plan.spoke_id, anchored.agent, anchored.workspace)

    async def _anchor(self, held: list[dict[str, object]]) -> Heard:
        """ANCHOR, answered. Where the host cannot apply schemas, this side alone checks by its Structs."""
        whole = self._plan.anchor(self._store.id, self._incarnation, held)
        try:
            return await self.channel.ask(whole, seconds=_ANCHOR_SECONDS)
        except ReachError as error:
            bare = self._plan.anchor(self._store.id, self._incarnation, held, has_structs=False)
            if error.code != "unsupported" or bare["body"] == whole["body"]:
                raise
            if not self._has_said:
                self._has_said = True
                log.warning("Payloads of spoke %s are checked here alone: %s", self._plan.spoke_id, error)
            return await self.channel.ask(bare, seconds=_ANCHOR_SECONDS)

    async def _hear(self, heard: Heard) -> None:
        if heard.kind == "SAIL":
            await self.channel.send(self.works.take(heard))
        elif heard.kind == "RETREAT":
            self._start(heard)
        elif heard.kind == "DRAIN":
            self.works.is_held = True
            await self.channel.send(frame("ACK", {"of": "DRAIN"}, msg_id=heard.msg_id))
        elif heard.kind == "ACK" and heard.body.get("of") == "ANCHOR":
            self.works.is_held = False  # unasked: a person lets it take work again
        elif heard.kind == "FAIL":
            log.warning("The host refused a frame: %s %s", heard.body.get("message"), heard.body.get("remedy", ""))
        elif heard.kind != "ACK":
            raise ReachRefused("unsupported", f"A spoke does not take {heard.kind}.", "Send SAIL, RETREAT or DRAIN.")

    def _start(self, heard: Heard) -> None:
        task = asyncio.create_task(self.works.retreat(heard), name="retreat")
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)
