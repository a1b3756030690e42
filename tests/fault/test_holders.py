"""Holders that sleep, clocks that jump, hosts and keepers that die in the middle of the work."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from tallystick.app.clock import HighWater
from tallystick.app.deliver import Deliverer
from tallystick.app.desk import forms
from tallystick.app.duties import Duties
from tallystick.app.presence import Presence
from tallystick.core.limits import Limits
from tallystick.testing import ManualClock
from tests.support.ends import PATIENCE, Haven
from tests.support.hosts import eventually
from tests.support.places import Place, git, keepers, place_of

RACER = Path(__file__).parents[1] / "support" / "racer.py"
HOUR = 3600.0


class Work(Place):
    """A home with a repository, an agent that pulls, and commands that tests can hold back."""

    def __init__(self, **limits):
        super().__init__(**limits)
        self.wishes = {"clock": True}
        self.repo = self.repository()
        self.number = 0

    def begin(self):
        assert self.start()
        self.call("join", name="worker", cwd=str(self.repo))

    def command(self, name, script, seconds=60):
        """A command agent. `{gate}` blocks until it is opened; each run writes its intent into `{count}`."""
        folder = self.place / name / "bin"
        folder.mkdir(parents=True)
        for fifo in ("gate", "count"):
            os.mkfifo(folder / fifo)
        words = script.format(gate=folder / "gate", count=folder / "count")
        (folder / name).write_text(f"#!/bin/sh\necho $TALLY_INTENT > {folder / 'count'}\n{words}\n")
        (folder / name).chmod(0o755)
        self.counter = os.open(folder / "count", os.O_RDWR | os.O_NONBLOCK)
        self.gate = os.open(folder / "gate", os.O_RDWR | os.O_NONBLOCK)
        self.call("join", name=name, run=[str(folder / name)], seconds=seconds, cwd=str(self.repo))

    def open_gate(self):
        os.write(self.gate, b"open\n")

    def runs(self):
        """What the commands wrote since it was looked at last: one intent per run."""
        try:
            return os.read(self.counter, 65536).decode().split()
        except BlockingIOError:
            return []

    def ask(self, address, **args):
        self.number += 1
        title = f"task {self.number}"
        return self.call("ask", address=address, title=title, key=title, cwd=str(self.repo), **args)["task_id"]

    def take(self, task):
        return self.call("take", who="worker", task=task, cwd=str(self.repo))

    def shift(self, what, seconds):
        """Move the wall clock (`clock`), or let the machine sleep for so long (`asleep`)."""
        new = self.place / f"{what}.new"
        new.write_text(str(seconds))
        new.replace(self.place / what)

    def look(self):
        """Have the host look at what is due, and wait until it has: what is over by then comes first."""
        self.until(self.ask("@worker", deadline="100ms"), "failed/expired")

    def said_no(self, op, **args):
        """The refusal of a verb of the worker."""
        with pytest.raises(Exception) as refusal:
            self.call(op, who="worker", cwd=str(self.repo), **args)
        return refusal.value

    def tally_says(self, *words):
        code, out, err = self.tally(*words, cwd=self.repo)
        assert code == 0, out + err
        return out

    def counts(self):
        """How often which event happened, per task."""
        events, works = self.audit()
        return {t: Counter(type(e.event).__name__ for e in events if e.stream == t) for t in works}, works


@pytest.fixture
def work():
    with Work() as place:
        place.begin()
        yield place


def processes(place):
    return [n["main"] for n in keepers(place.path) if n["main"] and os.path.exists(f"/proc/{n['main']}")]


# --- a holder that was stopped ---


def test_a_holder_that_was_stopped_wakes_up_late_and_is_refused(work):
    task = work.ask("@worker")
    argv = [sys.executable, "-I", "-S", str(RACER)]
    holder = work.spawn(*argv, stdin=-1)
    assert holder.stdout.readline() == b"ready\n"

    def said(op, **args):
        call = {"op": op, "as": "worker", "cwd": str(work.repo), "args": {"task": task, **args}}
        holder.stdin.write(json.dumps([call]).encode() + b"\n")
        holder.stdin.flush()

    said("take")
    assert json.loads(holder.stdout.readline())[0]["result"]["fence"] == 1
    holder.send_signal(signal.SIGSTOP)
    said("submit", text="late", fence=1)
    work.shift("asleep", HOUR)
    work.look()
    work.until(task, "submitted/new")
    assert work.take(task)["fence"] == 2
    holder.send_signal(signal.SIGCONT)
    (answer,) = json.loads(holder.stdout.readline())
    assert (answer["code"], "Stale: fence 1" in answer["message"]) == ("conflict", True)
    assert work.call("submit", who="worker", task=task, text="in time", fence=2, cwd=str(work.repo))["state"] == (
        "completed"
    )
    work.stop()
    counts, _ = work.counts()
    assert (counts[task]["ResultHandedIn"], counts[task]["LeaseLapsed"]) == (1, 1)


def test_a_late_holder_is_refused_while_nobody_holds_it(work):
    task = work.ask("@worker")
    work.take(task)
    work.shift("asleep", HOUR)
    work.look()
    work.until(task, "submitted/new")
    assert work.said_no("submit", task=task, text="late", fence=1).code == "conflict"
    assert work.said_no("progress", task=task, text="late", fence=1).code == "conflict"


# --- clocks ---


@pytest.mark.parametrize("jump", [2 * HOUR, -2 * HOUR])
def test_a_wall_clock_that_jumps_moves_no_lease(work, jump):
    work.command("sleeper", "exec sleep 1000", seconds=600)
    pulled, pushed = work.ask("@worker"), work.ask("@sleeper")
    work.take(pulled)
    work.until(pushed, "working")
    work.shift("clock", jump)
    work.look()
    work.look()
    assert place_of(work.show(pulled)) == place_of(work.show(pushed)) == "working"
    assert work.call("submit", who="worker", task=pulled, text="t", fence=1, cwd=str(work.repo))["state"] == "completed"
    work.call("cancel", task=pushed)
    work.until(pushed, "canceled")


def test_a_wall_clock_put_back_delays_no_deadline_and_turns_no_time_back(work):
    early, late = work.ask("@worker", deadline="200ms"), work.ask("@worker", deadline="1h")
    work.shift("clock", -2 * HOUR)
    work.until(early, "failed/expired")
    assert place_of(work.show(late)) == "submitted/new"
    work.stop()
    events, _ = work.audit()
    times = [event.at for event in events]
    assert times == sorted(times)


def test_a_machine_that_sleeps_over_a_deadline_finds_it_expired(work):
    task = work.ask("@worker", deadline="1h")
    work.shift("asleep", 2 * HOUR)
    work.look()
    assert place_of(work.show(task)) == "failed/expired"
    assert work.said_no("take", task=task).code in ("conflict", "expired")


def test_time_goes_on_while_the_wall_clock_is_behind():
    clock = ManualClock(now=1000.0)
    high = HighWater(clock, 0.0)
    assert high.now() == 1000.0
    clock.step_wall(-500)
    assert (high.now(), high.behind()) == (1000.0, 500.0)
    clock.advance(10)
    assert high.now() == 1010.0
    clock.step_wall(1000)
    assert high.now() == 1510.0


def test_a_lease_is_counted_on_boot_time_and_renewed_by_a_sign_of_life():
    clock = ManualClock(now=1000.0)
    presence = Presence(HighWater(clock, 0.0), Limits())
    task = SimpleNamespace(task_id="tsk_1", session="ses_1", fence=1, lease_until=1100.0, lease_seconds=100.0)
    assert presence.lease_left(task) == 100.0
    clock.step_wall(5000)
    assert presence.lease_left(task) == 100.0
    clock.advance(60)
    assert presence.lease_left(task) == 40.0
    presence.heard("ses_1")
    assert presence.lease_left(task) == 100.0
    clock.advance(101)
    assert presence.lease_left(task) < 0


# --- hosts, keepers and commands that die ---


@pytest.mark.parametrize("while_down", [False, True], ids=["ends under the next host", "ends without a host"])
def test_reported_36_a_command_survives_its_host_and_is_reported_once(work, while_down):
    work.command("slow", "head -1 {gate}")
    task = work.ask("@slow")
    work.until(task, "working")
    work.kill()
    if while_down:
        work.open_gate()
        eventually(lambda: not processes(work), "the end of the command")
    assert work.start()
    if not while_down:
        assert place_of(work.show(task)) == "working"
        work.open_gate()
    work.until(task, "completed")
    assert len(work.runs()) == 1
    for folder in ("jobs", "worktrees"):
        eventually(lambda folder=folder: not list((work.path / folder).iterdir()), f"that nothing is left in {folder}")
    work.stop()
    counts, _ = work.counts()
    assert counts[task]["ResultHandedIn"] == 1


@pytest.mark.parametrize("outcome", ["redo", "done"])
def test_a_host_and_a_keeper_that_die_leave_a_doubt_that_a_person_settles(work, outcome):
    work.command("slow", "head -1 {gate}")
    task = work.ask("@slow")
    work.until(task, "working")
    eventually(lambda: work.runs(), "its first run")  # it begins right after that is on record
    work.kill()
    (note,) = keepers(work.path)
    os.kill(note["pid"], signal.SIGKILL)
    eventually(lambda: not processes(work), "the end of the command")
    assert work.start()
    assert place_of(work.show(task)) == "working", "whoever knows has a full lease to say so"
    work.shift("asleep", 200.0)
    work.look()
    work.until(task, "input_required/unverified")
    assert not work.runs(), "nothing is tried again by itself"
    work.tally_says("verify", task, "--settle", outcome, "I looked.")
    if outcome == "redo":
        work.open_gate()
        work.until(task, "completed/unreviewed")
        assert len(work.runs()) == 1
    else:
        assert place_of(work.show(task)) == "completed/approved"
    work.stop()
    counts, _ = work.counts()
    assert counts[task]["DeliveryLeased"] == (2 if outcome == "redo" else 1)


def test_a_doubt_takes_no_slot_from_the_work_that_waits(work):
    work.command("slow", "head -1 {gate}")
    first = work.ask("@slow")
    work.until(first, "working")
    eventually(lambda: work.runs(), "its first run")
    os.kill(keepers(work.path)[0]["pid"], signal.SIGKILL)
    eventually(lambda: not processes(work), "the end of the command")
    second = work.ask("@slow")
    work.open_gate()
    work.until(second, "completed")


def test_a_cancel_is_confirmed_only_when_the_processes_are_gone(work):
    work.command("stubborn", "trap 'head -1 {gate}; exit 0' TERM\necho ready > {count}\nwhile :; do sleep 0.05; done")
    task = work.ask("@stubborn")
    work.until(task, "working")
    eventually(lambda: "ready" in work.runs(), "that it can say no")
    work.call("cancel", task=task)
    work.look()
    assert place_of(work.show(task)) == "working"
    assert processes(work)
    work.open_gate()
    work.until(task, "canceled")
    assert not processes(work)


def test_a_command_whose_task_a_person_corrected_is_ended(work):
    work.command("sleeper", "exec sleep 1000")
    task = work.ask("@sleeper")
    work.until(task, "working")
    eventually(lambda: processes(work), "its process")
    work.tally_says("correct", task, "failed/error", "Not needed.")
    eventually(lambda: not processes(work), "the end of the command")
    assert place_of(work.show(task)) == "failed/error"


def test_reported_61_a_job_that_no_task_waits_for_is_ended_at_the_next_start(work):
    task = work.ask("@worker", done_when_argv=["sleep", "1000"])
    work.take(task)
    commit = work.commit(work.repo, "two\n")
    work.call("submit", who="worker", task=task, text="t", commit=commit, cwd=str(work.repo))
    eventually(lambda: processes(work), "the check")
    work.tally_says("correct", task, "failed/error", "Not needed.")
    work.kill()
    assert work.start()
    eventually(lambda: not processes(work), "the end of the orphan")
    eventually(lambda: not list((work.path / "jobs").iterdir()), "that it is forgotten")
    eventually(lambda: not list((work.path / "worktrees").iterdir()), "that its work tree is gone")


def test_a_check_survives_an_orderly_restart_with_its_work_tree(work):
    work.command("gatekeeper", "true")
    gate = work.place / "gatekeeper" / "bin" / "gate"
    git(work.repo, "config", "user.name", "t")
    search = {"PATH": f"{os.environ['PATH']}:{gate.parent}"}
    work.client.call("ask", args={"address": "@worker", "title": "c", "key": "c", "done_when_argv": [
        "sh", "-c", f"head -1 {gate} && grep -q two a.txt"]}, cwd=str(work.repo), env=search)
    task = work.call("board", cwd=str(work.repo)) and work.call("show", task="@last")["task_id"]
    work.take(task)
    commit = work.commit(work.repo, "two\n")
    work.call("submit", who="worker", task=task, text="t", commit=commit, cwd=str(work.repo))
    eventually(lambda: processes(work), "the check")
    work.stop()
    assert work.start()
    work.open_gate()
    work.until(task, "completed/verified")


def test_a_command_that_cannot_be_started_fails_its_task():
    with Work(retry_seconds=[0.01]) as work:
        work.begin()
        work.command("gone", "true")
        (work.place / "gone" / "bin" / "gone").write_text("#!/no/such/interpreter\n")
        work.until(work.ask("@gone"), "failed")


async def test_an_agent_that_nothing_can_be_sent_to_holds_up_nobody_elses_work(tmp_path):
    async with Haven(tmp_path / "home") as haven:
        person = await haven.person()
        for name in ("broken", "sound"):
            await haven.desk.join(person, forms.Join(name=name, run=("/bin/echo", "done")))
        transports = haven.desk.s.deliverer._transports
        transports["command"] = Broken(transports["command"])
        await haven.desk.set_mode(person, "pause", "all")
        first, second = [
            (await haven.desk.ask(person, forms.Ask(address=f"@{name}", title="t"))).task_id
            for name in ("broken", "sound")
        ]
        await haven.desk.set_mode(person, "resume", "all")  # both are looked at together
        async with asyncio.timeout(PATIENCE):
            while (shown := await haven.desk.show(person, second)).state != "completed":
                await haven.desk.wait(person, second, version=shown.version, seconds=1.0)
        assert (await haven.desk.show(person, first)).state == "submitted"


class Broken:
    """A transport with a fault for one agent."""

    def __init__(self, sound):
        self._sound = sound

    def __getattr__(self, name):
        return getattr(self._sound, name)

    async def plan(self, agent, work):
        if agent.alias == "broken":
            raise RuntimeError("a fault of the host")
        return await self._sound.plan(agent, work)


@pytest.mark.parametrize(("kind", "parts"), [(Duties, 9), (Deliverer, 10)])
async def test_a_loop_that_is_stopped_as_it_wakes_up_stops(kind, parts):
    async def nothing():
        return 1000.0

    part = SimpleNamespace(record=print, failure=print, histories=SimpleNamespace(of=print), start=nothing)
    loop = kind(*[part] * parts)

    loop.once = loop._once = nothing
    loop._pushed_to = list
    await loop.start()
    for _ in range(5):
        await asyncio.sleep(0)
    loop._wake.set()
    async with asyncio.timeout(30):
        await loop.stop()
