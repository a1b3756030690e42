"""What every part of a host stands on: the record, time, what is remembered of it, and who writes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tallystick import wire
from tallystick.app.clock import Chance, HighWater, RandomIds, SystemClock
from tallystick.app.custody import Hints
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.execute import Executor
from tallystick.app.failpoints import Reached, unmoved
from tallystick.app.feed import Feed
from tallystick.app.gather import Gather
from tallystick.app.heads import Heads
from tallystick.app.kept import KeptBlobs
from tallystick.app.ports import Clock, Notifier
from tallystick.app.presence import Presence
from tallystick.app.routing import Routing
from tallystick.app.views import Views
from tallystick.app.words import Words
from tallystick.config import Settings
from tallystick.core.limits import Limits
from tallystick.edge.api import control_path
from tallystick.edge.git import GitCommands
from tallystick.edge.mcp import Extra
from tallystick.edge.process import ProcessRunner, prefixes
from tallystick.store.blobs import BlobStore
from tallystick.store.sqlite import SqliteStore


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


class Foundation(NamedTuple):
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


def lay_foundation(settings: Settings, diagnostics: Diagnostics, world: World) -> Foundation:
    """Made and opened, but not started."""
    home, limits, reached = settings.home, settings.limits, world.reached
    clock = HighWater(world.clock, 0.0)
    store = SqliteStore.open(home / "tally.db", vfs=world.vfs, failpoint=reached, salt=Chance())
    blobs = KeptBlobs(BlobStore(home / "blobs"))
    runner = ProcessRunner(home, clock.clock, masks=(str(control_path(home).parent),), reached=reached)
    heads, feed, presence = Heads(store), Feed(), Presence(clock, limits)
    gather = Gather(store, heads, clock, presence, limits)
    views = Views(store, heads, presence, clock, feed, blobs, limits, runner.level)
    hints = Hints(home, wire.hint_path, heads, views, diagnostics)
    return Foundation(
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
