"""Outcomes on their way to the host: sent again until it acknowledges them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from tallystick.sdk.channel import Channel, pauses
from tallystick.sdk.digest import digest_of
from tallystick.sdk.errors import ReachError
from tallystick.sdk.failure import text_of
from tallystick.sdk.frames import Frame, frame
from tallystick.sdk.link import LinkLost
from tallystick.sdk.store import SpokeStore
from tallystick.sdk.tables import Outcome

log = logging.getLogger("tallystick.sdk")

ACK_SECONDS = 5.0
"""How long the host may take to acknowledge before an outcome is sent again."""

_PASSING = frozenset({"unavailable", "internal"})
"""Refusals that may be over in a moment."""


class Outbox:
    """What the host has not acknowledged yet, of one spoke."""

    def __init__(self, channel: Channel, store: SpokeStore) -> None:
        self._channel, self._store = channel, store
        self._sending: dict[str, asyncio.Task[None]] = {}

    def post(self, delivery: str, fence: int, msg_id: str, outcome: Outcome, *, is_kept: bool = True) -> None:
        """Send it until it is acknowledged; `is_kept`: the store knows of it, and is told then."""
        if delivery not in self._sending:
            self._start(delivery, self._send(delivery, outcome_frame(delivery, fence, msg_id, outcome), is_kept))

    def post_once(self, delivery: str, msg_id: str, outcome: Outcome) -> None:
        """Tell of something that was not begun. Where this is lost, so is the link, and the host knows by that."""
        if delivery not in self._sending:
            self._start(delivery, self._send_once(outcome_frame(delivery, 0, msg_id, outcome)))

    async def _send_once(self, sent: Frame) -> None:
        with suppress(LinkLost):
            await self._channel.send(sent)

    def _start(self, delivery: str, doing: Coroutine[Any, Any, None]) -> None:
        sending = self._sending[delivery] = asyncio.create_task(doing, name=f"outcome of {delivery}")
        sending.add_done_callback(lambda _: self._sending.pop(delivery, None))

    def forget(self, delivery: str) -> None:
        """The host wants this one no more."""
        sending = self._sending.get(delivery)
        if sending is not None:
            sending.cancel()

    async def flushed(self) -> None:
        """Wait until everything is acknowledged."""
        while self._sending:
            await asyncio.wait(set(self._sending.values()))

    def close(self) -> None:
        """Stop sending; what is kept is told at the next ANCHOR."""
        for sending in list(self._sending.values()):
            sending.cancel()

    async def _send(self, delivery: str, sent: Frame, is_kept: bool) -> None:
        for pause in pauses():
            try:
                if await self._is_taken(delivery, sent):
                    break
            except ReachError as error:
                sent = _failed(sent, error)
            await asyncio.sleep(pause)
        if is_kept:
            self._store.soon(lambda tables: tables.settle(delivery))

    async def _is_taken(self, delivery: str, sent: Frame) -> bool:
        """One attempt. A refusal that lasts counts too: the host has decided without this outcome. Raises that of a
        result that no host takes."""
        await self._channel.up()
        try:
            await self._channel.ask(sent, delivery, seconds=ACK_SECONDS)
        except (LinkLost, TimeoutError):
            return False
        except ReachError as error:
            if error.code in _PASSING:
                return False
            if error.code == "invalid" and sent["header"]["msg_type"] == "RESULT":
                raise
            log.info("The host did not take the outcome of delivery %s: %s", delivery, error)
        return True


def _failed(sent: Frame, error: ReachError) -> Frame:
    """FAIL, instead of a RESULT that the host cannot read."""
    body = sent["body"]
    outcome = Outcome(code="failed", message=text_of(f"The host cannot take the result: {error.message}"))
    return outcome_frame(body["delivery"], body["fence"], sent["header"]["msg_id"], outcome)


def outcome_frame(delivery: str, fence: int, msg_id: str, outcome: Outcome) -> Frame:
    """RESULT, or FAIL."""
    if outcome.code:
        told = {"code": outcome.code, "message": outcome.message, "began": outcome.began}
        return frame("FAIL", {"delivery": delivery, "fence": fence, **told}, msg_id=msg_id)
    told = {"payload": outcome.payload, "digest": digest_of(outcome.payload)}
    return frame("RESULT", {"delivery": delivery, "fence": fence, **told}, msg_id=msg_id)
