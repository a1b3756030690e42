"""What the doors serve: the desk, and its verbs over the socket and HTTP."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tallystick
from tallystick.app.calls import Call, Handler
from tallystick.app.desk.desk import FrontDesk
from tallystick.app.desk.services import Services
from tallystick.app.host import Service
from tallystick.app.returning import Returning
from tallystick.assembly.foundation import Foundation
from tallystick.assembly.rooms import Rooms
from tallystick.core.errors import invalid
from tallystick.edge.acp import Registry
from tallystick.edge.api.http.keyring import SpokeKeyring
from tallystick.edge.api.strict import parse
from tallystick.edge.api.verbs import VERBS, verbs
from tallystick.edge.cli import Cli
from tallystick.edge.clients import CLIENTS, ClientInstaller, Program, Waiter, hook_op
from tallystick.edge.mcp import McpHttp, Protocol, Serving
from tallystick.edge.spoke import Guard, Hub, PostedFrames, Poster, ReachSocket, ShapeJudge

_HOOK_SECONDS = 86_400.0
"""The longest that a waiting hook is held; its client may end it earlier."""


def desk(b: Foundation, r: Rooms, tokens: SpokeKeyring, shapes: ShapeJudge) -> FrontDesk:
    """What every door speaks to."""
    services = Services(
        home=b.home,
        limits=b.limits,
        person_verbs=b.settings.person_verbs,
        store=b.store,
        maintenance=b.store,
        heads=b.heads,
        executor=b.executor,
        views=b.views,
        presence=b.presence,
        clock=b.clock,
        feed=b.feed,
        new_id=b.new_id,
        git=b.git,
        runner=b.runner,
        installer=ClientInstaller(_program(b.home), CLIENTS),
        blobs=b.blobs,
        verifier=r.verifier,
        diagnostics=b.diagnostics,
        drives=Registry(),
        turns=r.turns,
        sessions=r.sessions,
        watches=r.watches,
        routing=b.routing,
        reaches=r.reaches,
        deliverer=r.deliverer,
        returning=Returning(b.store, b.heads, b.executor, r.deliverer, b.clock, b.diagnostics),
        tokens=tokens,
        shapes=shapes,
        engine=b.store.engine(),
        examine=(*[part.examine for part in r.notices], r.wakes.examine),
    )
    return FrontDesk(services)


def _program(home: Path) -> Program:
    """This installation as coding clients are told of it."""
    return Program(str(home), sys.executable, str(Path(tallystick.__file__).resolve().parent))


def ops(
    desk: FrontDesk, life: Mapping[str, Handler], stop: Callable[[str], None], protocol: Protocol
) -> dict[str, Handler]:
    """The operations of the socket, by name."""

    async def status() -> dict[str, Any]:
        found: dict[str, Any] = await life["status"](None)  # type: ignore[arg-type]
        return found

    async def request_stop() -> None:
        stop("down")

    cli = Cli(desk, status=status, stop=request_stop)

    async def answer(call: Call) -> int:
        return await cli(call)

    hook = hook_op(desk, Waiter(desk, _HOOK_SECONDS))
    return {**life, **verbs(desk), "hook": hook, "cli": answer, "mcp": Serving(protocol, parse)}


def http(
    b: Foundation,
    desk: FrontDesk,
    ops: Mapping[str, Handler],
    announce: Callable[[str], None],
    mcp: Callable[..., McpHttp],
    hub: Hub,
) -> list[Service]:
    """The same verbs over HTTP, where the settings want it: nothing of it is imported otherwise."""
    settings = b.settings
    if not settings.listen:
        if settings.tls_cert or settings.tls_key:
            raise invalid("TLS is set, but no address to listen at.", "Give --listen, or `listen` in config.toml.")
        return []
    from tallystick.edge.api.http.bounds import HttpBounds
    from tallystick.edge.api.http.listen import Listen
    from tallystick.edge.api.http.server import HttpServer

    served = {op: ops[op] for op in (*VERBS, "status")}
    listen = Listen(address=settings.listen, certificate=settings.tls_cert, key=settings.tls_key)
    bounds = HttpBounds()
    tools = mcp(body_bytes=bounds.body_bytes)
    posted = PostedFrames(hub, Poster(Guard(settings.callbacks), hub.now), parse, bounds.body_bytes)
    server = HttpServer(
        desk,
        served,
        home=settings.home,
        listen=listen,
        diagnostics=b.diagnostics,
        announce=announce,
        bounds=bounds,
        mounts={"mcp": tools, "reach/v1/frames": posted},
        sockets={"reach/v1": ReachSocket(hub, parse)},
        known=lambda name: b.heads.committed_directory.tokens.get(name),
    )
    return [tools, server, posted]
