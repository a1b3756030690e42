"""One connected program: its frames come in here, and each goes where the table says.

A program may offer capabilities (it anchors), reach for them, or do both over one connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tallystick.app.calls import CallerFacts
from tallystick.app.desk.interface import Guest
from tallystick.core.errors import Refused, conflict
from tallystick.edge.spoke import frames as f
from tallystick.edge.spoke.errors import refusal
from tallystick.edge.spoke.fetching import fetch
from tallystick.edge.spoke.line import Line
from tallystick.edge.spoke.moorings import Spoke, anchor, drain, heartbeat, moored
from tallystick.edge.spoke.reading import FrameRefused, read
from tallystick.edge.spoke.voyages import Voyages, follow, retreat, sail, settle

if TYPE_CHECKING:
    from tallystick.edge.spoke.hub import Hub

AT_ONCE: Final = 256
"""Frames of one program that are being taken in; beyond that nothing more is read of it until some are."""

GUEST_SECONDS: Final = 1.0
"""How long a program stays who it was found to be."""


Then = Callable[[], Coroutine[Any, Any, None]]
"""What begins once a frame was answered."""
Answer = Callable[[], Coroutine[Any, Any, Then | None]]
"""Takes a frame in and answers it."""


class Visit:
    """A program for as long as it is connected."""

    def __init__(self, hub: Hub, line: Line, as_name: str = "", workspace: str = "", secret: str = "") -> None:
        self.hub = hub
        self.secret = secret
        self.spoke: Spoke | None = None
        self.voyages = Voyages()
        self.as_name = as_name
        self.workspace = workspace
        self._line = line
        self._tasks: set[asyncio.Task[None]] = set()
        self._taking = 0
        self._over = asyncio.Event()
        self._guest: Guest | None = None
        self._guest_until = 0.0

    async def stay(self) -> None:
        """Until the program leaves, or is sent away."""
        self._line.listen(self.take)
        waits = [asyncio.ensure_future(self._line.interrupted()), asyncio.ensure_future(self._over.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._over.set()
            if self.spoke is not None:
                self.hub.left(self.spoke)
            for task in (*waits, *self._tasks):
                task.cancel()
            await asyncio.gather(*waits, *self._tasks, return_exceptions=True)

    def leave(self) -> None:
        """Send it away: the host stops, or the program came back over another connection."""
        self._over.set()

    @property
    def facts(self) -> CallerFacts:
        """What is known of the program's process, and of its token."""
        return self._line.facts

    @property
    def bound_to(self) -> str:
        """The one spoke that its token is for; empty for any."""
        return self.as_name if self.facts.domains is not None else ""

    @property
    def is_posted(self) -> bool:
        """Whether it is reached by posts: then it keeps no connection."""
        return bool(self.secret)

    async def guest(self) -> Guest:
        """Who it is. Looked up anew after a moment: that costs a walk through directories, which no frame should."""
        now = asyncio.get_running_loop().time()
        if self._guest is None or now >= self._guest_until:
            self._guest = await self.hub.desk.guest(self.facts, as_name=self.as_name, workspace=self.workspace)
            self._guest_until = now + GUEST_SECONDS
        return self._guest

    async def guest_to_anchor(self, workspace: str) -> Guest:
        """Who lets a spoke join: the person whose socket it is, or who made its token."""
        name = "" if self.bound_to else self.as_name
        return await self.hub.desk.guest(self.facts, as_name=name, workspace=workspace or self.workspace, register=True)

    # --- frames -------------------------------------------------------------------------------------------------

    def take(self, message: Any) -> None:
        """One frame came in."""
        if self._over.is_set():
            return
        try:
            frame = read(message)
        except FrameRefused as refused:
            self.begin_counted(partial(self._refuse_frame, refused))
            return
        if isinstance(frame.body, f.Ack) and not frame.body.delivery:
            self._has(frame.header.msg_id)
        elif frame.header.msg_type in _ABOUT:
            self.hub.hear(self, frame)
        else:
            self.begin_counted(partial(self._answer, frame))

    def begin_counted(self, answer: Answer) -> None:
        """Answer one of its frames, then do what begins with that. A program that does not read its answers is not read
        any more, either."""
        self._taking += 1
        if self._taking >= AT_ONCE:
            self._line.hold(True)
        self.begin(self._counted(answer))

    async def _counted(self, answer: Answer) -> None:
        try:
            then = await answer()
        finally:
            self._taking -= 1
            if self._taking == AT_ONCE // 2:
                self._line.hold(False)
        if then is not None:
            await then()

    def _has(self, msg_id: str) -> None:
        """The program has the outcome of a message of its own."""
        known = self.voyages.acknowledged(msg_id)
        if known is not None:
            self.hub.seen.add(*known)

    async def _refuse_frame(self, refused: FrameRefused) -> None:
        await self._refuse(refused, refused.msg_id, refused.of, refused.delivery)
        if refused.ends:
            self._over.set()

    async def _answer(self, frame: f.Frame) -> Then | None:
        """Take one frame in, and say what came of it; what begins with that, if anything does."""
        header, delivery = frame.header, getattr(frame.body, "delivery", "")
        try:
            body = await _TABLE[header.msg_type](self, frame)
        except Refused as refused:
            await self._refuse(refused, header.msg_id, header.msg_type, delivery)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever went wrong inside is ours to record
            await self._refuse(self.hub.unforeseen(error), header.msg_id, header.msg_type, delivery)
        else:
            await self.reply("ACK", header.msg_id, body)
            if header.msg_type in _AFTER:
                return partial(_AFTER[header.msg_type], self, frame, body)
        return None

    async def _refuse(self, refused: Refused, msg_id: str, of: str, delivery: str = "") -> None:
        await self.reply("FAIL", msg_id, refusal(refused, of, delivery), trace_id=refused.trace)

    async def reply(self, msg_type: str, msg_id: str, body: f.Shape, **header: Any) -> None:
        """Send a frame to a program that may have left: then nobody waits for it."""
        try:
            await self.send(f.frame(msg_type, msg_id, body, **header))
        except ConnectionError:
            self._over.set()

    async def send(self, frame: f.Frame) -> None:
        """Send a frame. Raises `ConnectionError` where the program left."""
        if self._over.is_set():
            raise ConnectionError("The program left.")
        await self._line.frame(frame)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something for it meanwhile; it ends with the visit."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def moored(self) -> Spoke:
        """The spoke that it is. Refused before it has anchored."""
        if self.spoke is None:
            raise conflict("This program has not registered as a spoke.", "Send ANCHOR first.")
        return self.spoke


_ABOUT: Final = frozenset({"ACK", "BEGIN", "PROGRESS", "RESULT", "FAIL"})
"""What a spoke says of a delivery: it goes to whoever carries that."""

_TABLE: Final[dict[str, Callable[[Visit, f.Frame], Awaitable[f.Ack]]]] = {
    "ANCHOR": anchor,
    "HEARTBEAT": heartbeat,
    "DRAIN": drain,
    "FETCH": fetch,
    "SAIL": sail,
    "RETREAT": retreat,
    "SETTLE": settle,
}
"""What is done with every other kind, and answered with an ACK."""

_AFTER: Final[dict[str, Callable[[Visit, f.Frame, f.Ack], Coroutine[Any, Any, None]]]] = {
    "ANCHOR": moored,
    "SAIL": follow,
}
"""What begins once the program has its ACK."""
