"""The host is killed with -9 at every place that has a name, once and twice in a row; nothing acknowledged is lost,
nothing is done twice, and the work comes to its end."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress

import pytest

from tallystick import wire
from tallystick.app.failpoints import FAILPOINTS
from tallystick.core.wake import BY_OUTCOME
from tallystick.store.sqlite import FAILPOINTS as STORE_FAILPOINTS
from tests.support.hosts import eventually
from tests.support.places import Place, keepers, place_of

FINISHED = ("completed", "failed", "canceled", "rejected")


class Story:
    """Goals that are pursued through any number of hosts: each step looks first whether it is still to be done."""

    def __init__(self, place):
        self.place = place
        self.repo = place.repository()
        self.acknowledged = []
        self.expected = {}
        self.seen = b""
        self.count = self.tool("tool", "echo $TALLY_INTENT > {fifo}; sleep 0.1; echo done")
        self.wakes = self.tool("waked", "echo $TALLY_WAKE > {fifo}")
        self.woken_by = b""
        self.tool("sleeper", "exec sleep 1000")

    def commit(self):
        if (self.repo / "a.txt").read_text() != "two\n":
            return self.place.commit(self.repo, "two\n")
        return "HEAD"

    def tool(self, name, script):
        """A command that counts its runs outside of the sandbox: through a pipe among its own read-only files."""
        folder = self.place.place / name / "bin"
        folder.mkdir(parents=True)
        fifo = folder / "count"
        os.mkfifo(fifo)
        (folder / name).write_text(f"#!/bin/sh\n{script.format(fifo=fifo)}\n")
        (folder / name).chmod(0o755)
        return os.open(fifo, os.O_RDWR | os.O_NONBLOCK)

    def runs(self):
        """The intents of all runs so far."""
        with suppress(BlockingIOError):
            self.seen += os.read(self.count, 65536)
        return self.seen.decode().split()

    def join(self):
        for name in ("worker", "helper", "fixer"):
            self.place.call("join", name=name, cwd=str(self.repo))
        for name, capability in (("counter", "Count"), ("reporter", "Report")):
            self.place.call("join", name=name, capabilities=[capability], cwd=str(self.repo))
        waked = self.place.place / "waked" / "bin" / "waked"
        self.place.call("join", name="waked", wake=str(waked), cwd=str(self.repo))
        for name in ("tool", "sleeper"):
            self.place.call("join", name=name, run=[str(self.place.place / name / "bin" / name)], cwd=str(self.repo),
                            seconds=1 if self.place.short else 60)

    def do(self, op, who="", **args):
        answer = self.place.call(op, who=who, cwd=str(self.repo), **args)
        self.acknowledged.append((op, answer["task_id"], answer.get("version")))
        return answer

    def ask(self, key, address, who="", **args):
        task = self.do("ask", who, address=address, title=key, key=key, **args)["task_id"]
        self.expected.setdefault(key, task)
        assert self.expected[key] == task, "the same key gives the same task"
        return task

    def step(self, task, moves):
        """Do what the place of a task calls for, until it calls for nothing."""
        last = None
        while True:
            now = place_of(self.place.show(task))
            move = moves.get(now)
            if move is None:
                return now
            assert now != last, f"{now} is left behind once it was acted on"
            last = now
            move()

    # --- the goals ---

    def woken(self):
        task = self.ask("woken", "@waked")
        eventually(lambda: self.said_of(task)[-1:] == ["wake completed"], lambda: self.said_of(task))

    def said_of(self, task):
        trace = self.place.call("trace", task=task, cwd=str(self.repo))["events"]
        return [line["what"] for line in trace if "wake" in line["what"]]

    def wakings(self):
        """The wakes that the command ran for."""
        with suppress(BlockingIOError):
            self.woken_by += os.read(self.wakes, 65536)
        return self.woken_by.decode().split()

    def checked(self):
        task = self.ask("checked", "@worker", body="b" * 100_000, done_when_argv=["sh", "-c", "grep -q two a.txt"])
        self.step(task, {
            "submitted/new": lambda: self.do("take", "worker", task=task, key="t"),
            "working": lambda: self.do("question", "worker", task=task, text="which one?"),
            "input_required/question": lambda: self.do("answer", task=task, text="the second"),
            "working/answered": lambda: self.do("submit", "worker", task=task, text="there", commit=self.commit()),
        })
        self.place.until(task, "completed/verified")

    def commanded(self):
        task = self.ask("commanded", "@tool")
        self.place.until(task, "completed/unreviewed")

    def held(self):
        """Held by a session and by a process: what the next host has to recover."""
        task = self.ask("held", "@worker")
        self.step(task, {"submitted/new": lambda: self.do("take", "worker", task=task, key="t")})
        self.place.until(self.ask("ended", "@sleeper"), "working", *FINISHED)

    def ended(self):
        self.held()
        for key, left in (("held", "submitted/new"), ("ended", None)):
            task = self.expected[key]
            shown = self.place.show(task)
            if shown["state"] not in FINISHED:
                self.do("cancel", task=task)
            if left:
                self.step(task, {"working": lambda task=task: self.do("release", "worker", task=task, text="stopped")})
            self.place.until(task, "canceled")
        eventually(lambda: not alive(self.place), "the end of the processes")

    def cascaded(self):
        parent = self.ask("parent", "@worker")
        self.step(parent, {"submitted/new": lambda: self.do("take", "worker", task=parent, key="t")})
        child = None
        if self.place.show(parent)["state"] not in FINISHED:
            child = self.ask("child", "@helper", "worker", parent=parent)
            self.do("cancel", task=parent)
        self.step(parent, {"working": lambda: self.do("release", "worker", task=parent, text="stopped")})
        self.place.until(parent, "canceled")
        self.place.until(child or self.expected["child"], "canceled")

    def compensated(self):
        task = self.ask("compensated", "@worker", on_failure="@fixer")
        moves = {
            "submitted/new": lambda: self.do("take", "worker", task=task, key="t"),
            "working": lambda: self.do("submit", "worker", task=task, failed="broken"),
        }
        if not any(line["what"] for line in self.compensations()):
            self.step(task, moves)
        fix = eventually(lambda: self.compensations(), "the notice of failure")[0]["task_id"]
        self.step(fix, {
            "submitted/new": lambda: self.do("take", "fixer", task=fix, key="t"),
            "working": lambda: self.do("submit", "fixer", task=fix, text="made good"),
        })
        self.place.until(task, "submitted/new", "working", "completed")

    def compensations(self):
        return [{**row, "what": "fix"} for row in self.titled("Failure notice")]

    def titled(self, begin):
        board = self.place.call("board", cwd=str(self.repo), everything=True)
        return [row for row in rows(board) if row["title"].startswith(begin)]

    def replied(self):
        given = {"capability": "Count", "payload": "1", "key": "replied", "timeout_ms": 600_000, "reply_to": "Report"}
        task = self.do("sail", **given)["task_id"]
        for who, its in (("counter", lambda: task), ("reporter", self.forwarded)):
            one = its()
            self.step(one, {
                "submitted/new": lambda who=who, one=one: self.do("take", who, task=one, key="t"),
                "working": lambda who=who, one=one: self.do("submit", who, task=one, text="2"),
            })
            self.place.until(one, "completed")
        assert len(self.titled("Result of")) == 1, "it is sent on once"

    def forwarded(self):
        return eventually(lambda: self.titled("Result of"), "the message with the result")[0]["task_id"]

    def frozen(self):
        task = self.ask("frozen", "@worker", "helper")
        self.step(task, {
            "submitted/new": lambda: self.do("take", "worker", task=task, key="t"),
            "working": lambda: self.do("question", "worker", task=task, text="which?"),
        })
        self.place.until(task, "input_required/frozen")

    def lapsed(self):
        task = self.ask("lapsed", "@worker")
        if not self.took(task):
            self.step(task, {"submitted/new": lambda: self.do("take", "worker", task=task, key="t")})
        self.place.until(task, "submitted/new")

    def took(self, task):
        return any(op == "take" for op, of, _ in self.acknowledged if of == task)

    def doubted(self):
        task = self.ask("doubted", "@sleeper")
        self.place.until(task, "working", "input_required/unverified", *FINISHED)
        for note in keepers(self.place.path):
            for pid in (note["pid"], note["main"]):
                if pid > 1:
                    kill(pid)
        self.place.until(task, "input_required/unverified")

    def expired(self):
        task = self.ask("expired", "@worker", deadline="200ms")
        self.place.until(task, "failed/expired")

    def denied(self):
        task = self.ask("denied", "@worker", done_when_argv=["true"])
        self.step(task, {
            "submitted/new": lambda: self.do("take", "worker", task=task, key="t"),
            "working": lambda: self.do("submit", "worker", task=task, commit=self.commit(), text="there"),
        })
        self.place.until(task, "input_required/review")

    def settled(self):
        self.commanded()
        self.tally("settle", self.expected["commanded"])
        self.place.leave()

    def erased(self):
        self.checked()
        self.tally("log", "erase", self.expected["checked"])

    def tally(self, *words):
        code, out, err = self.place.tally(*words, cwd=self.repo)
        if self.place.is_dead() or "was lost" in err or "No host" in err:
            raise wire.WireError("unavailable", "died", "")
        assert code == 0, out + err


def kill(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, 9)


def rows(board):
    return [row for value in board.values() if isinstance(value, list) for row in value
            if isinstance(row, dict) and "task_id" in row] or [
        row for value in board.values() if isinstance(value, dict)
        for part in value.values() if isinstance(part, list) for row in part]


def alive(place):
    """Jobs whose command still runs."""
    return [note for note in keepers(place.path) if note["main"] and os.path.exists(f"/proc/{note['main']}")]


COMMON = ("checked", "commanded", "ended")
PARTS = {
    "deliver": ("commanded", "ended"),
    "command": ("commanded",),
    "process": ("commanded",),
    "verify": ("checked",),
    "wakes": ("woken",),
}
EVERYWHERE = {"executor.before_append", "executor.after_append", "before_begin", "after_begin", "after_write",
              "before_commit", "after_commit"}
BEFORE = {  # what must have happened before the host that is killed starts
    "custody.mid_recovery": ("held",),
    "deliver.mid_recovery": ("held",),
    "archive_after_copy": ("settled",),
    "archive_before_commit": ("settled",),
    "archive_after_commit": ("settled",),
}
GOALS = {
    "duties.before_cascade": ("cascaded",),
    "duties.before_compensate": ("compensated",),
    "duties.before_forward": ("replied",),
    "forwarding.after_sent": ("replied",),
    "duties.before_freeze": ("frozen",),
    "duties.before_lapse": ("lapsed",),
    "duties.before_doubt": ("doubted",),
    "duties.before_expire": ("expired",),
    "duties.before_permission": ("denied",),
    "erase_after_files": ("erased",),
    "erase_before_commit": ("erased",),
    "erase_after_commit": ("erased",),
}
SOON = {"retry_seconds": [0.1] * 5}
WAKES_SOON = {"wake_batch_seconds": 0.05, "wake_retry_seconds": [0.1, 0.1, 0.1, 0.1]}
SETTINGS = {
    **{f"wakes.{point}": WAKES_SOON for point in ("before_intent", "after_intent", "before_report", "after_report")},
    "duties.before_freeze": {"rounds": 2},
    "duties.before_lapse": {"pull_lease_seconds": 0.3},
    "duties.before_doubt": {"command_lease_margin_seconds": 0.0},
    "duties.before_permission": {"permission_seconds": 0.3},
}
NOT_IN_A_HOST = {"rebuild_before_commit", "rebuild_after_commit"}
"""No verb of a running host rebuilds: the store's own tests kill there."""

CASES = [
    (place, nth, twice)
    for place in (*FAILPOINTS, *STORE_FAILPOINTS)
    if place not in NOT_IN_A_HOST
    for nth, twice in (((3, False), (8, True), (14, False)) if place in EVERYWHERE else ((1, True),))
]
"""Where a place is reached again at once, the second host is killed there too: a crash while it recovers from one."""


def story_of(place, failpoint):
    place.short = failpoint == "duties.before_doubt"
    story = Story(place)
    place.wishes = {"sandbox": failpoint != "duties.before_permission"}
    assert place.start()
    story.join()
    for goal in BEFORE.get(failpoint, ()):
        getattr(story, goal)()
    place.kill()
    return story


def play(story, goals):
    """True when all goals are reached; False when the host died on the way."""
    try:
        for goal in goals:
            getattr(story, goal)()
    except wire.WireError as error:
        eventually(story.place.is_dead, f"the death that explains: {error.code} {error}")
        story.place.leave()
        return False
    return True


@pytest.mark.parametrize(("failpoint", "nth", "twice"), CASES, ids=lambda v: str(v).replace("True", "twice"))
def test_a_kill_there_loses_nothing_and_repeats_nothing(failpoint, nth, twice):
    with Place(**{**SOON, **SETTINGS.get(failpoint, {})}) as place:
        story = story_of(place, failpoint)
        goals = GOALS.get(failpoint) or PARTS.get(failpoint.split(".")[0], COMMON)
        deaths = 0
        for deadly in (nth, 1) if twice else (nth,):
            reached = place.start(kill={failpoint: deadly}) and play(story, goals)
            if reached and failpoint in BEFORE and not deaths:
                eventually(place.is_dead, "what goes on behind")
            deaths += place.is_dead()
            place.kill()
        assert deaths, f"{failpoint} was not reached"
        assert place.start()
        assert play(story, goals)
        if "doubted" not in story.expected:
            eventually(lambda: not any((place.path / "jobs").iterdir()), "that no job is left behind")
        place.stop()
        check(story)


def check(story):
    events, works = story.place.audit()
    kinds = {task: Counter(type(e.event).__name__ for e in events if e.stream == task) for task in works}
    for _, task, version in story.acknowledged:
        assert task in works
        assert version is None or works[task].task.version >= version
    keys = Counter(work.task.key for work in works.values())
    assert all(keys[key] == 1 for key in story.expected)
    assert {works[task].task.key: task for task in story.expected.values()} == story.expected
    check_wakes(events, story)
    runs = story.runs()
    assert len(runs) == len(set(runs)), "no attempt ran twice"
    if task := story.expected.get("commanded"):
        assert (len(runs), kinds[task]["ResultHandedIn"]) == (1, 1)
    if task := story.expected.get("checked"):
        once = ("TaskSubmitted", "TaskClaimed", "QuestionAsked", "QuestionAnswered", "ResultHandedIn", "CheckReported")
        assert [kinds[task][name] for name in once] == [1] * 6


def check_wakes(events, story):
    """No wake ran twice, one was open at a time, and only a completed turn moved the cursor."""
    wakings = story.wakings()
    assert len(wakings) == len(set(wakings)), "no wake ran twice"
    is_open, known = {}, {}
    for event in (e.event for e in events):
        if type(event).__name__ == "WakeIntended":
            assert not is_open.get(event.target), "one at a time"
            known[event.wake_id] = event.target
            is_open[event.target] = True
        elif type(event).__name__ == "WakeReported" and BY_OUTCOME[event.outcome].then != "open":
            is_open[known[event.wake_id]] = False
    if "woken" in story.expected:
        assert wakings
