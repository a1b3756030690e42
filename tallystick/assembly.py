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
from tallystick.core.rows import Row
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


class Base(NamedTuple):
    """What every room of the host stands on."""

    settings: Settings
    diagnostics: Diagnostics
    world: World
    clock: HighWater
    new_id: RandomIds
    store: SqliteStore
    blobs: KeptBlobs
    git: GitCommands
    runner: ProcessRunner
    heads: Heads
    feed: Feed
    presence: Presence
    words: Words
    routing: Routing
    gather: Gather
    views: Views
    hints: Hints
    executor: Executor

    @property
    def home(self) -> Path:
        """The host's own directory."""
        return self.settings.home

    @property
    def limits(self) -> Limits:
        """The limits that hold."""
        return self.settings.limits

    def prefixes(self) -> Callable[..., Any]:
        """What a process of an agent does not see besides."""
        return partial(prefixes, hidden=(str(self.home), str(control_path(self.home).parent)))


class Drive(NamedTuple):
    """Sessions that the host drives."""

    transport: AcpTransport
    driving: Driving
    sockets: Doors


class Rooms(NamedTuple):
    """What looks after each commit for something to do."""

    verifier: Verifier
    drive: Drive
    transports: dict[str, Transport]
    deliverer: Deliverer
    duties: Duties
    reaches: Reaches
    turns: Turns
    sessions: Sessions
    proofs: Proofs
    watches: Watches
    wakes: Wakes
    custody: Custody
    notices: list[Notices]
    first: FirstThings


def assemble(
    settings: Settings,
    diagnostics: Diagnostics,
    life: Mapping[str, Handler],
    stop: Callable[[str], None],
    announce: Callable[[str], None],
    world: World = World(),  # noqa: B008 - immutable
) -> list[Service]:
    """The services of a host, in the order in which they start; `announce` is told the address it listens at."""
    base = _base(settings, diagnostics, world)
    rooms = _rooms(base)
    tokens, shapes = SpokeKeyring(base.home), ShapeJudge()
    desk = _desk(base, rooms, tokens, shapes)
    hub = Hub(desk, base.limits, base.clock.now, partial(unforeseen, diagnostics), shapes)
    rooms.transports["spoke"] = SpokeTransport(hub)
    tokens.removed = hub.dismiss
    _join(base, rooms, hub)
    protocol = Protocol(desk, diagnostics)
    ops: dict[str, Handler] = {**_ops(desk, life, stop, protocol), "reach": hub}
    mcp = partial(McpHttp, protocol, parse, extra=world.mcp)
    server = rooms.drive.sockets.server = ApiServer(ops, path=control_path(base.home), diagnostics=diagnostics)
    doors = [*_http(settings, desk, ops, diagnostics, announce, mcp, hub), server, hub]
    return [Record(base.store, base.heads, base.clock), shapes, *_inside(base, rooms), *doors]


def _base(settings: Settings, diagnostics: Diagnostics, world: World) -> Base:
    home, limits, reached = settings.home, settings.limits, world.reached
    clock = HighWater(world.clock, 0.0)
    store = SqliteStore.open(home / "tally.db", vfs=world.vfs, failpoint=reached, salt=Chance())
    blobs = KeptBlobs(BlobStore(home / "blobs"))
    runner = ProcessRunner(home, clock.clock, masks=(str(control_path(home).parent),), reached=reached)
    heads, feed, presence = Heads(store), Feed(), Presence(clock, limits)
    gather = Gather(store, heads, clock, presence, limits)
    views = Views(store, heads, presence, clock, feed, blobs, limits, runner.level)
    hints = Hints(home, wire.hint_path, heads, views)
    return Base(
        settings=settings,
        diagnostics=diagnostics,
        world=world,
        clock=clock,
        new_id=RandomIds(clock),
        store=store,
        blobs=blobs,
        git=GitCommands(home),
        runner=runner,
        heads=heads,
        feed=feed,
        presence=presence,
        words=Words(store, heads.histories.of),
        routing=Routing(store, heads, presence, clock),
        gather=gather,
        views=views,
        hints=hints,
        executor=Executor(store, heads, gather, clock, feed, limits, hints.before_commit, reached),
    )


# --- what looks after each commit ---------------------------------------------------------------------------------


def _rooms(b: Base) -> Rooms:
    reached = b.world.reached
    drive, reaches, turns = _drive(b), Reaches(b.store, b.heads), Turns(lambda: b.heads.committed_directory)
    commands = CommandTransport(b.home, b.git, b.runner, b.blobs, b.new_id, b.limits, b.prefixes(), reached)
    transports: dict[str, Transport] = {"command": commands, "drive": drive.transport}
    due = Due(b.store, b.heads, b.views)
    return Rooms(
        verifier=Verifier(b.home, b.git, b.runner, b.blobs, b.executor, b.new_id, b.diagnostics, b.prefixes(), reached),
        drive=drive,
        transports=transports,
        deliverer=Deliverer(
            b.store,
            b.heads,
            b.executor,
            b.words,
            b.clock,
            b.new_id,
            b.limits,
            transports,
            b.diagnostics,
            b.routing,
            reached,
        ),
        duties=Duties(
            b.store, b.heads, b.gather, b.executor, b.presence, b.clock, b.new_id, b.limits, b.diagnostics, reached
        ),
        reaches=reaches,
        turns=turns,
        sessions=Sessions(b.store, b.heads, b.executor, b.new_id, b.limits, peer.is_alive, b.diagnostics),
        proofs=Proofs(b.store, b.heads, b.executor, HISTORIES, b.diagnostics),
        watches=Watches(b.heads, b.executor, due, b.git, b.limits, b.diagnostics),
        wakes=_wakes(b, due, turns, drive),
        custody=Custody(
            b.home,
            b.store,
            b.store,
            b.heads,
            b.executor,
            b.views,
            b.clock,
            b.limits,
            b.diagnostics,
            __version__,
            reached,
        ),
        notices=_notices(b, reaches),
        first=FirstThings(b.heads, b.executor, b.store, b.new_id, _user(), os.getuid()),
    )


def _drive(b: Base) -> Drive:
    driving = Driving(b.store, b.heads, b.executor, b.words, b.presence, b.clock, b.new_id, b.limits, b.diagnostics)
    sockets = Doors()
    around = Around(
        home=b.home,
        sockets=control_path(b.home).parent,
        git=b.git,
        runner=b.runner,
        driving=driving,
        doors=sockets,
        environment=_inherited(),
        tally=(sys.executable, "-I", "-c", _TALLY, "mcp"),
        package=str(Path(tallystick.__file__).parent),
        prefixes=b.prefixes(),
        proved={},
    )
    return Drive(AcpTransport(around), driving, sockets)


def _wakes(b: Base, due: Due, turns: Turns, drive: Drive) -> Wakes:
    wakers: dict[str, Waker] = {"wake": CommandWaker(b.home, b.runner, b.limits), **wakers_of(turns, b.limits)}
    wakers["drive"] = DriveWaker(drive.transport, drive.driving)
    return Wakes(
        b.heads,
        b.executor,
        due,
        b.presence,
        turns,
        b.clock,
        b.new_id,
        b.limits,
        wakers,
        b.diagnostics,
        b.world.reached,
    )


def _notices(b: Base, reaches: Reaches) -> list[Notices]:
    """Where the settings and the machine allow it: one."""
    notifier = b.world.notifier or (Desktop() if b.settings.desktop and is_installed() else None)
    if notifier is None:
        return []
    notices = Notices(b.heads, notifier, b.diagnostics)
    notices.is_waited_for = reaches.is_followed
    return [notices]


def _inside(b: Base, r: Rooms) -> list[Service]:
    """What starts before any door is opened."""
    orphans = Orphans(b.home, b.heads, b.runner, b.git, b.diagnostics)
    first: list[Service] = [b.executor, r.first, r.custody, b.hints, orphans, r.verifier, r.drive.transport]
    return [*first, r.deliverer, r.duties, *r.notices, r.sessions, r.proofs, r.watches, r.wakes]


def _join(b: Base, r: Rooms, hub: Hub) -> None:
    """Who follows commits, who is told of what, and who ends what runs."""

    async def end_run(work: Work) -> bool:
        return await r.verifier.end_check(work) and await r.deliverer.end(work)

    def must_open(agent: str, _workspace: str, items: Sequence[Item]) -> None:
        task = next((item for item in items if item.item_id.startswith("tsk_")), None)
        for shown in r.notices:
            shown.must_be_opened(agent, task.item_id if task else "", task.title if task else items[0].title)

    def was_heard(agent: str) -> None:
        for shown in r.notices:
            shown.was_heard(agent)

    b.executor.follow = _follow(b, r, hub)
    b.executor.refused = Refusals(b.executor, b.clock).refused
    b.executor.stumbled = b.diagnostics.failure
    r.drive.transport.freed = r.wakes.freed
    r.wakes.must_open, r.wakes.was_heard = must_open, was_heard
    r.duties.end_run = end_run
    r.duties.is_in_hand = r.deliverer.is_in_hand
    r.duties.run_check = r.verifier.run_check
    r.duties.why_not_begun = b.routing.why_not_begun


def _follow(b: Base, r: Rooms, hub: Hub) -> Callable[[ev.Recorded, tuple[Row, ...]], None]:
    """What is told of each commit, in this order."""

    def follow(recorded: ev.Recorded, rows: tuple[Row, ...]) -> None:
        b.presence.committed(recorded, rows)
        r.deliverer.committed(rows)
        r.verifier.committed(rows)
        r.duties.committed(rows)
        r.custody.committed(rows)
        b.hints.committed(rows)
        for shown in r.notices:
            shown.committed(recorded, rows)
        r.sessions.committed(recorded)
        r.proofs.committed(recorded)
        r.wakes.committed(recorded, rows)
        if not isinstance(recorded.event, ev.TaskEvent):
            r.deliverer.look()
            if isinstance(recorded.event, ev.AgentLeft):
                r.first.follow_left(recorded.stream)
        r.drive.driving.committed(recorded)
        r.reaches.committed(recorded)
        hub.committed(recorded)

    return follow


# --- doors --------------------------------------------------------------------------------------------------------


def _desk(b: Base, r: Rooms, tokens: SpokeKeyring, shapes: ShapeJudge) -> FrontDesk:
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
