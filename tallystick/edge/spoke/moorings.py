"""The frames by which a spoke comes, shows that it lives, and goes."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from tallystick.app.desk import reach
from tallystick.app.desk.interface import Desk
from tallystick.core.errors import conflict, denied
from tallystick.core.offers import Offer
from tallystick.edge.spoke import frames as f

if TYPE_CHECKING:
    from tallystick.edge.spoke.visit import Visit


class Spoke(msgspec.Struct, eq=False):
    """A spoke that is connected."""

    name: str
    """Its `spoke_id`."""
    agent: str
    session: str
    process: str
    """The process that it runs in, as `PID@START`."""
    visit: Visit
    anchored: f.Frame
    """The ACK that it was given: sent again, it lets the spoke take work again."""
    is_draining: bool = False
    """It said so itself."""
    is_held: bool = False
    """It was told to, because people want it."""
    telling: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)


async def anchor(visit: Visit, frame: f.Frame) -> f.Ack:
    """ANCHOR: register, or come back and learn what to do with what is still held."""
    body = frame.body
    assert isinstance(body, f.Anchor)  # noqa: S101 - the table of frames says so
    _check(visit, body)
    visit.hub.reserve(body, visit)
    try:
        return await _anchor(visit, frame, body)
    except BaseException:
        visit.hub.release(visit)
        raise


async def _anchor(visit: Visit, frame: f.Frame, body: f.Anchor) -> f.Ack:
    schemas = (text for offer in body.capabilities for text in (offer.schema, offer.result_schema))
    await visit.hub.shapes.check(tuple(schemas))
    offers = tuple(Offer(**msgspec.structs.asdict(offer)) for offer in body.capabilities)
    form = reach.Anchor(
        spoke_id=body.spoke_id,
        store=body.store,
        process=body.incarnation,
        capabilities=offers,
        endpoint=body.endpoint,
        held=tuple(reach.Held(delivery=h.delivery, fence=h.fence, state=h.state) for h in body.held),
    )
    await visit.hub.recorded(body.spoke_id)
    anchored = await visit.hub.desk.anchor(await visit.guest_to_anchor(body.workspace), form)
    resume = tuple(f.Resume(delivery=r.delivery, do=r.do) for r in anchored.resume)
    visit.hub.returns(anchored.session, body.held, resume)
    ack = f.Ack(
        of="ANCHOR",
        agent=anchored.agent,
        session=anchored.session,
        workspace=anchored.workspace,
        heartbeat_seconds=anchored.heartbeat_seconds,
        lease_seconds=anchored.lease_seconds,
        resume=resume,
        secret=visit.secret,
    )
    if visit.spoke is not None and visit.spoke.session != anchored.session:
        visit.hub.left(visit.spoke)  # what it registered here before, with another store or elsewhere, is gone
    again = f.frame("ACK", frame.header.msg_id, msgspec.structs.replace(ack, resume=(), secret=""))
    visit.spoke = Spoke(body.spoke_id, anchored.agent, anchored.session, body.incarnation, visit, again)
    return ack


async def moored(visit: Visit, _frame: f.Frame, _ack: f.Ack) -> None:
    """It knows that it is registered: now it gets what waits for it."""
    spoke = visit.moored()
    visit.hub.came(spoke)
    visit.begin(visit.hub.desk.ready(spoke.session))
    visit.begin(tell_mode(visit.hub.desk, spoke))


def _check(visit: Visit, body: f.Anchor) -> None:
    """Who may register so, over this connection."""
    known = visit.spoke
    if known is not None and (known.name, known.process) != (body.spoke_id, body.incarnation):
        raise conflict("This connection is another spoke's already.", "Open a connection for each spoke.")
    bound, domains = visit.bound_to, visit.facts.domains
    if bound and body.spoke_id != bound:
        raise denied(f"This token is {bound}'s and registers no other spoke.", f"Use spoke_id {bound!r}.")
    if domains is not None:
        _check_domains(domains, body)


def _check_domains(domains: tuple[str, ...], body: f.Anchor) -> None:
    """A token that is for domains offers in those alone: what has none is seen by everybody in the workspace."""
    foreign = {offer.domain for offer in body.capabilities} - {*domains}
    if not domains:
        foreign.discard("")
    if not foreign:
        return
    remedy = f"Offer it with the domain {' or '.join(domains)}." if domains else "Offer it without a domain."
    what = f"for the domain {min(foreign)!r}" if min(foreign) else "for offers without a domain"
    raise denied(f"This token is not registered {what}.", remedy)


async def tell_mode(desk: Desk, spoke: Spoke) -> None:
    """DRAIN where people want it to take nothing new, the ACK of its ANCHOR once more where it may again."""
    async with spoke.telling:  # one after the other: the last one told is how it is
        while spoke.is_held is desk.takes(spoke.session):
            spoke.is_held = not spoke.is_held
            told = f.frame("DRAIN", f"drain-{secrets.token_hex(8)}", f.Nothing()) if spoke.is_held else spoke.anchored
            with suppress(ConnectionError):  # it learns of it when it is back
                await spoke.visit.send(told)


async def heartbeat(visit: Visit, frame: f.Frame) -> f.Ack:
    """HEARTBEAT: it lives, and is so busy. Of one that has drained and is away it counts for nothing."""
    body, spoke = frame.body, visit.moored()
    assert isinstance(body, f.Heartbeat)  # noqa: S101
    if visit.hub.is_here(spoke):
        await visit.hub.desk.heard(spoke.session, {name: one.queued for name, one in body.load.items()})
    return f.Ack(of="HEARTBEAT")


async def drain(visit: Visit, _frame: f.Frame) -> f.Ack:
    """DRAIN: it finishes what it has and takes nothing new."""
    spoke = visit.moored()
    spoke.is_draining = True
    visit.hub.desk.drain_spoke(spoke.session)
    visit.hub.rests(spoke)
    return f.Ack(of="DRAIN")
