"""Hosts on disks that are full, that fail, and whose bytes have changed: told clearly, nothing half done, readable."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3

import pytest

from tallystick import wire
from tallystick.edge.process import keeper
from tests.support.hosts import eventually
from tests.support.places import Place, keepers, place_of


class Disks(Place):
    """A home on a disk that does as told."""

    def __init__(self, **limits):
        super().__init__(**limits)
        self.wishes = {"disk": True}

    def disk(self, **wishes):
        new = self.place / "disk.new"
        new.write_text(json.dumps(wishes))
        new.replace(self.place / "disk.json")

    def ask(self, key, **args):
        return self.call("ask", address="@worker", title=key, key=key, **args)["task_id"]

    def refused(self, op, **args):
        with pytest.raises(wire.WireError) as refusal:
            self.call(op, **args)
        return refusal.value

    def begin(self):
        assert self.start()
        self.call("join", name="worker")


def test_a_full_disk_is_told_with_a_remedy_and_leaves_no_half_state():
    with Disks() as place:
        place.begin()
        first = place.ask("first")
        place.disk(room=0)
        for _ in range(3):
            refusal = place.refused("ask", address="@worker", title="second", key="second")
            assert (refusal.code, refusal.remedy) == ("unavailable", "Free some disk space, then try again.")
            assert place.refused("take", who="worker", task=first).code == "unavailable"
            assert place_of(place.show(first)) == "submitted/new"
        place.disk()
        assert place.call("take", who="worker", task=first)["fence"] == 1
        second = place.ask("second")
        assert place.ask("second") == second
        place.stop()
        _, works = place.audit()
        assert set(works) == {first, second}


def test_a_command_that_ends_on_a_full_disk_is_reported_once_there_is_room():
    with Disks() as place:
        place.begin()
        tool = place.place / "tool"
        tool.mkdir()
        (tool / "t").write_text("#!/bin/sh\nwhile [ ! -e /dev/fd/9 ] && ! read x; do :; done\nsleep 0.3; echo made\n")
        (tool / "t").chmod(0o755)
        place.call("join", name="t", run=[str(tool / "t")])
        task = place.call("ask", address="@t", title="t", key="t")["task_id"]
        place.until(task, "working", "completed")
        place.disk(room=0)
        eventually(lambda: list((place.path / "jobs").glob("*/result.json")), "its end")
        assert place_of(place.show(task)) in ("working", "completed/unreviewed")
        place.disk()
        place.until(task, "completed/unreviewed")
        place.stop()
        events, _ = place.audit()
        assert sum(type(e.event).__name__ == "ResultHandedIn" for e in events) == 1


def test_that_nobody_knows_how_a_command_ended_on_a_full_disk_is_recorded_once_there_is_room():
    with Disks() as place:
        place.begin()
        tool = place.place / "tool"
        tool.mkdir()
        (tool / "t").write_text("#!/bin/sh\nsleep 1000\n")
        (tool / "t").chmod(0o755)
        place.call("join", name="t", run=[str(tool / "t")])
        task = place.call("ask", address="@t", title="t", key="t")["task_id"]
        place.until(task, "working")
        place.disk(room=0)
        [kept] = eventually(lambda: [note for note in keepers(place.path) if note["main"]], "its command")
        os.kill(kept["pid"], signal.SIGKILL)
        eventually(lambda: keeper.look_up(kept["main"]) is None, "its end")
        for _ in range(30):  # and the host has seen it, and could not write that down
            assert place.refused("ask", address="@worker", title="second", key="second").code == "unavailable"
        place.disk()
        eventually(lambda: place.show(task)["history"][-1]["what"] == "lost sight of it", "that it is in doubt")


def test_a_failing_sync_ends_writing_says_why_and_reading_goes_on():
    with Disks() as place:
        place.begin()
        first = place.ask("first")
        place.disk(fail=True)
        refusal = place.refused("ask", address="@worker", title="second", key="second")
        assert refusal.code == "unavailable"
        place.disk()
        refusal = place.refused("ask", address="@worker", title="second", key="second")
        assert refusal.code == "unavailable"
        assert refusal.remedy == "Look at the disk; the host must be restarted before it writes again."
        assert place_of(place.show(first)) == "submitted/new"
        place.stop()
        assert place.start()
        second = place.ask("second")
        place.stop()
        _, works = place.audit()
        assert {first, second} <= set(works)


@pytest.mark.parametrize(
    ("kind", "how"), [("TaskSubmitted", "another word"), ("TaskSubmitted", "no JSON"), ("HostStarted", "another word")]
)
@pytest.mark.parametrize("first_look", [1000, 1], ids=["among the newest events", "far back"])
def test_a_changed_byte_is_found_and_the_host_serves_reading_alone(kind, how, first_look):
    with Place() as place:
        assert place.start()
        place.call("join", name="worker")
        asks = [place.call("ask", address="@worker", title=f"task {i}", key=f"{i}")["task_id"] for i in range(5)]
        place.stop()
        damage(place.path / "tally.db", kind, how)
        assert place.start(first_look=first_look), "a damaged log is no reason to serve nothing"
        eventually(lambda: "log damaged" in place.said(), "the finding")
        with pytest.raises(wire.WireError) as refusal:
            place.call("ask", address="@worker", title="more", key="more")
        assert refusal.value.code == "unavailable"
        assert re.search(r"The log is damaged at event \d+", str(refusal.value))
        assert "tally log verify" in refusal.value.remedy
        assert len(json.dumps(place.call("board", everything=True)).split('"task_id"')) - 1 == len(asks)
        assert place.show(asks[-1])["title"] == "task 4"
        code, out, _ = place.tally("log", "verify")
        assert code == 1
        assert "damage" in out.lower()


def test_a_host_that_cannot_read_who_is_who_says_so_and_does_not_start():
    with Place() as place:
        assert place.start()
        place.stop()
        damage(place.path / "tally.db", "HostStarted", "no JSON")
        with pytest.raises(AssertionError, match=r"Who and where cannot be read from the log: .*\n.*Keep a copy"):
            place.start()


def damage(path, kind, how):
    """Change one byte of the first event of a kind, as a failing disk does."""
    base = sqlite3.connect(path)
    name = "SELECT min(e.position), e.data FROM events e JOIN names n ON n.id = e.type WHERE n.name = ?"
    position, data = base.execute(name, (kind,)).fetchone()
    at = data.index({"HostStarted": 'boot_id":"', "TaskSubmitted": 'digest":"'}[kind]) + 10
    changed = data[:at] + "X" + data[at + 1 :] if how == "another word" else "X" + data[1:]
    assert base.execute("UPDATE events SET data = ? WHERE position = ?", (changed, position)).rowcount == 1
    base.commit()
    base.close()
