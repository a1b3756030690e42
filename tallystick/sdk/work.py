"""One piece of work in a spoke: a delivery from its arrival to its outcome, once."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from tallystick.sdk.capability import Capability
from tallystick.sdk.channel import Channel, pauses
from tallystick.sdk.context import slice_from
from tallystick.sdk.errors import ReachError
from tallystick.sdk.failure import failure_of
from tallystick.sdk.fetching import fetched
from tallystick.sdk.frames import Heard, Sail, frame
from tallystick.sdk.handlers import Handler, is_coroutine, outcome_of
from tallystick.sdk.link import LinkLost
from tallystick.sdk.message import ReachMessage
from tallystick.sdk.outbox import ACK_SECONDS, Outbox
from tallystick.sdk.reference import Reference
from tallystick.sdk.store import SpokeStore
from tallystick.sdk.tables import Ask, Outcome

log = logging.getLogger("tallystick.sdk")

Stage: TypeAlias = Literal["queued", "begun", "running", "over"]
"""`queued`: waits for a slot · `begun`: stored, and the host is being told · `running`: the handler runs."""

UNKNOWN = Outcome(
    code="unverified",
    message="It was begun in an earlier process of the spoke, and what came of it is not known. It is not run again.",
)
"""Of what the store knows to be begun, and no handler is running for."""

_OTHER_BODY = Outcome(
    code="conflict", message="The same key was used before with another payload or context.", began=False
)


@dataclass
class Station:
    """One capability of a spoke: its handler, its slots, and how busy it is."""

    capability: Capability
    handler: Handler
    running: int = 0
    queued: int = 0
    slots: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self.slots = asyncio.Semaphore(self.capability.concurrency)

    @property
    def is_full(self) -> bool:
        """Whether as many wait as may: the host is told, and gives the message to another or waits."""
        return self.queued >= max(16, self.capability.concurrency)


@dataclass
class Bench:
    """What all pieces of work of a spoke share."""

    spoke_id: str
    store: SpokeStore
    channel: Channel
    outbox: Outbox
    threads: ThreadPoolExecutor


class Work:
    """Does what one delivery asks for, unless the store says that it was done or begun before."""

    def __init__(self, bench: Bench, station: Station, heard: Heard, sail: Sail, ask: Ask) -> None:
        self.ask = ask
        self.stage: Stage = "queued"
        self.why_canceled = ""
        self.is_dropped = False
        """The host said that it is no longer ours."""
        self._bench, self._station = bench, station
        self._is_queued = True
        station.queued += 1
        self._heard, self._sail = heard, sail
        self._message: ReachMessage | None = None
        self._handling: asyncio.Task[Outcome] | None = None
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        """What came of it, for those who joined. Cancelled where nothing was begun."""

    async def run(self) -> None:
        """From the queue to the outbox."""
        try:
            payload = self._station.capability.checks.check_payload(self._sail.payload, self._where)
            context = slice_from(self._sail.context, self._references())
        except ReachError as error:
            self._answer(Outcome(code=error.code, message=error.message, began=False))
            return
        self._message = ReachMessage(self._heard.header, self._sail, payload, context, self._tell)
        await self._in_a_slot(self._message)

    def _references(self) -> tuple[Reference, ...]:
        fetch = partial(fetched, self._bench.channel, self.ask.delivery)
        return tuple(Reference(told, index, fetch) for index, told in enumerate(self._sail.references))

    async def _in_a_slot(self, message: ReachMessage) -> None:
        station = self._station
        await station.slots.acquire()
        self._unqueue()
        station.running += 1
        try:
            await self._once(message)
        finally:
            station.running -= 1
            station.slots.release()

    def end(self) -> None:
        """Its task is over, or was cancelled before it began."""
        self._unqueue()
        self.stage = "over"
        if not self.outcome.done():
            self.outcome.cancel()

    def _unqueue(self) -> None:
        """It waits no more."""
        if self._is_queued:
            self._is_queued = False
            self._station.queued -= 1

    async def _once(self, message: ReachMessage) -> None:
        """The rule of once: stored, then acknowledged, then run, then stored, then told."""
        self.stage = "begun"
        store, ask = self._bench.store, self.ask
        try:
            verdict = await store.do(lambda tables: tables.begin(ask))
        except ReachError as error:
            self._answer(Outcome(code="unavailable", message=error.message, began=False))
            return
        if verdict.say in ("conflict", "doubt"):
            self._answer(_OTHER_BODY if verdict.say == "conflict" else UNKNOWN)
            return
        if not await self.begin(ask):
            store.soon(lambda tables: tables.forget(ask.delivery))
            return
        self.stage = "running"
        outcome = verdict.outcome or await self._handled(message)
        self.outcome.set_result(outcome)
        if self.is_dropped:
            store.soon(lambda tables: tables.settle(ask.delivery))
        else:
            self._bench.outbox.post(ask.delivery, ask.fence, ask.message, outcome)

    async def begin(self, ask: Ask) -> bool:
        """Have the host record that this delivery begins; asked again until it answers. False: it must not run."""
        waits = pauses()
        said = frame("BEGIN", {"delivery": ask.delivery, "fence": ask.fence}, msg_id=ask.message)
        while True:
            await self._bench.channel.up()
            if self.is_dropped or self.why_canceled:
                return False
            try:
                await self._bench.channel.ask(said, ask.delivery, seconds=ACK_SECONDS)
            except (LinkLost, TimeoutError):
                pass
            except ReachError as error:
                if error.code != "unavailable":
                    log.info("The host does not want delivery %s to begin: %s", ask.delivery, error)
                    return False
            else:
                return not self.is_dropped
            await asyncio.sleep(next(waits))

    async def _handled(self, message: ReachMessage) -> Outcome:
        """Run the handler, and have what came of it on the disk."""
        station, bench = self._station, self._bench
        self._handling = asyncio.create_task(
            outcome_of(station.handler, station.capability, message, bench.spoke_id, bench.threads),
            name=f"handle {station.capability.name}",
        )
        try:
            await asyncio.wait({self._handling})
        except asyncio.CancelledError:
            await self._at_the_end_of_the_loop(self._handling)
            raise
        return await self._kept(self._result(self._handling))

    async def _kept(self, outcome: Outcome) -> Outcome:
        """Have it on the disk, however long the disk is full: it is told to nobody before. One that no disk takes is a
        failure."""
        for pause in pauses():
            try:
                await self._bench.store.do(lambda tables, told=outcome: tables.finish(self.ask, told))  # type: ignore[misc]
            except ReachError as error:
                log.error("The outcome of delivery %s cannot be stored yet: %s", self.ask.delivery, error)  # noqa: TRY400
                if error.code == "invalid":
                    outcome = Outcome(code="failed", message=error.message)
                await asyncio.sleep(pause)
            else:
                break
        return outcome

    def _result(self, handling: asyncio.Task[Outcome]) -> Outcome:
        if not handling.cancelled():
            error = handling.exception()
            return handling.result() if error is None else failure_of(error, self.ask.message)
        return Outcome(code="canceled", message=self.why_canceled or "The handler was cancelled in its own process.")

    async def _at_the_end_of_the_loop(self, handling: asyncio.Task[Outcome]) -> None:
        """The program ends while the handler runs. A coroutine ends too, and what came of it is kept; of a thread
        nobody knows, so its delivery stays begun."""
        handling.cancel()
        await asyncio.wait({handling}, timeout=ACK_SECONDS)
        if handling.done() and is_coroutine(self._station.handler):
            outcome = self._result(handling)
            self._bench.store.do_now(lambda tables: tables.finish(self.ask, outcome))

    # --- from outside ---

    @property
    def is_stopping(self) -> bool:
        """Its handler runs, and was asked to stop: what comes of it is not the outcome that anybody else asks for."""
        return self.stage == "running" and (self.is_dropped or bool(self.why_canceled))

    async def join(self, ask: Ask) -> None:
        """Another delivery asks for what is under way here: it begins too, and is told the same outcome."""
        verdict = await self._bench.store.do(lambda tables: tables.join(ask))
        if verdict.say == "conflict":
            self._bench.outbox.post(ask.delivery, ask.fence, ask.message, _OTHER_BODY, is_kept=False)
            return
        if not await self.begin(ask):
            self._bench.store.soon(lambda tables: tables.forget(ask.delivery))
            return
        await asyncio.wait({self.outcome})
        if not self.outcome.cancelled():
            self._bench.outbox.post(ask.delivery, ask.fence, ask.message, self.outcome.result())

    async def cancel(self, why: str) -> bool:
        """The host takes it back. Returns whether an outcome will be told; False: the handler never ran."""
        self.why_canceled = why or "The host took it back."
        if self._message is not None:
            self._message.is_canceled = True
        if self.stage in ("queued", "begun"):
            return False
        if self._handling is not None and is_coroutine(self._station.handler):
            self._handling.cancel()
        elif self._handling is not None:
            await self._tell(
                "Asked to stop. This handler runs in a thread, which cannot be stopped: its outcome follows."
            )
        return True

    async def _tell(self, text: str, fraction: float | None = None) -> None:
        body: dict[str, Any] = {"delivery": self.ask.delivery, "fence": self.ask.fence, "text": text}
        if fraction is not None:
            body["fraction"] = fraction
        try:
            await self._bench.channel.send(frame("PROGRESS", body, msg_id=self.ask.message))
        except LinkLost:
            log.debug("A note of progress was dropped: there is no link now")

    def _answer(self, outcome: Outcome) -> None:
        """An outcome without a handler; the store does not know of it."""
        self._bench.outbox.post(self.ask.delivery, self.ask.fence, self.ask.message, outcome, is_kept=False)

    @property
    def _where(self) -> str:
        return f"capability {self._station.capability.name}"
