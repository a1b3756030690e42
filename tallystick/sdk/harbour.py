"""The connection of a client, and all messages of it that are on their way."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from contextlib import suppress

from tallystick.sdk.channel import Channel, pauses
from tallystick.sdk.errors import ReachError, ReachRefused, ReachTimeout, reach_error
from tallystick.sdk.frames import Frame, Heard, frame
from tallystick.sdk.link import Dial, LinkLost
from tallystick.sdk.voyage import Voyage

_ACK_SECONDS = 5.0

PATIENCE_SECONDS = 15.0
"""How long a question about a message may take, however many links it needs."""


class Harbour:
    """Sends messages and hears of them. After a lost link each is sent again: by its id the host knows it."""

    def __init__(self, dial: Dial) -> None:
        self._loop = asyncio.get_running_loop()
        self._pid = os.getpid()
        self._voyages: dict[str, Voyage] = {}
        self._asking = 0
        self._heard = asyncio.Event()
        self._channel = Channel(
            dial, greet=self._greet, hear=self._hear, refused=self._refused, is_wanted=self._is_wanted
        )

    def is_of(self, loop: asyncio.AbstractEventLoop, pid: int) -> bool:
        """Whether it may be used here."""
        return loop is self._loop and pid == self._pid

    @property
    def is_up(self) -> bool:
        """Whether there is a link to the host now."""
        return self._channel.is_up

    async def launch(self, voyage: Voyage) -> None:
        """Send a message; returns when the host has it on its disk. Raises the refusal."""
        self._voyages[voyage.msg_id] = voyage
        voyage.outcome.add_done_callback(lambda _: self._voyages.pop(voyage.msg_id, None))
        try:
            await self._acknowledged(voyage)
        except BaseException:
            self._voyages.pop(voyage.msg_id, None)
            raise

    async def _acknowledged(self, voyage: Voyage) -> None:
        """Send until it is acknowledged: an answer may be lost where the link is not."""
        for number, pause in enumerate(pauses()):
            await self._open()
            if number or voyage.sent_on != self._channel.number:
                await self._send(voyage)
            await asyncio.wait({voyage.acknowledged}, timeout=_ACK_SECONDS + pause)
            if voyage.acknowledged.done():
                break
        voyage.acknowledged.result()

    async def state(self, voyage: Voyage) -> str:
        """Ask the host, by sending the same message again. Raises `ReachTimeout` after `PATIENCE_SECONDS`."""
        voyage.link_told.clear()
        self._voyages[voyage.msg_id] = voyage
        try:
            if not await _within(PATIENCE_SECONDS, self._link_told(voyage)):
                raise _unanswered(voyage.frame, **voyage.about)
        finally:
            if voyage.outcome.done():
                self._voyages.pop(voyage.msg_id, None)
        return voyage.link

    async def _link_told(self, voyage: Voyage) -> None:
        for pause in pauses():
            await self._open()
            await self._send(voyage)
            if await _within(_ACK_SECONDS + pause, voyage.link_told.wait()):
                break

    async def ask(self, sent: Frame) -> Heard:
        """A question with one answer, on as many links as it takes. Raises `ReachTimeout` after `PATIENCE_SECONDS`."""
        self._asking += 1
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await self._answer(sent)
        except TimeoutError:
            raise _unanswered(sent, msg_id=sent["header"]["msg_id"]) from None
        finally:
            self._asking -= 1

    async def _answer(self, sent: Frame) -> Heard:
        for pause in pauses():
            await self._open()
            try:
                return await self._channel.ask(sent, seconds=_ACK_SECONDS + pause)
            except (LinkLost, TimeoutError):
                await asyncio.sleep(pause)
        raise AssertionError("pauses() does not end")

    def close(self) -> None:
        """End the connection."""
        if not self.is_of(asyncio.get_running_loop(), os.getpid()):
            return
        self._channel.close()
        for voyage in list(self._voyages.values()):
            voyage.fail(ReachRefused("unavailable", "The client was closed.", "The message goes on.", **voyage.about))

    def _refused(self, error: ReachError) -> None:
        """The host does not let this client in any more: nobody waits in vain."""
        for voyage in list(self._voyages.values()):
            voyage.fail(reach_error(error.code, error.message, error.remedy, **voyage.about))

    def _is_wanted(self) -> bool:
        return bool(self._voyages or self._asking)

    async def _open(self) -> None:
        if not self._channel.is_up:
            await self._channel.open()

    async def _send(self, voyage: Voyage) -> None:
        voyage.sends += 1
        try:
            await self._channel.send(voyage.frame)
        except LinkLost:
            return  # it is sent again on the next link
        voyage.sent_on = self._channel.number

    async def _greet(self) -> None:
        """Send all again that is on its way. The first alone, until the host answers: before it listens to the call it
        takes few frames."""
        self._heard.clear()
        for number, voyage in enumerate(list(self._voyages.values())):
            await self._send(voyage)
            if number == 0:
                await _within(_ACK_SECONDS, self._heard.wait())

    async def _hear(self, heard: Heard) -> None:
        self._heard.set()
        voyage = self._voyages.get(heard.msg_id)
        if voyage is None:
            return
        voyage.hear(heard)
        if voyage.outcome.done():
            await self._has(voyage, heard.kind)

    async def _has(self, voyage: Voyage, kind: str) -> None:
        """The outcome is in this process: it need not stand in an inbox as well."""
        with suppress(LinkLost):
            await self._channel.send(frame("ACK", {"of": kind, "task_id": voyage.task_id}, msg_id=voyage.msg_id))


def _unanswered(sent: Frame, **about: str) -> ReachTimeout:
    kind = sent["header"]["msg_type"]
    return ReachTimeout(
        "timeout",
        f"The host did not answer {kind} within {PATIENCE_SECONDS:g} s.",
        "Look at `tally status`, then ask again.",
        **about,
    )


async def _within(seconds: float, event: Awaitable[object]) -> bool:
    """Whether it came in time."""
    try:
        async with asyncio.timeout(seconds):
            await event
    except TimeoutError:
        return False
    return True
