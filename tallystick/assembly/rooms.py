"""What follows each commit: deliveries, duties, checks, wakes; and sessions that the host drives."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import tallystick
from tallystick import __version__
from tallystick.app.custody import Custody, Refusals
from tallystick.app.deliver import Deliverer
from tallystick.app.driving import Driving
from tallystick.app.due import Due
from tallystick.app.duties import Duties
from tallystick.app.following import LEASE_EVENTS, MODE_EVENTS, OTHER_EVENTS, TASK_EVENTS, TOKEN_EVENTS, Following
from tallystick.app.host import Service
from tallystick.app.notices import Notices
from tallystick.app.openings import FirstThings
from tallystick.app.orphans import Orphans
from tallystick.app.ports import Transport, Waker
from tallystick.app.proofs import PROVABLE, Proofs
from tallystick.app.reaches import Reaches
from tallystick.app.sessions import Sessions
from tallystick.app.turns import Turns
from tallystick.app.verify import Verifier
from tallystick.app.wakes import STIRRING, Wakes
from tallystick.app.watches import Watches
from tallystick.assembly.foundation import Foundation
from tallystick.core import events as ev
from tallystick.core.rows import AgentRow, DeliveryRow, NoticeRow, SeenRow, TaskRow
from tallystick.core.state import Work
from tallystick.core.wake import Item
from tallystick.edge.acp import AcpTransport, Around, DriveWaker
from tallystick.edge.api import ApiServer, control_path, peer
from tallystick.edge.clients import HISTORIES, wakers_of
from tallystick.edge.command import CommandTransport, CommandWaker
from tallystick.edge.desktop import Desktop, is_installed
from tallystick.edge.spoke import Hub


class Sockets:
    """Sockets of sessions, at the server that is made after those who open them."""

    server: ApiServer

    async def listen_session(self, session_id: str, path: Path) -> None:
        """See `ApiServer`."""
        await self.server.listen_session(session_id, path)

    async def close_session(self, session_id: str) -> None:
        """See `ApiServer`."""
        await self.server.close_session(session_id)


class Drive(NamedTuple):
    """Sessions that the host drives."""

    transport: AcpTransport
    driving: Driving
    sockets: Sockets


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


def build_rooms(b: Foundation) -> Rooms:
    """All of them; a transport for spokes is still to come."""
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


def _drive(b: Foundation) -> Drive:
    driving = Driving(b.store, b.heads, b.executor, b.words, b.presence, b.clock, b.new_id, b.limits, b.diagnostics)
    sockets = Sockets()
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


_TALLY = "from tallystick._tally import main; raise SystemExit(main())"
"""What a session's client starts for our tools; it needs no search path."""


def _inherited() -> dict[str, str]:
    """What driven clients inherit of the host's own environment: who the user is, and no more."""
    names = ("HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "PATH")
    found = {name: os.environ[name] for name in names if os.environ.get(name)}
    return {"LANG": "C.UTF-8", "TERM": "dumb", **found}


def _wakes(b: Foundation, due: Due, turns: Turns, drive: Drive) -> Wakes:
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


def _notices(b: Foundation, reaches: Reaches) -> list[Notices]:
    """Where the settings and the machine allow it: one."""
    notifier = b.world.notifier or (Desktop() if b.settings.desktop and is_installed() else None)
    if notifier is None:
        return []
    notices = Notices(b.heads, notifier, b.diagnostics)
    notices.is_waited_for = reaches.is_followed
    return [notices]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "owner"


def inside(b: Foundation, r: Rooms) -> list[Service]:
    """What starts before any door is opened."""
    orphans = Orphans(b.home, b.heads, b.runner, b.git, b.diagnostics)
    first: list[Service] = [b.executor, r.first, r.custody, b.hints, orphans, r.verifier, r.drive.transport]
    return [*first, r.deliverer, r.duties, *r.notices, r.sessions, r.proofs, r.watches, r.wakes]


def join(b: Foundation, r: Rooms, hub: Hub) -> None:
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

    b.executor.follow = _following(b, r, hub).committed
    b.executor.refused = Refusals(b.executor, b.clock).refused
    b.executor.stumbled = b.diagnostics.failure
    r.drive.transport.freed = r.wakes.freed
    r.deliverer.prompts.ask_back = r.drive.driving.asked_back
    r.wakes.must_open, r.wakes.was_heard = must_open, was_heard
    r.duties.end_run = end_run
    r.duties.is_in_hand = r.deliverer.is_in_hand
    r.duties.run_check = r.verifier.run_check
    r.duties.why_not_begun = b.routing.why_not_begun


def _following(b: Foundation, r: Rooms, hub: Hub) -> Following:
    """Who is told of which commits, in this order."""

    def token_changed(recorded: ev.Recorded) -> None:
        if isinstance(recorded.event, TOKEN_EVENTS):
            hub.dismiss(recorded.event.name)

    return Following(
        events=(
            (LEASE_EVENTS, b.presence.leased),
            (PROVABLE, r.proofs.committed),
            (TASK_EVENTS, r.drive.driving.committed),
            (TASK_EVENTS, r.reaches.committed),
            ((ev.SessionEnded,), r.sessions.ended),
            ((ev.SessionEnded,), r.wakes.ended),
            (STIRRING, r.wakes.stirred),
            (MODE_EVENTS, lambda _: r.wakes.modes_changed()),
            (MODE_EVENTS, lambda _: r.drive.driving.modes_changed()),
            (MODE_EVENTS, lambda _: hub.modes_changed()),
            (OTHER_EVENTS, lambda _: r.deliverer.look()),
            ((ev.AgentLeft,), lambda recorded: r.first.follow_left(recorded.stream)),
            (TOKEN_EVENTS, token_changed),
        ),
        rows=(
            (TaskRow, b.presence.task_changed),
            (TaskRow, r.deliverer.task_changed),
            (TaskRow, r.verifier.task_changed),
            (TaskRow, r.duties.task_changed),
            (TaskRow, r.custody.task_changed),
            (TaskRow, b.hints.inbox_changed),
            (NoticeRow, b.hints.inbox_changed),
            (SeenRow, b.hints.inbox_changed),
            (AgentRow, b.hints.agent_changed),
            (DeliveryRow, r.deliverer.delivery_changed),
        ),
        commits=(*[shown.committed for shown in r.notices], r.wakes.committed),
        stumbled=b.diagnostics.failure,
    )
