"""Sessions and agents that sleep are told to look again: by a command, by a hook that waits; and what became of it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.hosts import eventually
from tests.support.places import contents
from tests.support.sleepers import asleep
from tests.support.town import Town

SOON = {
    "wake_batch_seconds": 0.05,
    "wake_retry_seconds": [0.2, 0.2],
    "wake_busy_seconds": 0.2,
    "wake_proof_seconds": 5,
    "sessions_seconds": 0.1,
    "watch_seconds": 0.1,
}
TAKES = """
import json, subprocess, sys
told = json.load(sys.stdin)
open(sys.argv[1], "a").write(json.dumps(told) + "\\n")
"""


@pytest.fixture(scope="module")
def town():
    with Town(**SOON) as town:
        yield town


def woken(town: Town, name: str, script: str = TAKES, **form):
    """An agent that a command wakes, and the file in which it notes what it was told."""
    told = town.place / f"{name}.told"
    program = town.place / f"{name}.py"
    program.write_text(script)
    town.call("join", name=name, wake=f"{sys.executable} {program} {told}", **form)
    eventually(lambda: promise(town, name) == "live", "its entry")
    return told


def promise(town: Town, name: str) -> str:
    return next(a["promise"] for a in town.call("agents")["agents"] if a["name"] == f"@{name}")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def said(town: Town, task: str) -> list[str]:
    """What the trace of a task says of wakes."""
    events = town.call("trace", task=task)["events"]
    return [line["what"] for line in events if "wake" in line["what"] or line["what"].startswith("woken")]


def test_a_task_wakes_its_agent_and_says_only_to_look_again(town: Town) -> None:
    name = town.name("pen")
    told = woken(town, name)
    receipt = town.ask(name, body="SECRET BODY", title="Look at this")
    assert receipt["promise"] == "live"
    (wake,) = eventually(lambda: lines(told), "the wake")
    assert receipt["task_id"] in wake["items"]
    assert wake["wake_id"] in wake["text"]
    assert '"Look at this"' in wake["text"]
    assert "SECRET BODY" not in json.dumps(wake)
    eventually(lambda: said(town, receipt["task_id"])[-1:] == ["wake completed"], said(town, receipt["task_id"]))
    assert said(town, receipt["task_id"]) == ["about to wake @" + name, "wake started", "wake completed"]


def test_what_comes_in_one_moment_is_one_wake(town: Town) -> None:
    name = town.name("pen")
    told = woken(town, name)
    tasks = {town.task(name) for _ in range(4)}
    eventually(lambda: {item for wake in lines(told) for item in wake["items"]} >= tasks, "all of them")
    assert len(lines(told)) <= 2


def test_whoever_lets_many_things_lie_is_still_woken_for_what_is_new(town: Town) -> None:
    name = town.name("pen")
    told = woken(town, name)
    for _ in range(200):
        town.task(name)
    eventually(lambda: lines(told), "a wake for those")
    task = town.task(name)
    eventually(lambda: any(task in wake["items"] for wake in lines(told)), "a wake for what came last")


def test_a_stream_of_tasks_is_no_stream_of_wakes() -> None:
    with Town(**SOON | {"wake_batch_seconds": 2}) as town:
        name = town.name("pen")
        told = woken(town, name)
        town.task(name)
        eventually(lambda: lines(told), "the first wake")
        count = 0
        while len(lines(told)) < 2:  # two seconds of it
            town.task(name)
            count += 1
        first, second = lines(told)[:2]
        assert len(second["items"]) > len(first["items"])
        assert count > 3
        hurried = town.task(name, wake=True)
        third = eventually(lambda: lines(told)[2:], "one that does not wait")[0]
        assert hurried in third["items"]


def test_a_command_that_fails_is_seen_in_the_trace_and_tried_again_a_few_times(town: Town) -> None:
    name = town.name("pen")
    told = woken(town, name, TAKES + "sys.exit('no such model')\n")
    task = town.task(name)
    eventually(lambda: said(town, task).count("wake failed") == 3, "three attempts")
    events = town.call("trace", task=task)["events"]
    assert any("no such model" in line["error"] for line in events if line["what"] == "wake failed")
    assert len(lines(told)) == 3
    assert town.show(task)["woken"]["outcome"] == "failed"
    newer = town.task(name)
    eventually(lambda: said(town, newer), "another wake for something newer")


def test_doctor_says_how_the_last_wake_went(town: Town) -> None:
    name = town.name("pen")
    woken(town, name, TAKES + "sys.exit('no such model')\n")
    task = town.task(name)
    eventually(lambda: said(town, task).count("wake failed") == 3, "the last attempt")
    _, out, _ = town.run_tally("doctor", "--json")
    (finding,) = [f for f in json.loads(out)["findings"] if f["check"] == f"wake @{name}"]
    assert not finding["ok"]
    assert "no such model" in finding["saw"]


def test_an_agent_that_is_paused_is_not_woken_until_it_is_resumed(town: Town) -> None:
    name = town.name("pen")
    told = woken(town, name)
    town.says("pause", f"@{name}")
    assert town.ask(name)["promise"] == "mailbox"
    other = town.name("pen")
    also = woken(town, other)
    town.task(other)
    eventually(lambda: lines(also), "the other one")
    assert lines(told) == []
    town.says("resume", f"@{name}")
    eventually(lambda: lines(told), "the wake after resume")


def test_a_result_wakes_the_agent_that_waits_for_it(town: Town) -> None:
    name, worker = town.name("pen"), town.agent("worker")
    told = woken(town, name)
    task = town.task(worker, name)
    town.call("take", worker, task=task)
    town.call("question", worker, task=task, text="Which?")
    eventually(lambda: len(lines(told)) == 1, "a wake for the question")
    town.call("answer", name, task=task, text="That.")
    town.call("submit", worker, task=task, text="Done.")
    eventually(lambda: len(lines(told)) == 2, "a wake for the result")


# --- a hook that waits --------------------------------------------------------------------------------------------


@pytest.fixture
def pen(town: Town):
    """A client with a hook that waits, and the name of its agent."""
    for left in town.call("agents")["agents"]:
        if left["client"] == "claude":
            town.says("leave", left["name"])
    name = town.agent("pen", client="claude")
    with asleep(town) as client:
        client.tell("arm")
        eventually(lambda: promise(town, name) == "live", "a hook that waits")
        yield name, client


def test_a_hook_that_waits_is_live_and_is_answered_once(town: Town, pen) -> None:
    name, client = pen
    receipt = town.ask(name, title="Look")
    assert receipt["promise"] == "live"
    told = client.wait("woken")
    assert told["woken"]
    assert short_of(receipt["task_id"]) in told["text"]
    eventually(lambda: "wake started" in said(town, receipt["task_id"]), "the proof")
    assert "wake completed" not in said(town, receipt["task_id"])
    assert promise(town, name) == "next_turn"
    client.tell("stop")
    eventually(lambda: said(town, receipt["task_id"])[-1] == "wake completed", "the end of the turn")
    eventually(lambda: promise(town, name) == "live", "armed again")


def short_of(task: str) -> str:
    return f"tsk_{task[-6:].lower()}"


def test_what_comes_while_a_wake_is_open_waits_for_its_end(town: Town, pen) -> None:
    name, client = pen
    first = town.task(name)
    client.wait("woken")
    eventually(lambda: "wake started" in said(town, first), "the first")
    second = town.task(name)
    client.tell("arm")
    assert said(town, second) == []
    client.tell("stop")
    assert client.wait("woken")
    eventually(lambda: "wake started" in said(town, second), "the second")


def test_a_client_that_was_answered_and_shows_nothing_is_unverified_and_woken_again(town: Town, pen) -> None:
    name, client = pen
    client.tell("deaf")
    task = town.task(name)
    client.wait("woken")
    eventually(lambda: said(town, task)[-1] == "wake unverified", "doubt")
    client.tell("hear")
    client.tell("arm")
    assert client.wait("woken")["woken"]
    client.tell("stop")
    eventually(lambda: said(town, task)[-1] == "wake completed", lambda: said(town, task))


def test_the_proof_of_a_body_comes_out_of_the_transcript(town: Town, pen) -> None:
    name, client = pen
    task = town.task(name)
    client.wait("woken")
    client.tally("take", task)
    where = eventually(lambda: recorded(town, task), "recorded")
    assert where.startswith(f"{client.session}.jsonl at byte ")


def recorded(town: Town, task: str) -> str:
    found = [fact["evidence"] for fact in town.show(task)["facts"] if fact["fact"] == "recorded"]
    return found[0] if found and "at byte" in found[0] else ""


# --- sessions that end --------------------------------------------------------------------------------------------


def test_a_client_that_dies_gives_back_what_it_held_and_its_agent_takes_it_again(town: Town, pen) -> None:
    name, client = pen
    task = town.task(name)
    client.wait("woken")
    client.tally("take", task)
    client.kill()
    shown = town.until(task, "submitted/new")
    assert shown["attempt"] == 2
    lapse = next(line for line in shown["history"] if line["what"] == "lease lapsed")
    assert "that held it has ended" in lapse["text"]
    with asleep(town) as another:
        assert another.tally("take", task)["fence"] > shown["fence"]


def test_a_client_that_only_stands_still_keeps_what_it_holds(town: Town, pen) -> None:
    name, client = pen
    task = town.task(name)
    client.wait("woken")
    client.tally("take", task)
    os.kill(client.pid, signal.SIGSTOP)
    os.kill(client.process.pid, signal.SIGSTOP)
    try:
        town.pass_time(5)
        looked = town.position()
        eventually(lambda: town.position() >= looked, "a look")
        assert town.show(task)["state"] == "working"
    finally:
        os.kill(client.process.pid, signal.SIGCONT)
        os.kill(client.pid, signal.SIGCONT)


def test_a_client_that_dies_while_it_is_woken_leaves_the_wake_unverified_and_the_item_due(town: Town, pen) -> None:
    name, client = pen
    task = town.task(name)
    client.wait("woken")
    eventually(lambda: "wake started" in said(town, task), "started")
    client.kill()
    eventually(lambda: said(town, task)[-1] == "wake unverified", lambda: said(town, task))
    with asleep(town) as another:
        another.tell("arm")
        assert another.wait("woken")["woken"]


def test_a_second_process_on_the_same_conversation_is_refused_until_the_first_is_gone(town: Town, pen) -> None:
    name, client = pen
    with asleep(town, session=client.session, transcript=client.transcript) as second:
        second.tell("arm")
        assert not second.wait("woken")["woken"]
        assert promise(town, name) == "live"
        client.kill()
        second.tell("arm")
        task = town.task(name)
        assert second.wait("woken")["woken"], town.said()
        eventually(lambda: "wake started" in said(town, task), "in the one that is left")


def test_two_sessions_of_one_agent_and_one_task_are_one_wake(town: Town, pen) -> None:
    name, client = pen
    with asleep(town) as other:
        other.tell("arm")
        task = town.task(name)
        told = eventually(lambda: [c for c in (client, other) if not c.said.empty()], "one of them")
        eventually(lambda: "wake started" in said(town, task), "it")
        assert len(told) == 1
        assert said(town, task).count("wake started") == 1


# --- watching -----------------------------------------------------------------------------------------------------


def test_a_watched_file_wakes_when_its_content_changes_and_not_when_it_is_touched(town: Town) -> None:
    name = town.name("pen")
    told = woken(town, name)
    file = town.place / "watched 文件.txt"
    file.write_text("one")
    watch = town.says("watch", "add", name, "--file", str(file))["id"]
    os.utime(file, (1, 1))
    file.write_text("two")
    (wake,) = eventually(lambda: lines(told), "the wake")
    assert wake["items"] == [watch]
    assert str(file) in wake["text"]
    listed = town.says("watch", "list")["watches"]
    assert [w["changed"] for w in listed if w["watch_id"] == watch] == [True]
    town.says("watch", "remove", watch)


def test_a_watch_for_whom_nothing_can_wake_says_so(town: Town) -> None:
    box, pen = town.name("box"), town.name("pen")
    town.says("join", box)
    woken(town, pen)
    told = {name: town.says("watch", "add", name, "--file", str(town.place / "it"))["detail"] for name in (box, pen)}
    assert "nothing can wake it" in told[box]
    assert told[pen] == f"@{pen} is woken when file {town.place / 'it'} changes."


def test_a_pattern_and_a_reference_are_watched(town: Town) -> None:
    name = town.name("pen")
    told = woken(town, name)
    repository = town.repository(name)
    town.says("watch", "add", name, "--ref", "main", "--repo", str(repository))
    town.says("watch", "add", name, "--file", str(town.place / f"{name}-*.log"))
    town.commit(repository, "two\n")
    eventually(lambda: any("ref main" in wake["text"] for wake in lines(told)), "the commit")
    (town.place / f"{name}-a.log").write_text("x")
    eventually(lambda: any("-*.log" in wake["text"] for wake in lines(told)), "the new file")


def test_what_cannot_be_watched_is_refused_with_the_reason(town: Town) -> None:
    name = town.agent("pen")
    town.complains("watch", "add", name)
    town.complains("watch", "add", name, "--file", "a", "--inbox")
    town.complains("watch", "add", name, "--ref", "nowhere")
    town.complains("watch", "add", "nobody", "--inbox")
    town.complains("watch", "remove", "wch_0000")
    town.complains("watch", "add", name, "--file", "/etc/passwd", who=name)


# --- the host goes and comes --------------------------------------------------------------------------------------


def looks(client) -> bool:
    """What waits beside the client looks for a host now, not some seconds later; False where nothing waits."""
    found = [pid for held in contents(Path(f"/proc/{client.pid}/task"), "*/children").values() for pid in held.split()]
    for pid in found:
        os.kill(int(pid), signal.SIGALRM)
    return bool(found)


def test_a_hook_that_waits_finds_the_host_that_is_started_anew() -> None:
    with Town(**SOON) as place:
        name = place.agent("pen", client="claude")
        with asleep(place) as client:
            client.tell("arm")
            eventually(lambda: promise(place, name) == "live", "a hook that waits")
            place.kill()
            assert place.start()
            eventually(lambda: looks(client) and promise(place, name) == "live", "the same hook", 60)
            task = place.task(name)
            assert client.wait("woken")["woken"]
            client.tell("stop")
            eventually(lambda: said(place, task)[-1] == "wake completed", lambda: said(place, task))


def test_a_wake_that_had_started_is_seen_to_its_end_by_the_next_host() -> None:
    with Town(**SOON) as place:
        name = place.agent("pen", client="claude")
        with asleep(place) as client:
            client.tell("arm")
            eventually(lambda: promise(place, name) == "live", "a hook that waits")
            task = place.task(name)
            client.wait("woken")
            eventually(lambda: "wake started" in said(place, task), "started")
            place.kill()
            assert place.start()
            assert said(place, task)[-1] == "wake started"
            client.tell("stop")
            eventually(lambda: said(place, task)[-1] == "wake completed", lambda: said(place, task))
            assert said(place, task).count("wake started") == 1
