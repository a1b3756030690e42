"""A real host in a world of the test's making: `mortal.py WORLD-JSON`, its home in TALLY_HOME.

`kill`: {place: n}, it kills itself with -9 the n-th time it reaches that place. `disk`: a faulty disk, which a file
`disk.json` in the home's parent commands ({"room": bytes or null, "fail": true}). A file `clock` there is added to the
wall clock, `asleep` to the boot clock (and the wall). `sandbox`: false, as on a machine without one; `nests`: false, as
where none starts inside of another; `names`: {host: address}, as a resolver would give them.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "fault")]

from tallystick import bootstrap  # noqa: E402
from tallystick.app import custody  # noqa: E402
from tallystick.app.clock import SystemClock  # noqa: E402
from tallystick.assembly import World  # noqa: E402
from tallystick.edge.acp import egress  # noqa: E402
from tallystick.edge.process import runner  # noqa: E402
from tallystick.store.sqlite import checkpoint  # noqa: E402

WISHES = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
PLACE = Path(os.environ["TALLY_HOME"]).parent
left = dict(WISHES.get("kill", {}))


def reached(place: str) -> None:
    if place in left:
        left[place] -= 1
        if left[place] == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class OtherClock(SystemClock):
    """The machine's clocks, moved by what files say."""

    def now(self) -> float:
        return super().now() + number("clock") + number("asleep")

    def boot(self) -> float:
        return super().boot() + number("asleep")


def number(name: str) -> float:
    try:
        return float((PLACE / name).read_text() or 0)
    except FileNotFoundError:
        return 0.0


def disk() -> str:
    import apsw
    from vfs import Disk, FaultyVfs

    class Commanded(Disk):
        def write(self, name: str, offset: int, data: bytes | None) -> None:
            if data and wish("room") is not None and len(data) > wish("room"):
                raise apsw.FullError("no room left")

        def sync(self, name: str) -> None:
            if wish("fail"):
                raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)

        def delete(self, name: str) -> None:
            pass

    global KEPT  # SQLite keeps no reference to it
    KEPT = FaultyVfs("faulty", Commanded())
    return "faulty"


def wish(name: str) -> object:
    try:
        return json.loads((PLACE / "disk.json").read_text()).get(name)
    except FileNotFoundError:
        return None


KEPT = None
faulthandler.register(signal.SIGUSR1, all_threads=True)
checkpoint.PASSIVE_PAGES = 1  # checkpoints are rare otherwise
custody._FIRST_LOOK = WISHES.get("first_look", custody._FIRST_LOOK)
if WISHES.get("sandbox") is False:
    runner.try_out = lambda: runner.Trial(reason="None is wanted.", remedy="")
if WISHES.get("nests") is False:
    runner.nests = lambda _trial: False
NAMES, plain_resolve = WISHES.get("names", {}), egress.resolve


async def resolve(host: str, port: int) -> list[str]:
    return [NAMES[host]] if host in NAMES else await plain_resolve(host, port)


egress.resolve = resolve
world = World(
    clock=OtherClock() if WISHES.get("clock") else SystemClock(),
    vfs=disk() if WISHES.get("disk") else None,
    reached=reached if left else World().reached,
)
plain_build = bootstrap.build
bootstrap.build = lambda settings: plain_build(settings, world)
sys.exit(bootstrap.main(["up"]))
