"""Everybody who is connected, and what is on its way to them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from tallystick.app.calls import Call, CallerFacts
from tallystick.app.desk.interface import Desk
from tallystick.app.ports import Envelope
from tallystick.core.errors import Refused, conflict, invalid, not_found, unavailable
from tallystick.core.limits import Limits
from tallystick.edge.spoke import frames as f
from tallystick.edge.spoke.carried import Carried, Turn
from tallystick.edge.spoke.errors import refusal
from tallystick.edge.spoke.fetching import Contents
from tallystick.edge.spoke.line import Line, Link, LinkLine
from tallystick.edge.spoke.moorings import Spoke, tell_mode
from tallystick.edge.spoke.seen import Seen
from tallystick.edge.spoke.shapes import ShapeJudge
from tallystick.edge.spoke.visit import Visit

EXPECTED_SECONDS: Final = 30.0
"""How long what a returning spoke says is kept for whoever is about to carry it on."""
KEPT: Final = 8
"""Frames that are kept so; the newest of them is always among them."""
SETTLED: Final = 10_000
"""Deliveries whose recorded outcome is remembered, for a spoke that missed the acknowledgement."""


class _Expected(NamedTuple):
    """A delivery that a spoke came back with, before it is carried on."""

    session: str
    fence: int
    until: float
    said: list[f.Shape]
    carried: asyncio.Event


class Hub:
    """One for a host. Serves the operation `reach`, and lines of every other kind. A service: it ends the visits."""

    def __init__(
        self,
        desk: Desk,
        limits: Limits,
        now: Callable[[], float],
        unforeseen: Callable[[str, Exception], Refused],
        shapes: ShapeJudge,
    ) -> None:
        """`now`: UTC seconds. `unforeseen` records an error of ours and says how a program is told of it."""
        self.desk = desk
        self.limits = limits
        self.now = now
        self.shapes = shapes
        self.contents = Contents(desk)
        self.spokes: dict[str, Spoke] = {}
        """By session."""
        self.carried: dict[str, Carried] = {}
        """By delivery: from the dispatch to the recorded outcome."""
        self.seen = Seen(desk, self.unforeseen)
        self.is_stopping = False
        self._unforeseen = unforeseen
        self._visits: set[Visit] = set()
        self._coming: dict[str, tuple[Visit, str]] = {}
        """By spoke_id: who registers just now, and as which process."""
        self._expected: dict[str, _Expected] = {}
        self._given_up: dict[str, str] = {}
        self._settled: OrderedDict[str, None] = OrderedDict()

    # --- a service ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Nothing to begin: programs come by themselves."""

    async def stop(self) -> None:
        """Send everybody away. What is on its way stays so, and is taken back by the next host."""
        self.is_stopping = True
        for visit in list(self._visits):
            visit.leave()
        await self.seen.stop()

    # --- visits -------------------------------------------------------------------------------------------------

    async def __call__(self, call: Call) -> None:
        """The operation `reach`: one long call, frames in both directions. A host that stops says so: nobody should
        start it again on its own account."""
        given = call.arguments
        await self.serve(call, _text(given.get("as", ""), "as"), _text(given.get("workspace", ""), "workspace"))
        if self.is_stopping:
            raise unavailable("The host is stopping.", "Connect again once it runs; `tally up` starts it.")

    async def serve(self, line: Line, as_name: str = "", workspace: str = "", *, secret: str = "") -> None:
        """Serve one program for as long as it is connected. `secret`: what is posted to it is signed with."""
        visit = Visit(self, line, as_name, workspace, secret)
        self._visits.add(visit)
        try:
            await visit.stay()
        finally:
            self._visits.discard(visit)
            self.release(visit)

    def dismiss(self, name: str) -> None:
        """The token of that spoke opens nothing any more: whoever came in by it is sent away."""
        for visit in list(self._visits):
            if visit.bound_to == name:
                visit.leave()

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    async def attach(self, link: Link, facts: CallerFacts, as_name: str = "", workspace: str = "") -> None:
        """Serve a program inside this process, over its end of a link, until that ends."""
        line = LinkLine(link, facts)
        try:
            await self.serve(line, as_name, workspace)
        finally:
            line.close()

    def unforeseen(self, error: Exception) -> Refused:
        """What a program is told of an error of ours: a reference number."""
        return self._unforeseen("reach", error)

    # --- spokes -------------------------------------------------------------------------------------------------

    def reserve(self, body: f.Anchor, visit: Visit) -> None:
        """Keep its id for a spoke that registers, until it is here or its visit has no use for it. Refuse a second
        process under the id of one that is connected or about to be: the first wins."""
        others = [(s.visit, s.process) for s in self.spokes.values() if s.name == body.spoke_id]
        if body.spoke_id in self._coming:
            others.append(self._coming[body.spoke_id])
        for other, process in others:
            if other is not visit and process != body.incarnation:
                raise conflict(
                    f"The spoke {body.spoke_id!r} is connected already, as process {process}.",
                    "Give this one another spoke_id, or stop the other.",
                )
        self._coming[body.spoke_id] = (visit, body.incarnation)

    def release(self, visit: Visit) -> None:
        """What was kept for a visit is free."""
        self._coming = {name: kept for name, kept in self._coming.items() if kept[0] is not visit}

    def came(self, spoke: Spoke) -> None:
        """A spoke is here; the same process over an older connection is not any more."""
        before = self.spokes.get(spoke.session)
        self.spokes[spoke.session] = spoke
        self.release(spoke.visit)
        if before is not None and before.visit is not spoke.visit:
            before.visit.leave()

    def modes_changed(self) -> None:
        """People had something stopped, paused, drained or resumed: the spokes that it is about are told."""
        for spoke in self.spokes.values():
            spoke.visit.begin(tell_mode(self.desk, spoke))

    def left(self, spoke: Spoke) -> None:
        """A connection of a spoke is gone: who carries something to it is told, unless it is back already. One that had
        said DRAIN and has nothing in hand went in order."""
        if not self.is_here(spoke):
            return
        del self.spokes[spoke.session]
        if self.is_stopping:
            return
        mine = [carried for carried in self.carried.values() if carried.envelope.session == spoke.session]
        has_work = any(carried.has_begun for carried in mine)
        in_order = spoke.is_draining and not has_work
        (self.desk.departed if in_order else self.desk.lost)(spoke.session, spoke.process)
        for carried in mine:
            carried.hear(Turn.LOST)

    def rests(self, spoke: Spoke) -> None:
        """A spoke may have nothing left. One that is posted to has no connection whose end would tell that it went: it
        went in order once it had said DRAIN and its last message is settled, and is away until it is anchored again."""
        has_any = any(carried.envelope.session == spoke.session for carried in self.carried.values())
        if spoke.visit.is_posted and spoke.is_draining and not has_any:
            self.left(spoke)

    def is_here(self, spoke: Spoke) -> bool:
        """Whether it is what its session is connected as."""
        return self.spokes.get(spoke.session) is spoke

    def of_agent(self, agent: str) -> Spoke | None:
        """Where an agent is connected as a spoke."""
        return next((spoke for spoke in self.spokes.values() if spoke.agent == agent), None)

    async def recorded(self, name: str) -> None:
        """Returns when what was lost with an earlier connection of a spoke is recorded as that."""
        for carried in list(self.carried.values()):
            if carried.was_lost and carried.envelope.agent.alias == name:
                await carried.recorded.wait()

    def returns(self, session: str, held: tuple[f.Held, ...], resume: tuple[f.Resume, ...]) -> None:
        """A spoke is back. What it goes on with is carried in a moment; what it says of it until then is kept."""
        for delivery in [known for known, where in self._given_up.items() if where == session]:
            del self._given_up[delivery]
        until = self._time() + EXPECTED_SECONDS
        self._expected = {known: one for known, one in self._expected.items() if one.until > self._time()}
        kept = {one.delivery for one in resume if one.do != "drop"}
        for one in held:
            if one.delivery in kept:
                self._expected[one.delivery] = _Expected(session, one.fence, until, [], asyncio.Event())

    def carries(self, carried: Carried) -> None:
        """A delivery is on its way from now on."""
        self.carried[carried.envelope.delivery_id] = carried
        expected = self._expected.pop(carried.envelope.delivery_id, None)
        if expected is not None:
            carried.fences.add(expected.fence)
            expected.carried.set()
            for body in expected.said:
                carried.hear(body)

    # --- deliveries ---------------------------------------------------------------------------------------------

    async def held(self, session: str, delivery: str) -> str:
        """The task of a delivery that is in the hands of a session; one that it has just come back with is waited for.
        Refused for all others with the same words."""
        expected = self._expected.get(delivery)
        if expected is not None and expected.session == session:
            with suppress(TimeoutError):
                async with asyncio.timeout(expected.until - self._time()):
                    await expected.carried.wait()
        carried = self.carried.get(delivery)
        if carried is None or carried.envelope.session != session or carried.stopped.is_set():
            raise not_found("This spoke holds no such delivery.", "Read references while their message is in hand.")
        return carried.envelope.task_id

    def hear(self, visit: Visit, frame: f.Frame) -> None:
        """What a spoke says of a delivery."""
        body = frame.body
        assert isinstance(body, f.OF_DELIVERIES)  # noqa: S101 - the table of frames says so
        carried, session = self.carried.get(body.delivery), visit.spoke.session if visit.spoke is not None else ""
        expected = self._expected.get(body.delivery)
        if carried is not None and carried.envelope.session == session:
            if not carried.stopped.is_set():  # else its outcome is being recorded, and is acknowledged then
                carried.hear(body)
        elif expected is not None and expected.session == session and expected.until > self._time():
            expected.said[KEPT - 1 :] = [body]
        elif not isinstance(body, f.UNANSWERED):
            visit.begin_counted(partial(self._answer_late, visit, frame, body.delivery))

    async def _answer_late(self, visit: Visit, frame: f.Frame, delivery: str) -> None:
        """Nobody waits for that any more: it is recorded, or it no longer counts."""
        of, msg_id = frame.header.msg_type, frame.header.msg_id
        if delivery in self._settled and of != "BEGIN":
            await visit.reply("ACK", msg_id, f.Ack(of=of, delivery=delivery))
            return
        why = "The host does not wait for that delivery: it was given up, or is in other hands."
        late = conflict(why, "Nothing is to be done.")
        await visit.reply("FAIL", msg_id, refusal(late, of, delivery))

    def settled(self, delivery: str) -> None:
        """The outcome is recorded: the spoke may forget it."""
        carried = self.carried.pop(delivery, None)
        if carried is None:
            return
        carried.recorded.set()
        self.contents.forget(delivery)
        if carried.is_lost:
            self._given_up[delivery] = carried.envelope.session
            if len(self._given_up) > SETTLED:
                del self._given_up[next(iter(self._given_up))]
        spoke = self.spokes.get(carried.envelope.session)
        if carried.outcome:
            self._settled[delivery] = None
            if len(self._settled) > SETTLED:
                self._settled.popitem(last=False)
            ack = f.Ack(of=carried.outcome, delivery=delivery)
            if spoke is not None:
                spoke.visit.begin(spoke.visit.reply("ACK", carried.msg_id, ack))
        if spoke is not None and spoke.is_draining:
            self.rests(spoke)

    def is_elsewhere(self, delivery: str) -> bool:
        """Whether it had begun and may still run where nobody carries it: it was given up while its spoke was away, or
        that is back and goes on with it in a moment."""
        expected = self._expected.get(delivery)
        return delivery in self._given_up or (expected is not None and expected.until > self._time())

    async def noted(self, envelope: Envelope, progress: f.Progress) -> None:
        """A spoke told how far it is."""
        try:
            with suppress(Refused):  # the task is in other hands by now
                await self.desk.told(
                    envelope.session, envelope.task_id, envelope.fence, progress.text, fraction=progress.fraction
                )
        except Exception as error:  # noqa: BLE001 - what it tells next is not lost with this
            self.unforeseen(error)

    def withdrawn(self, task_id: str) -> None:
        """A message was taken back by who sent it: its spoke need not begin it."""
        for carried in self.carried.values():
            if carried.envelope.task_id == task_id:
                carried.hear(Turn.ENDED)

    async def send(self, session: str, frame: f.Frame) -> None:
        """Send to a spoke as it is connected now. Raises `ConnectionError` where it is not."""
        spoke = self.spokes.get(session)
        if spoke is None:
            raise ConnectionError("The spoke is not connected.")
        await spoke.visit.send(frame)


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise invalid(f"The field {field} must be a text.", "Use the SDK of the host's version.")
    return value
