"""Everything that the desk uses, in one value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from tallystick.app.clients import Installer
from tallystick.app.clock import HighWater
from tallystick.app.deliver import Deliverer
from tallystick.app.desk.diagnosis import Finding
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.execute import Executor
from tallystick.app.feed import Feed
from tallystick.app.heads import Heads
from tallystick.app.jobs import Runner
from tallystick.app.ports import Blobs, Drives, Git, NewId
from tallystick.app.presence import Presence
from tallystick.app.reaches import Reaches
from tallystick.app.returning import Returning
from tallystick.app.routing import Routing
from tallystick.app.sessions import Sessions
from tallystick.app.shapes import Shapes
from tallystick.app.tokens import Keyring
from tallystick.app.turns import Turns
from tallystick.app.verify import Verifier
from tallystick.app.views import Views
from tallystick.app.watches import Watches
from tallystick.core.limits import Limits
from tallystick.store.interface import Maintenance, Store

Examine = Callable[[str], Awaitable[list[Finding]]]
"""Looks at one part of the host, for a workspace."""


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the desk uses; made by `bootstrap`."""

    home: Path
    limits: Limits
    person_verbs: str
    store: Store
    maintenance: Maintenance
    heads: Heads
    executor: Executor
    views: Views
    presence: Presence
    clock: HighWater
    feed: Feed
    new_id: NewId
    git: Git
    runner: Runner
    installer: Installer
    blobs: Blobs
    verifier: Verifier
    diagnostics: Diagnostics
    drives: Drives
    turns: Turns
    sessions: Sessions
    watches: Watches
    routing: Routing
    reaches: Reaches
    deliverer: Deliverer
    returning: Returning
    tokens: Keyring
    shapes: Shapes
    engine: str
    """The database and its version, for doctor."""
    examine: tuple[Examine, ...] = ()
    """What the parts that bootstrap chose have to say to doctor."""
