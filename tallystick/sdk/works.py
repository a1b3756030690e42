"""All work of a spoke: what comes in is taken, joined or refused, and what the host takes back is stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

import msgspec

from tallystick.sdk.digest import digest_of
from tallystick.sdk.errors import ReachError, ReachRefused, invalid
from tallystick.sdk.frames import Frame, Heard, Sail, frame, refusal
from tallystick.sdk.tables import Ask, Held, Outcome
from tallystick.sdk.work import UNKNOWN, Bench, Station, Work

log = logging.getLogger("tallystick.sdk")


class Works:
    """Implements the spoke's side of SAIL and RETREAT."""

    def __init__(self, bench: Bench, stations: Iterable[Station]) -> None:
        self.is_draining = False
        """It was asked to by its own program."""
        self.is_held = False
        """The host asked, because a person wants it; until it says otherwise."""
        self._bench = bench
        self._stations = {station.capability.name: station for station in stations}
        self._by_effect: dict[tuple[str, str], Work] = {}
        self._by_delivery: dict[str, Work] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def load(self) -> dict[str, dict[str, int]]:
        """How busy each capability is, as HEARTBEAT tells it."""
        return {name: {"running": one.running, "queued": one.queued} for name, one in self._stations.items()}

    # --- SAIL ---

    def take(self, heard: Heard) -> Frame:
        """A delivery. The answer: acknowledged, or refused before anything began; the host then gives it to another, or
        waits."""
        try:
            self._take(heard)
        except ReachError as error:
            return refusal(heard, error)
        return frame("ACK", {"of": "SAIL", "delivery": heard.body["delivery"]}, msg_id=heard.msg_id)

    def _take(self, heard: Heard) -> None:
        try:
            sail = msgspec.convert(heard.body, Sail)
        except msgspec.ValidationError as error:
            raise invalid(f"The SAIL cannot be read: {error}.", "Send the fields of the reference.") from None
        known = self._by_delivery.get(sail.delivery)
        if known is not None and not self._is_anew(known, sail):
            return
        station = self._station(heard)
        ask = ask_of(heard, sail, station)
        live = self._by_effect.get((ask.capability, ask.key))
        if live is not None and live.stage != "over":
            _check_joins(ask, live.ask)
            self._start(ask, live, live.join(ask))
            return
        if station.is_full:
            raise ReachRefused(
                "unavailable",
                f"{station.queued} messages wait here for {ask.capability} already.",
                "Try again later, or let another spoke have it.",
            )
        work = Work(self._bench, station, heard, sail, ask)
        self._by_effect[ask.capability, ask.key] = work
        self._start(ask, work, work.run())

    def _is_anew(self, known: Work, sail: Sail) -> bool:
        """Whether the host hands it over again because it never began: then the earlier one never will."""
        is_earlier = known.ask.delivery == sail.delivery and known.ask.fence < sail.fence
        if not is_earlier or known.stage not in ("queued", "begun"):
            return False
        known.is_dropped = True
        self._leave(sail.delivery)
        self._by_effect.pop((known.ask.capability, known.ask.key), None)
        return True

    def _station(self, heard: Heard) -> Station:
        if self.is_draining or self.is_held:
            raise ReachRefused("unavailable", "This spoke takes no new messages: it is draining.", "Try another.")
        name = heard.header.target_capability.partition("@")[0]
        station = self._stations.get(name)
        if station is None:
            raise ReachRefused("no_route", f"This spoke does not offer {name!r}.", "Look at `tally routes`.")
        return station

    def _start(self, ask: Ask, work: Work, doing: Coroutine[Any, Any, None]) -> None:
        self._by_delivery[ask.delivery] = work
        task = self._tasks[ask.delivery] = asyncio.create_task(doing, name=f"delivery {ask.delivery}")
        task.add_done_callback(lambda done: self._done(done, ask, work))

    def _done(self, task: asyncio.Task[None], ask: Ask, work: Work) -> None:
        if self._tasks.get(ask.delivery) is task:
            del self._tasks[ask.delivery], self._by_delivery[ask.delivery]
        if work.ask is ask:
            work.end()
            if self._by_effect.get((ask.capability, ask.key)) is work:
                del self._by_effect[ask.capability, ask.key]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("Delivery %s failed inside the spoke", ask.delivery, exc_info=error)

    # --- RETREAT ---

    async def retreat(self, heard: Heard) -> None:
        """The host takes a delivery back: answered by FAIL `canceled`, or by the outcome that is or will be there."""
        delivery = str(heard.body.get("delivery", ""))
        why = str(heard.body.get("why", ""))
        work = self._by_delivery.get(delivery)
        if work is None:
            self._tell(heard, delivery, await self._bench.store.do(lambda tables: tables.known(delivery)))
        elif work.ask.delivery != delivery or not await work.cancel(why):  # one that joined leaves, the first goes on
            self._leave(delivery)
            self._tell(heard, delivery, None)

    def _leave(self, delivery: str) -> None:
        """It is not to begin; what the store may have noted of that is forgotten."""
        self._tasks[delivery].cancel()
        self._bench.store.soon(lambda tables: tables.forget(delivery))

    def _tell(self, heard: Heard, delivery: str, held: Held | None) -> None:
        """What is known of a delivery that no work is under way for."""
        if held is None:
            none = Outcome(code="canceled", message="It was not begun here.", began=False)
            self._bench.outbox.post_once(delivery, heard.msg_id, none)
        else:
            self._bench.outbox.post(delivery, held.fence, held.message, held.outcome or UNKNOWN)

    # --- ANCHOR ---

    def stage_of(self, held: Held) -> str:
        """How ANCHOR tells of a delivery that the store holds."""
        work = self._by_delivery.get(held.delivery)
        return "running" if held.state == "begun" and work is not None and work.stage == "running" else held.state

    async def resume(self, held: Held, do: str) -> None:
        """What the host wants of a delivery that ANCHOR told of."""
        work = self._by_delivery.get(held.delivery)
        if do != "drop":
            if work is None and (held.outcome is not None or do == "go_on"):  # there is nobody to go on with it
                self._bench.outbox.post(held.delivery, held.fence, held.message, held.outcome or UNKNOWN)
            return
        if work is not None and work.ask.delivery == held.delivery and work.ask.fence > held.fence:
            return  # it was handed over anew meanwhile: only the earlier one is dropped, and that is gone
        self._bench.outbox.forget(held.delivery)
        self._bench.store.soon(lambda tables: tables.drop(held.delivery))
        if work is not None and work.ask.delivery == held.delivery:
            work.is_dropped = True
            if not await work.cancel("The host gave it to another, or settled it."):
                self._leave(held.delivery)
        elif work is not None:
            self._tasks[held.delivery].cancel()

    def lost(self) -> None:
        """The link is gone: what was not begun goes back to the host by itself."""
        for delivery, work in list(self._by_delivery.items()):
            if work.stage == "queued" and work.ask.delivery == delivery:
                self._tasks[delivery].cancel()

    async def finished(self) -> None:
        """Wait until no work is under way."""
        while self._tasks:
            await asyncio.wait(set(self._tasks.values()))

    async def stop(self) -> None:
        """End everything: what waits is given back, what runs is cancelled; a thread is left to its end."""
        self.is_draining = True
        for delivery, work in list(self._by_delivery.items()):
            if not await work.cancel("The spoke stopped."):
                self._leave(delivery)
                gone = Outcome(code="unavailable", message="The spoke stopped before it began.", began=False)
                self._bench.outbox.post_once(delivery, work.ask.message, gone)


def _check_joins(ask: Ask, live: Ask) -> None:
    """What is under way for an earlier result is not what is wanted now, and nothing of it runs beside it."""
    if live.task == ask.task and live.revision < ask.revision:
        raise ReachRefused("unavailable", "The attempt before still runs here.", "Try again when it has ended.")


def _rests_on(sail: Sail) -> dict[str, Any]:
    """The context with what it refers to: the same words with other content are another request."""
    referred = {"references": msgspec.to_builtins(sail.references)} if sail.references else {}
    return {**(sail.context or {}), **referred}


def ask_of(heard: Heard, sail: Sail, station: Station) -> Ask:
    """What the store knows a delivery by. A key counts among those of its caller in its workspace, as at the host;
    without one the message is its own key."""
    header = heard.header
    place = [sail.workspace] if sail.workspace else []
    scope = [str(sail.caller or ""), header.dedup_key, *place] if header.dedup_key else [heard.msg_id]
    return Ask(
        delivery=sail.delivery,
        fence=sail.fence,
        message=heard.msg_id,
        capability=station.capability.name,
        key=msgspec.json.encode(scope).decode(),
        digest=digest_of(sail.payload, _rests_on(sail)),
        task=sail.task_id,
        revision=sail.revision,
        is_idempotent=station.capability.idempotent,
    )
