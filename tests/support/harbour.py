"""A host, a spoke and callers as processes that die, stop and come back, each behind a strait of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from tests.support.hosts import SECONDS, eventually
from tests.support.places import Place
from tests.support.strait import Strait

HERE = Path(__file__).parent
CAPABILITY = "Work"


class Harbour(Place):
    """One of each. `with Harbour() as harbour`; the spoke's store and the file of effects outlive its processes."""

    def __init__(self, **limits):
        super().__init__(**limits)
        self.effects = self.place / "effects"
        self.effects.touch()
        self.spoke = None
        self.offer = {"spoke_id": "deckhand", "capability": CAPABILITY}
        self.straits = {}
        self.calls = []

    def __enter__(self):
        for name in ("spoke", "caller"):
            self.straits[name] = Strait(str(self.place / f"{name}.sock"), self.socket).__enter__()
        return super().__enter__()

    def __exit__(self, *exc):
        for child in self.children:
            if child.poll() is None:
                child.send_signal(signal.SIGCONT)
        if self.spoke is not None:
            self.spoke.kill()
        for strait in self.straits.values():
            strait.__exit__()
        super().__exit__(*exc)

    # --- the three ---

    def revive(self):
        """Whoever is dead comes back. A spoke that lived on finds the new host by itself."""
        if self.is_dead():
            assert self.start(**self.wishes), self.said()
        if self.spoke is None or self.spoke.poll() is not None:
            self.begin_spoke()

    def begin_spoke(self):
        """A process of the spoke, and wait until it offers."""
        wishes = {**self.offer, "store": str(self.place / "spoke.db"), "effects": str(self.effects)}
        self.spoke = self.program("deckhand.py", wishes, "spoke")
        line = self.spoke.stdout.readline()
        assert line == b"offers\n", self.spoke.stderr.read().decode()

    def program(self, name, wishes, strait):
        """One of the programs of `tests/support`, behind that strait."""
        argv = [*self.inside(strait), sys.executable, str(HERE / name), json.dumps(wishes)]
        return self.spawn(*argv, env={"TALLY_SOCKET": self.straits[strait].path}, cwd=self.place)

    def inside(self, _strait):
        """What stands in front of a program's command."""
        return ()

    def shift(self, what, seconds):
        """Move the host's wall clock (`clock`), or let its machine sleep for so long (`asleep`)."""
        new = self.place / f"{what}.new"
        new.write_text(str(seconds))
        new.replace(self.place / what)

    def ask(self, key, **payload):
        """A caller in a process of its own that asks for one effect."""
        request = {"target_capability": CAPABILITY, "payload": {"key": key, **payload}, "dedup_key": key}
        call = self.program("caller.py", {**request, "timeout_ms": 1000 * SECONDS}, "caller")
        self.calls.append(call)
        return call

    def answer(self, call):
        """What a caller printed at its end; None where it was killed."""
        out, err = call.communicate(timeout=2 * SECONDS)
        assert out or call.returncode == -signal.SIGKILL, err.decode()
        return json.loads(out) if out else None

    def done(self, key):
        """How often the effect took place."""
        return self.effects.read_text().split().count(key)

    # --- what happens to them ---

    def pid(self, party, call):
        """The process of `host`, `spoke` or `caller`."""
        return {"host": self.host, "spoke": self.spoke, "caller": call}[party].pid

    def at(self, strait, way, kind, act):
        """Have `act` done once at that frame; the event is set afterwards."""
        happened = threading.Event()

        def reached():
            act()
            happened.set()

        self.straits[strait].at(way, kind, reached)
        return happened

    def nothing_happens(self):
        """Nothing more is done at any frame."""
        for strait in self.straits.values():
            with strait.lock:
                strait.traps.clear()

    def gate(self, name):
        """A FIFO that holds a handler until `open_gate`."""
        path = self.place / f"{name}.gate"
        os.mkfifo(path)
        return str(path)


def open_gate(path):
    """Let the handler go that waits at it, or will."""

    def opened():
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    eventually(opened, "somebody at the gate")


def end(process):
    """Kill a process, and wait until it is gone."""
    process.send_signal(signal.SIGKILL)
    process.wait(SECONDS)
