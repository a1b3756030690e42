"""The wiring of `bootstrap`, apart from it so that the life verbs start fast: every concrete class is named here."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import tallystick
from tallystick import __version__, wire
from tallystick.app.calls import Call, Handler
from tallystick.app.clock import Chance, HighWater, RandomIds, SystemClock
from tallystick.app.custody import Custody, Hints, Refusals
from tallystick.app.deliver import Deliverer
from tallystick.app.desk.desk import FrontDesk
from tallystick.app.desk.services import Services
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.driving import Driving
from tallystick.app.due import Due
from tallystick.app.duties import Duties
from tallystick.app.execute import Executor
from tallystick.app.failpoints import Reached, unmoved
from tallystick.app.feed import Feed
from tallystick.app.gather import Gather
from tallystick.app.heads import Heads
from tallystick.app.host import Service
from tallystick.app.kept import KeptBlobs
from tallystick.app.notices import Notices
from tallystick.app.openings import FirstThings, Record
from tallystick.app.orphans import Orphans
from tallystick.app.ports import Clock, Notifier, Transport, Waker
from tallystick.app.presence import Presence
from tallystick.app.proofs import Proofs
from tallystick.app.reaches import Reaches
from tallystick.app.returning import Returning
from tallystick.app.routing import Routing
from tallystick.app.sessions import Sessions
from tallystick.app.turns import Turns
from tallystick.app.verify import Verifier
from tallystick.app.views import Views
from tallystick.app.wakes import Wakes
from tallystick.app.watches import Watches
from tallystick.app.words import Words
from tallystick.config import Settings
from tallystick.core import events as ev
from tallystick.core.errors import invalid
from tallystick.core.limits import Limits
from tallystick.core.state import Work
from tallystick.core.wake import Item
from tallystick.edge.acp import AcpTransport, Around, DriveWaker, Registry
from tallystick.edge.api import ApiServer, control_path, peer
from tallystick.edge.api.errors import unforeseen
from tallystick.edge.api.http.keyring import SpokeKeyring
from tallystick.edge.api.strict import parse
from tallystick.edge.api.verbs import VERBS, verbs
from tallystick.edge.cli import Cli
from tallystick.edge.clients import CLIENTS, HISTORIES, ClientInstaller, Program, Waiter, hook_op, wakers_of
from tallystick.edge.command import CommandTransport, CommandWaker
from tallystick.edge.desktop import Desktop, is_installed
from tallystick.edge.git import GitCommands
from tallystick.edge.mcp import Extra, McpHttp, Protocol, Serving
from tallystick.edge.process import ProcessRunner, prefixes
from tallystick.edge.spoke import Guard, Hub, PostedFrames, Poster, ReachSocket, ShapeJudge, SpokeTransport
from tallystick.store.blobs import BlobStore
from tallystick.store.sqlite import SqliteStore

_HOOK_SECONDS = 86_400.0
"""The longest that a waiting hook is held; its client may end it earlier."""


class World(NamedTuple):
    """What a host finds around it. Tests put their own in its place."""

    clock: Clock = SystemClock()
    vfs: str | None = None
    """The name of the file system layer that SQLite uses; None: its own."""
    reached: Reached = unmoved
    notifier: Notifier | None = None
    """Where notices of a desktop go; None: to this machine's desktop, if the settings and the extra allow it."""
    mcp: Extra | None = None
    """What tests mount beside our own tools over HTTP."""


def assemble(
    settings: Settings,
    diagnostics: Diagnostics,
    life: Mapping[str, Handler],
    stop: Callable[[str], None],
    announce: Callable[[str], None],
    world: World = World(),  # noqa: B008 - immutable
) -> list[Service]:
    """The services of a host, in the order in which they start; `announce` is told the address it listens at."""
    reached = world.reached
    home, limits = settings.home, settings.limits
    clock = HighWater(world.clock, 0.0)
    new_id = RandomIds(clock)
    store = SqliteStore.open(home / "tally.db", vfs=world.vfs, failpoint=reached, salt=Chance())
    blobs = KeptBlobs(BlobStore(home / "blobs"))
    git = GitCommands(home)
    runner = ProcessRunner(home, clock.clock, masks=(str(control_path(home).parent),), reached=reached)
    heads, feed, presence = Heads(store), Feed(), Presence(clock, limits)
    words = Words(store, heads.histories.of)
    routing = Routing(store, heads, presence, clock)
    gather = Gather(store, heads, clock, presence, limits)
    views = Views(store, heads, presence, clock, feed, blobs, limits, runner.level)
    hints = Hints(home, wire.hint_path, heads, views)
    executor = Executor(store, heads, gather, clock, feed, limits, hints.before_commit, reached)
    shown = partial(prefixes, hidden=(str(home), str(control_path(home).parent)))
    verifier = Verifier(home, git, runner, blobs, executor, new_id, diagnostics, shown, reached)
    commands = CommandTransport(home, git, runner, blobs, new_id, limits, shown, reached)
    driving = Driving(store, heads, executor, words, presence, clock, new_id, limits, diagnostics)
    sockets = Doors()
    around = Around(
        home=home,
        sockets=control_path(home).parent,
        git=git,
        runner=runner,
        driving=driving,
        doors=sockets,
        environment=_inherited(),
        tally=(sys.executable, "-I", "-c", _TALLY, "mcp"),
        package=str(Path(tallystick.__file__).parent),
        prefixes=shown,
        proved={},
    )
    driven = AcpTransport(around)
    transports: dict[str, Transport] = {"command": commands, "drive": driven}
    deliverer = Deliverer(
        store, heads, executor, words, clock, new_id, limits, transports, diagnostics, routing, reached
    )
    reaches = Reaches(store, heads)
    duties = Duties(store, heads, gather, executor, presence, clock, new_id, limits, diagnostics, reached)
    duties.why_not_begun = routing.why_not_begun
    turns = Turns(lambda: heads.committed_directory)
    wakers: dict[str, Waker] = {"wake": CommandWaker(home, runner, limits), **wakers_of(turns, limits)}
    wakers["drive"] = DriveWaker(driven, driving)
    due = Due(store, heads, views)
    proofs = Proofs(store, heads, executor, HISTORIES, diagnostics)
    sessions = Sessions(store, heads, executor, new_id, limits, peer.is_alive, diagnostics)
    watches = Watches(heads, executor, due, git, limits, diagnostics)
    wakes = Wakes(heads, executor, due, presence, turns, clock, new_id, limits, wakers, diagnostics, reached)
    driven.freed = wakes.freed
    custody = Custody(home, store, store, heads, executor, views, clock, limits, diagnostics, __version__, reached)
    orphans = Orphans(home, heads, runner, git, diagnostics)
    notifier = world.notifier or (Desktop() if settings.desktop and is_installed() else None)
    notices = [Notices(heads, notifier, diagnostics)] if notifier else []
    for shown_here in notices:
        shown_here.is_waited_for = reaches.is_followed
    first = FirstThings(heads, executor, store, new_id, _user(), os.getuid())
    tokens, shapes = SpokeKeyring(home), ShapeJudge()
    desk = FrontDesk(
        Services(
            home=home,
            limits=limits,
            person_verbs=settings.person_verbs,
            store=store,
            maintenance=store,
            heads=heads,
            executor=executor,
            views=views,
            presence=presence,
            clock=clock,
            feed=feed,
            new_id=new_id,
            git=git,
            runner=runner,
            installer=ClientInstaller(_program(home), CLIENTS),
            blobs=blobs,
            verifier=verifier,
            diagnostics=diagnostics,
            drives=Registry(),
            turns=turns,
            sessions=sessions,
            watches=watches,
            routing=routing,
            reaches=reaches,
            deliverer=deliverer,
            returning=Returning(store, heads, executor, deliverer, clock, diagnostics),
            tokens=tokens,
            shapes=shapes,
            engine=store.engine(),
            examine=(*[part.examine for part in notices], wakes.examine),
        )
    )
    executor.stumbled = diagnostics.failure
    refusals, others = Refusals(executor, clock), (sessions, proofs)
    _join(executor, deliverer, duties, custody, hints, verifier, presence, wakes, others, first, refusals, notices)
    executor.follow = _then(executor.follow, driving.committed, reaches.committed)
    protocol = Protocol(desk, diagnostics)
    hub = _hub(desk, limits, clock, diagnostics, transports, shapes)
    tokens.removed = hub.dismiss
    executor.follow = _then(executor.follow, hub.committed)
    ops: dict[str, Handler] = {**_ops(desk, life, stop, protocol), "reach": hub}
    mcp = partial(McpHttp, protocol, parse, extra=world.mcp)
    sockets.server = ApiServer(ops, path=control_path(home), diagnostics=diagnostics)
    doors = [*_http(settings, desk, ops, diagnostics, announce, mcp, hub), sockets.server, hub]
    inside: list[Service] = [executor, first, custody, hints, orphans, verifier, driven, deliverer, duties, *notices]
    return [Record(store, heads, clock), shapes, *inside, sessions, proofs, watches, wakes, *doors]


class Doors:
    """Sockets of sessions, at the server that is made after those who open them."""

    server: ApiServer

    async def listen_session(self, session_id: str, path: Path) -> None:
        """See `ApiServer`."""
        await self.server.listen_session(session_id, path)

    async def close_session(self, session_id: str) -> None:
        """See `ApiServer`."""
        await self.server.close_session(session_id)


_TALLY = "from tallystick._tally import main; raise SystemExit(main())"
"""What a session's client starts for our tools; it needs no search path."""


def _inherited() -> dict[str, str]:
    """What driven clients inherit of the host's own environment: who the user is, and no more."""
    names = ("HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "PATH")
    found = {name: os.environ[name] for name in names if os.environ.get(name)}
    return {"LANG": "C.UTF-8", "TERM": "dumb", **found}


def _then(first: Callable[..., None], *others: Callable[[ev.Recorded], None]) -> Callable[..., None]:
    def follow(recorded: ev.Recorded, rows: tuple[Any, ...]) -> None:
        first(recorded, rows)
        for other in others:
            other(recorded)

    return follow


def _join(
    executor: Executor,
    deliverer: Deliverer,
    duties: Duties,
    custody: Custody,
    hints: Hints,
    verifier: Verifier,
    presence: Presence,
    wakes: Wakes,
    others: tuple[Sessions | Proofs, ...],
    first: FirstThings,
    refusals: Refusals,
    notices: list[Notices],
) -> None:
    """What follows a commit, and who ends what runs."""

    def follow(recorded: ev.Recorded, rows: tuple[Any, ...]) -> None:
        presence.committed(recorded, rows)
        deliverer.committed(rows)
        verifier.committed(rows)
        duties.committed(rows)
        custody.committed(rows)
        hints.committed(rows)
        for shown in notices:
            shown.committed(recorded, rows)
        for other in others:
            other.committed(recorded)
        wakes.committed(recorded, rows)
        event = recorded.event
        if not isinstance(event, ev.TaskEvent):
            deliverer.look()
            if isinstance(event, ev.AgentLeft):
                first.follow_left(recorded.stream)

    async def end_run(work: Work) -> bool:
        return await verifier.end_check(work) and await deliverer.end(work)

    def must_open(agent: str, _workspace: str, items: Sequence[Item]) -> None:
        task = next((item for item in items if item.item_id.startswith("tsk_")), None)
        for shown in notices:
            shown.must_be_opened(agent, task.item_id if task else "", task.title if task else items[0].title)

    def was_heard(agent: str) -> None:
        for shown in notices:
            shown.was_heard(agent)

    wakes.must_open, wakes.was_heard = must_open, was_heard
    executor.follow = follow
    executor.refused = refusals.refused
    duties.end_run = end_run
    duties.is_in_hand = deliverer.is_in_hand
    duties.run_check = verifier.run_check


def _ops(
    desk: FrontDesk, life: Mapping[str, Handler], stop: Callable[[str], None], protocol: Protocol
) -> dict[str, Handler]:
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


def _hub(
    desk: FrontDesk,
    limits: Limits,
    clock: HighWater,
    diagnostics: Diagnostics,
    transports: dict[str, Transport],
    shapes: ShapeJudge,
) -> Hub:
    """Where spokes and those who reach for them are connected, and how messages are handed to spokes."""
    hub = Hub(desk, limits, clock.now, partial(unforeseen, diagnostics), shapes)
    transports["spoke"] = SpokeTransport(hub)
    return hub


def _http(
    settings: Settings,
    desk: FrontDesk,
    ops: Mapping[str, Handler],
    diagnostics: Diagnostics,
    announce: Callable[[str], None],
    mcp: Callable[..., McpHttp],
    hub: Hub,
) -> list[Service]:
    """The same verbs over HTTP, where the settings want it: nothing of it is imported otherwise."""
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
        diagnostics=diagnostics,
        announce=announce,
        bounds=bounds,
        mounts={"mcp": tools, "reach/v1/frames": posted},
        sockets={"reach/v1": ReachSocket(hub, parse)},
    )
    return [tools, server, posted]


def _program(home: Path) -> Program:
    """This installation as coding clients are told of it."""
    return Program(str(home), sys.executable, str(Path(tallystick.__file__).resolve().parent))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "owner"
