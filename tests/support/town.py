"""A whole host with what tests of stories need: names, refusals, counts of events, and time that passes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tallystick.wire import WireError
from tests.support.hosts import RUN_TALLY, eventually
from tests.support.places import Place, place_of

RACER = Path(__file__).with_name("racer.py")
ELSEWHERE = ("session opened", "presence changed", "host started")


class Town(Place):
    """One host for the tests of a module. Each test brings agents and tasks of its own, so that order is no matter."""

    def __init__(self, **limits):
        super().__init__(**limits)
        self.wishes = {"clock": True}
        self.numbers = itertools.count(1)

    def __enter__(self):
        super().__enter__()
        assert self.start()
        return self

    def name(self, begin="agent"):
        """A name that nobody had."""
        return f"{begin}-{next(self.numbers)}x"

    def agent(self, begin="agent", **form):
        """An agent joined by the person; its name."""
        name = self.name(begin)
        self.call("join", name=name, **form)
        return name

    def ask(self, to, who="", **form):
        """The receipt of a task for somebody."""
        return self.call("ask", who, address=f"@{to}", **{"title": f"task {next(self.numbers)}", **form})

    def task(self, to, who="", **form):
        return self.ask(to, who, **form)["task_id"]

    def refused(self, op, who="", **form):
        """The refusal that must come: a code of the table, a sentence, a next step, and no word of the inside."""
        with pytest.raises(WireError) as caught:
            self.call(op, who, **form)
        return proper(caught.value)

    def run_tally(self, *words, who="", **options):
        """`tally` in this place: (exit code, stdout, stderr)."""
        as_ = ("--as", who) if who else ()
        return self.tally(*words, *as_, **{"cwd": self.place, **options})

    def says(self, *words, who="", **options):
        """What `tally … --json` answers where it must succeed."""
        code, out, err = self.run_tally(*words, "--json", who=who, **options)
        assert code == 0, out + err
        return json.loads(out)

    def complains(self, *words, who="", **options):
        """(exit code, the error) of a `tally … --json` that must be refused."""
        code, out, err = self.run_tally(*words, "--json", who=who, **options)
        error = json.loads(out)["error"]
        assert code in (1, 2), out + err
        assert "Traceback" not in out + err
        return code, proper(WireError(error["code"], error["message"], error["remedy"]))

    def position(self):
        """How many events there are."""
        return self.says("log", "head")["position"]

    def events_since(self, position):
        """What happened since, but for hosts and sessions that come and go."""
        found = self.call("activity", after=position, limit=1000)["events"]
        return [line["what"] for line in found if line["what"] not in ELSEWHERE]

    def turns(self, who):
        return [item["task_id"] for item in self.call("inbox", who)["turns"]]

    def notices(self, who=""):
        return {item["task_id"]: item for item in self.call("inbox", who)["notices"]}

    def pass_time(self, seconds):
        """The machine sleeps for so long, and the host has looked at what is due since."""
        path = self.place / "asleep"
        slept = float(path.read_text()) if path.exists() else 0.0
        new = self.place / "asleep.new"
        new.write_text(str(slept + seconds))
        new.replace(path)
        if not hasattr(self, "bell"):
            self.bell = self.agent("bell")
        self.until(self.task(self.bell, deadline="100ms"), "failed/expired")

    def command(self, script="cat", **form):
        """A command agent; `{gate}` blocks until it is opened, `{runs}` gets a line per run. Its name."""
        name = self.name("cmd")
        folder = self.place / name / "bin"
        folder.mkdir(parents=True)
        for fifo in ("gate", "runs"):
            os.mkfifo(folder / fifo)
        words = script.format(gate=folder / "gate", runs=folder / "runs")
        (folder / name).write_text(f"#!/bin/sh\n{words}\n")
        (folder / name).chmod(0o755)
        self.call("join", name=name, run=[str(folder / name)], seconds=60, **form)
        return name

    def fifo(self, command, which):
        """Both ends of a fifo of a command, open, so that neither side blocks."""
        return Fifo(self.place / command / "bin" / which)

    def racers(self, count):
        """Client processes that wait for their words."""
        found = [self.spawn(sys.executable, "-I", "-S", str(RACER), stdin=subprocess.PIPE) for _ in range(count)]
        for racer in found:
            line = racer.stdout.readline()
            assert line == b"ready\n", (line, racer.stderr.read())
        return found


class Fifo:
    """One end of a story: `with town.fifo(name, "gate") as gate: gate.open()`."""

    def __init__(self, path):
        self.number = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.number)

    def open(self):
        os.write(self.number, b"open\n")

    def lines(self):
        try:
            return os.read(self.number, 65536).decode().splitlines()
        except BlockingIOError:
            return []


def race(racers, calls):
    """One call each at once; the answers."""
    for racer, call in zip(racers, calls, strict=True):
        racer.stdin.write(json.dumps([call]).encode() + b"\n")
    for racer in racers:
        racer.stdin.flush()
    return [json.loads(racer.stdout.readline())[0] for racer in racers]


def proper(error):
    """A refusal as callers must get it; anything else is a failure of the test."""
    assert error.code != "internal", error.message
    assert error.message, error.code
    assert error.remedy, error.message
    assert "Traceback" not in error.message + error.remedy
    return error


__all__ = ["RUN_TALLY", "Town", "eventually", "place_of", "proper", "race"]
