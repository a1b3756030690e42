"""Caller, host and spoke are killed and stopped at each state of a link and between every two frames, once and twice.

Effects are counted by the handler's own file: at most one for each key, exactly one where the outcome is known. All
else is unverified, is said to be, and comes clear when the spoke is back or a person settles it.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.harbour import Harbour, end, open_gate
from tests.support.hosts import eventually
from tests.support.places import place_of
from tests.support.strait import FROM_HOST, TO_HOST

FRAMES = [
    ("caller", TO_HOST, "SAIL"),
    ("caller", FROM_HOST, "ACK of SAIL"),
    ("spoke", FROM_HOST, "SAIL"),
    ("spoke", TO_HOST, "ACK of SAIL"),
    ("spoke", TO_HOST, "BEGIN"),
    ("spoke", FROM_HOST, "ACK of BEGIN"),
    ("caller", FROM_HOST, "BEGIN"),
    ("spoke", TO_HOST, "RESULT"),
    ("spoke", FROM_HOST, "ACK of RESULT"),
    ("caller", FROM_HOST, "RESULT"),
]
"""Each was sent and is not received: the frame before it was."""

HANDLER = ("handler", "", "")
"""While the handler runs: the effect took place, and its end is held back."""

POINTS = [*FRAMES, HANDLER]
PARTIES = ("caller", "host", "spoke")


def named(value):
    return " ".join(filter(None, value)).replace(" ", "-") if isinstance(value, tuple) else str(value)


MAY_BE_UNKNOWN = {
    ("spoke", TO_HOST, "ACK of SAIL"),  # its BEGIN may be right behind
    ("spoke", TO_HOST, "BEGIN"),
    ("spoke", FROM_HOST, "ACK of BEGIN"),
    ("caller", FROM_HOST, "BEGIN"),
    HANDLER,
}
"""Where a spoke dies between its BEGIN and its stored result, only a handler that was never entered can be proved."""


@pytest.fixture(scope="module")
def kept():
    """The harbour that the tests of this module share; one that a failed test left behind is not used again."""
    found = {}
    yield found
    for harbour in found.values():
        harbour.__exit__(None, None, None)


@pytest.fixture
def harbour(kept, request):
    here = kept.get("harbour") or Harbour(retry_seconds=[0.1] * 5).__enter__()
    kept["harbour"] = here
    here.revive()
    failed = request.session.testsfailed
    yield here
    if request.session.testsfailed > failed:
        kept.pop("harbour").__exit__(None, None, None)


class Voyage:
    """One key, asked for until something happens to a party at a point."""

    def __init__(self, harbour, request, point):
        self.harbour, self.point = harbour, point
        self.key = request.node.name.replace("[", "-").rstrip("]")
        self.gate = harbour.gate(self.key) if point == HANDLER else ""
        self.call = None

    def ask(self):
        self.call = self.harbour.ask(self.key, **({"gate": self.gate} if self.gate else {}))
        return self.call

    def struck(self, party, act, *, must=True):
        """Ask, and have `act` done to a party there; where it `must` not come to that, the call may end before."""
        if self.gate:
            self.ask()
            eventually(lambda: self.harbour.done(self.key) or self.is_over(), "the handler, or an end")
            if must or not self.is_over():
                act(self.process(party))
            return
        self.call = None
        happened = self.harbour.at(*self.point, lambda: act(self.process(party)))
        self.ask()
        eventually(lambda: happened.is_set() or (not must and self.is_over()), f"{self.point}, or an end")
        self.harbour.nothing_happens()

    def is_over(self):
        return self.call.poll() is not None

    def process(self, party):
        eventually(lambda: self.call, "the call")  # its first frame may pass before it is known here
        return {"host": self.harbour.host, "spoke": self.harbour.spoke, "caller": self.call}[party]

    def open_gate(self):
        """Let the handler come to its end, where it is held."""
        if self.gate:
            open_gate(self.gate)

    def end(self):
        """What the same key finds, and how often the effect took place."""
        answer = self.harbour.answer(self.ask())
        return answer.get("payload"), answer.get("error"), self.harbour.done(self.key)


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
@pytest.mark.parametrize("point", POINTS, ids=named)
@pytest.mark.parametrize("party", PARTIES)
def test_a_kill_there_loses_nothing_and_does_nothing_twice(harbour, request, party, point, times):
    voyage = Voyage(harbour, request, point)
    for nth in range(times):
        voyage.struck(party, end, must=not nth)
        harbour.leave()
        harbour.revive()
    if party != "spoke":
        voyage.open_gate()
    payload, error, done = voyage.end()
    if party == "spoke" and point in MAY_BE_UNKNOWN and error:
        assert (error, done <= 1) == ("unverified", True)
        still_so(voyage)
    else:
        assert (payload, error, done) == (voyage.key, None, 1)


def still_so(voyage):
    """What is unverified stays so, however often the spoke is back: nothing runs."""
    harbour, before = voyage.harbour, voyage.harbour.done(voyage.key)
    end(harbour.spoke)
    harbour.revive()
    shown = harbour.show(harbour.answer(voyage.ask())["task_id"])
    assert place_of(shown) in ("working", "input_required/unverified")
    assert [fact["fact"] for fact in shown["facts"]][-1] == "unverified"
    assert harbour.done(voyage.key) == before


@pytest.mark.parametrize("point", POINTS, ids=named)
@pytest.mark.parametrize("party", PARTIES)
def test_a_stop_there_is_a_pause_and_no_more(harbour, request, party, point):
    voyage, stopped = Voyage(harbour, request, point), []

    def stop(process):
        process.send_signal(signal.SIGSTOP)
        stopped.append(process)

    voyage.struck(party, stop)
    eventually(lambda: is_stopped(stopped[0].pid), "the stop")
    stopped[0].send_signal(signal.SIGCONT)
    voyage.open_gate()
    answer = harbour.answer(voyage.call)
    assert (answer.get("payload"), harbour.done(voyage.key)) == (voyage.key, 1), answer


def is_stopped(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
    return False
