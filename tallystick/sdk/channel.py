"""A link that is kept: opened anew when it is lost, with growing pauses; questions on it find their answers."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from itertools import chain

from tallystick.sdk.errors import ReachError, ReachRefused, from_body
from tallystick.sdk.frames import Frame, Heard, WrongVersion, read, refusal
from tallystick.sdk.link import Dial, Link, LinkLost

log = logging.getLogger("tallystick.sdk")

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 10.0
"""Seconds between two attempts to open the link again: doubled each time, up to the second."""


def pauses() -> Iterator[float]:
    """Growing pauses with a jitter, so that many who lost the same host do not come back in one moment."""
    pause = FIRST_PAUSE
    while True:
        yield pause * random.uniform(0.75, 1.25)  # noqa: S311 - chance that nobody need not guess
        pause = min(pause * 2, LONGEST_PAUSE)


class Channel:
    """One conversation with a host over as many links as it takes.

    `greet` runs on each new link before anybody else may use it; `hear` gets every frame that is no answer; `lost` is
    told of each loss, `refused` of each refusal; while `is_wanted` says so a lost link is opened anew."""

    def __init__(
        self,
        dial: Dial,
        *,
        greet: Callable[[], Awaitable[None]],
        hear: Callable[[Heard], Awaitable[None]],
        lost: Callable[[], None] = lambda: None,
        refused: Callable[[ReachError], None] = lambda _: None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._dial = dial
        self._greet, self._hear, self._lost = greet, hear, lost
        self._refused, self._is_wanted = refused, is_wanted
        self._link: Link | None = None
        self._asked: dict[tuple[str, str], list[asyncio.Future[Heard]]] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._first: asyncio.Future[None] | None = None
        self._up = asyncio.Event()
        self._was_up = False
        self.number = 0
        """How many links there were, the present one included."""

    @property
    def is_up(self) -> bool:
        """Whether there is a link and it was greeted."""
        return self._up.is_set()

    async def open(self) -> None:
        """Open the first link, or the next one after the keeping ended. Raises `ReachError` where that is refused or
        nobody answers."""
        if self._keeper is None or self._keeper.done():
            self._first = asyncio.get_running_loop().create_future()
            self._keeper = asyncio.create_task(self._keep(self._first), name="tallystick link")
        if self._first is not None:
            await asyncio.shield(self._first)

    async def up(self) -> None:
        """Wait until there is a greeted link."""
        await self._up.wait()

    async def send(self, frame: Frame) -> None:
        """Send on the present link. Raises `LinkLost`, also where there is none."""
        if self._link is None:
            raise LinkLost("There is no link to the host now.")
        await self._link.send(frame)

    async def ask(self, frame: Frame, about: str = "", *, seconds: float | None = None) -> Heard:
        """Send, and wait for the ACK: that of the frame's own message, or that `about` a delivery. Raises `ReachError`
        for a FAIL, `LinkLost`, and `TimeoutError` after `seconds`."""
        key = (frame["header"]["msg_type"], about or frame["header"]["msg_id"])
        waiting: asyncio.Future[Heard] = asyncio.get_running_loop().create_future()
        self._asked.setdefault(key, []).append(waiting)
        try:
            await self.send(frame)
            async with asyncio.timeout(seconds):
                return await waiting
        finally:
            left = [other for other in self._asked.pop(key, ()) if other is not waiting]
            if left:
                self._asked[key] = left

    def drop(self, why: str) -> None:
        """Give the present link up; it is opened anew."""
        log.warning("The link to the host is given up: %s", why)
        if self._link is not None:
            self._link.close()

    def close(self) -> None:
        """End it, now. Who waits for the first link is told."""
        if self._first is not None and not self._first.done() and not self._first.get_loop().is_closed():
            self._first.set_exception(ReachRefused("unavailable", "The connection was closed.", "Open it again."))
            self._first.exception()  # who waited may be gone
        if self._keeper is not None and not self._keeper.get_loop().is_closed():
            self._keeper.cancel()
        if self._link is not None:
            self._link.close()

    # --- keeping ---

    async def _keep(self, first: asyncio.Future[None]) -> None:
        may_start, waits = True, pauses()
        while True:
            try:
                await self._one_link(may_start, first)
            except LinkLost as error:
                may_start = (may_start or self._was_up) and not error.is_stopped
                if not self._goes_on(first, error):
                    return
            except ReachError as error:
                self._refused(error)
                if not self._goes_on(first, error):
                    return
            if self._was_up:
                waits = pauses()
            await asyncio.sleep(next(waits))

    def _goes_on(self, first: asyncio.Future[None], error: Exception) -> bool:
        """Whether to try again. Who waits for the first link is told instead."""
        if not first.done():
            if isinstance(error, LinkLost):
                why = str(error).rstrip(".")
                error = ReachRefused("unavailable", f"The host cannot be reached: {why}.", error.remedy)
            first.set_exception(error)
            return False
        log.log(logging.INFO if isinstance(error, LinkLost) else logging.ERROR, "Trying again: %s", error)
        return self._is_wanted()

    async def _one_link(self, may_start: bool, first: asyncio.Future[None]) -> None:
        """From the opening of a link to its end, which is always raised."""
        self._was_up = False
        link = self._link = await self._dial(may_start)
        self.number += 1
        reading = asyncio.create_task(self._read(link))
        greeting = asyncio.ensure_future(self._greet())
        try:
            await asyncio.wait({reading, greeting}, return_when=asyncio.FIRST_COMPLETED)
            if greeting.done():
                greeting.result()
                self._was_up = True
                self._up.set()
                if not first.done():
                    first.set_result(None)
            await reading
        finally:
            self._end(link)
            for task in (reading, greeting):
                task.cancel()
            await asyncio.gather(reading, greeting, return_exceptions=True)

    def _end(self, link: Link) -> None:
        self._link = None
        self._up.clear()
        link.close()
        asked, self._asked = self._asked, {}
        for waiting in chain.from_iterable(asked.values()):
            if not waiting.done():
                waiting.set_exception(LinkLost("The link was lost before the answer came."))
                waiting.exception()  # who waited may be gone
        self._lost()

    async def _read(self, link: Link) -> None:
        while True:
            raw = await link.receive()
            try:
                await self._take(read(raw))
            except WrongVersion as error:
                await link.send(refusal(None, error, _msg_id(raw)))
                raise LinkLost(error.message) from None
            except ReachError as error:
                await link.send(refusal(None, error, _msg_id(raw)))
            except LinkLost:
                raise
            except Exception:
                log.exception("A frame of the host could not be handled")

    async def _take(self, heard: Heard) -> None:
        """An answer goes to who asked, all else to `hear`."""
        waiting = self._waiting(heard) if heard.kind in ("ACK", "FAIL") else []
        if not waiting:
            await self._hear(heard)
            return
        for one in waiting:
            if one.done():
                continue
            if heard.kind == "ACK":
                one.set_result(heard)
            else:
                one.set_exception(from_body(heard.body, msg_id=heard.msg_id))

    def _waiting(self, heard: Heard) -> list[asyncio.Future[Heard]]:
        """Who asked for this answer. A FAIL about a frame that the host could read no further than its delivery is that
        of all that was asked about the delivery."""
        of, delivery = str(heard.body.get("of") or ""), str(heard.body.get("delivery") or "")
        if of:
            return self._asked.get((of, delivery)) or self._asked.get((of, heard.msg_id)) or []
        is_unread = heard.kind == "FAIL" and delivery
        return [one for key, asked in self._asked.items() if is_unread and key[1] == delivery for one in asked]


def _msg_id(raw: Frame) -> str:
    header = raw.get("header")
    found = header.get("msg_id") if isinstance(header, dict) else None
    return found if isinstance(found, str) else ""
