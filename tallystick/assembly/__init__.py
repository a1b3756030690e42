"""The wiring of `bootstrap`, apart from it so that the life verbs start fast: every concrete class is named here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from tallystick.app.calls import Handler
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.host import Service
from tallystick.app.openings import Record
from tallystick.app.tokens import KeyringCheck
from tallystick.assembly.doors import desk, http, ops
from tallystick.assembly.foundation import World, lay_foundation
from tallystick.assembly.rooms import build_rooms, inside, join
from tallystick.config import Settings
from tallystick.edge.api import ApiServer, control_path
from tallystick.edge.api.errors import unforeseen
from tallystick.edge.api.http.keyring import SpokeKeyring
from tallystick.edge.api.strict import parse
from tallystick.edge.mcp import McpHttp, Protocol
from tallystick.edge.spoke import Hub, ShapeJudge, SpokeTransport

__all__ = ["World", "assemble"]


def assemble(
    settings: Settings,
    diagnostics: Diagnostics,
    life: Mapping[str, Handler],
    stop: Callable[[str], None],
    announce: Callable[[str], None],
    world: World = World(),  # noqa: B008 - immutable
) -> list[Service]:
    """The services of a host, in the order in which they start; `announce` is told the address it listens at."""
    b = lay_foundation(settings, diagnostics, world)
    r = build_rooms(b)
    tokens, shapes = SpokeKeyring(b.home), ShapeJudge()
    front = desk(b, r, tokens, shapes)
    hub = Hub(front, b.limits, b.clock.now, partial(unforeseen, diagnostics), shapes)
    r.transports["spoke"] = SpokeTransport(hub)
    tokens.dropped = hub.dismiss
    join(b, r, hub)
    protocol = Protocol(front, diagnostics)
    served: dict[str, Handler] = {**ops(front, life, stop, protocol), "reach": hub}
    mcp = partial(McpHttp, protocol, parse, extra=world.mcp)
    server = r.drive.sockets.server = ApiServer(served, path=control_path(b.home), diagnostics=diagnostics)
    doors = [KeyringCheck(tokens, b.heads, diagnostics), *http(b, front, served, announce, mcp, hub), server, hub]
    return [Record(b.store, b.heads, b.clock), shapes, *inside(b, r), *doors]
