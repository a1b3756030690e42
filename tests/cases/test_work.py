"""Reported cases 34 to 58: duplicates, claims, leases, crashes, the roster. The numbers are those of README.md here."""

from __future__ import annotations

import json
import os
import threading

import apsw
import pytest

from tests.support.hosts import eventually
from tests.support.town import Town, place_of, race

MINUTE = 60.0


@pytest.fixture(scope="module")
def town():
    with Town() as town:
        yield town


# --- C. duplicates ----------------------------------------------------------------------------------------------


def test_case_34_a_failed_attempt_is_not_remembered_as_seen(town):
    name = town.name("late")
    form = {"address": f"@{name}", "title": "once", "key": name}
    assert town.refused("ask", **form).code == "not_found"
    town.call("join", name=name)
    assert town.call("ask", **form)["duplicate"] is False


def test_case_35_an_assignment_and_a_mention_for_the_same_work_are_one_task(town):
    name = town.agent()
    task = town.task(name, body=f"@{name}, please; yes, you, @{name}")
    assert town.turns(name) == [task]
    assert list(town.notices(name)) == []


def test_case_38_a_duplicate_is_not_handed_over_again(town):
    name = town.command("echo run > {runs}")
    with town.fifo(name, "runs") as runs:
        form = {"address": f"@{name}", "title": "once", "key": name}
        first = town.call("ask", **form)
        town.until(first["task_id"], "completed")
        again = town.call("ask", **form)
        assert (again["task_id"], again["duplicate"]) == (first["task_id"], True)
        town.until(town.task(town.command("true")), "completed")
        assert runs.lines() == ["run"]


# --- D. claim, lease, completion --------------------------------------------------------------------------------


def test_case_40_of_those_who_claim_at_once_one_wins_and_giving_back_is_compared_too(town):
    name = town.agent()
    task = town.task(name)
    calls = [{"op": "take", "as": name, "cwd": str(town.place), "args": {"task": task}}] * 4
    answers = race(town.racers(4), calls)
    assert sum("result" in answer for answer in answers) == 1
    assert {answer["code"] for answer in answers if "result" not in answer} == {"conflict"}
    assert town.refused("release", name, task=task, text="no", fence=7).code == "conflict"
    assert place_of(town.show(task)) == "working"


def test_case_41_of_a_batch_of_claims_each_has_its_own_result_and_the_exit_code_is_not_0(town):
    name = town.agent()
    good, taken = town.task(name), town.task(name)
    town.call("take", name, task=taken)
    code, out, _ = town.run_tally("take", good, taken, "--json", who=name)
    results = json.loads(out)["results"]
    assert (code, [("error" in item) for item in results]) == (1, [False, True])
    assert place_of(town.show(good)) == "working"


def test_case_42_work_for_a_provider_that_nobody_allowed_is_denied_and_names_it(town):
    (town.place / "other").mkdir(exist_ok=True)
    place = town.repository("consent")
    helper = town.name("helper")
    town.call("join", name=helper, cwd=str(place))
    cloud = town.name("cloud")
    town.call("join", helper, name=cloud, provider="acme", cwd=str(place))
    error = town.refused("ask", address=f"@{cloud}", title="t", cwd=str(place))
    assert (error.code, "acme" in error.message) == ("denied", True)
    town.says("workspace", "allow", "acme", cwd=place)
    assert town.call("ask", address=f"@{cloud}", title="t", cwd=str(place))["provider"] == "acme"


def test_case_43_the_old_holder_is_stale(town):
    name = town.agent()
    task = town.task(name)
    old = town.call("take", name, task=task)["fence"]
    town.pass_time(31 * MINUTE)
    town.until(task, "submitted/new")
    new = town.call("take", name, task=task)["fence"]
    error = town.refused("submit", name, task=task, text="late", fence=old)
    assert (error.code, "Stale" in error.message) == ("conflict", True)
    assert town.call("submit", name, task=task, text="now", fence=new)["state"] == "completed"


def test_case_44_of_two_processes_of_one_agent_that_complete_one_succeeds_and_there_is_one_result(town):
    name = town.agent()
    task = town.task(name)
    fence = town.call("take", name, task=task)["fence"]
    call = {"op": "submit", "as": name, "cwd": str(town.place)}
    racers = town.racers(2)
    answers = race(racers, [{**call, "args": {"task": task, "text": t, "fence": fence}} for t in ("one", "two")])
    assert sorted(answer.get("code", "done") for answer in answers) == ["conflict", "done"]
    whats = [line["what"] for line in town.show(task)["history"]]
    assert sum("handed in" in what for what in whats) <= 1
    assert place_of(town.show(task)) == "completed/unreviewed"


def test_case_45_a_release_that_is_replayed_changes_nothing_and_with_another_reason_is_refused(town):
    name = town.agent()
    task = town.task(name)
    fence = town.call("take", name, task=task)["fence"]
    assert town.call("release", name, task=task, text="no time", fence=fence)["changed"] is True
    before = town.position()
    assert town.call("release", name, task=task, text="no time", fence=fence)["changed"] is False
    assert town.refused("release", name, task=task, text="another", fence=fence).code == "conflict"
    assert [w for w in town.events_since(before) if "refused" not in w] == []


def test_case_46_reports_of_progress_keep_the_lease(town):
    name = town.agent()
    task = town.task(name)
    fence = town.call("take", name, task=task)["fence"]
    for _ in range(3):
        town.pass_time(20 * MINUTE)
        town.call("progress", name, task=task, text="still at it", fence=fence)
    assert place_of(town.show(task)) == "working"
    assert town.call("submit", name, task=task, text="done", fence=fence)["state"] == "completed"


def test_case_47_a_task_whose_session_is_gone_leaves_working_by_a_rule(town):
    name = town.agent()
    task = town.task(name)
    town.call("take", name, task=task)
    town.pass_time(31 * MINUTE)
    assert town.until(task, "submitted/new")["holder"] == ""


def test_case_48_what_a_worker_was_started_for_is_there_when_it_starts(town):
    shown = town.until(town.task(town.command("cat"), body="the brief"), "completed")
    order = [fact["fact"] for fact in shown["facts"]]
    assert order.index("persisted") < order.index("working")
    assert shown["task_id"] in shown["result"] or "the brief" in shown["result"]


def test_case_49_a_claim_that_fails_is_a_typed_refusal_and_not_no_work(town):
    name, other = town.agent(), town.agent()
    task = town.task(name)
    town.call("take", name, task=task)
    code, error = town.complains("take", task, who=other)
    assert (code, error.code) == (1, "denied")
    code, error = town.complains("take", task, who=name)
    assert (code, error.code, "you already hold it" in error.message) == (1, "conflict", True)


def test_case_50_an_unknown_assignee_or_one_elsewhere_is_refused_at_once_and_noted(town):
    elsewhere = town.repository("elsewhere")
    far = town.name("far")
    town.call("join", name=far, cwd=str(elsewhere))
    before = town.position()
    assert town.refused("ask", address=f"@{far}", title="t").code == "not_found"
    assert town.refused("ask", address="cap:NobodyOffersThis", title="t").code == "no_route"
    eventually(lambda: town.events_since(before), "the note of it")
    assert all("refused" in what for what in town.events_since(before)), town.events_since(before)


# --- E. crash and storage ---------------------------------------------------------------------------------------


def test_case_52_while_the_log_is_locked_writers_get_unavailable_or_wait_and_the_host_lives_on(town):
    name = town.agent()
    racers = town.racers(12)
    pid = town.holder().pid
    intruder = apsw.Connection(str(town.path / "tally.db"))
    intruder.execute("BEGIN IMMEDIATE")
    asks = [{"op": "ask", "cwd": str(town.place), "args": {"address": f"@{name}", "title": f"{i}", "key": f"{name}{i}"}}
            for i in range(12)]  # fmt: skip
    try:
        answers = race(racers, asks)
    finally:
        intruder.execute("ROLLBACK")
        intruder.close()
    assert {answer.get("code", "done") for answer in answers} <= {"unavailable", "done"}
    again = race(racers, asks)
    assert all("result" in answer for answer in again), again
    assert len(town.turns(name)) == 12
    assert town.holder().pid == pid


def test_case_53_checkpoints_under_load_lose_nothing_and_readers_read_on(town):
    name = town.agent()
    done, failed = threading.Event(), []

    def read():
        line = town.connect(start=False, client="tally")
        while not done.is_set():
            try:
                line.call("board", cwd=str(town.place))
            except Exception as error:
                failed.append(error)
        line.close()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        tasks = {town.task(name) for _ in range(100)}
    finally:
        done.set()
        reader.join(60)
    assert failed == []
    assert set(town.turns(name)) == tasks
    assert town.says("log", "verify")["ok"] is True


def test_case_54_where_the_outcome_is_not_known_it_is_said_and_nothing_runs_again():
    with Town() as town:
        name = town.command("echo run > {runs}; head -1 {gate}")
        with town.fifo(name, "runs") as runs:
            task = town.task(name)
            found = eventually(runs.lines, "its run")
            town.kill()
            from tests.support.places import end_jobs

            end_jobs(town.path)
            assert town.start()
            town.pass_time(600)
            assert place_of(town.until(task, "input_required/unverified")) == "input_required/unverified"
            assert (found, runs.lines()) == (["run"], [])


def test_case_56_the_board_and_the_hints_are_always_whole(town):
    name = town.agent(client="claude")
    board = town.path / "board.json"
    for number in range(40):
        town.task(name, title=f"t{number}")
        for path in (board, *(town.path / "hints").iterdir()):
            if path.exists():
                text = path.read_text()
                assert json.loads(text) if path == board else text.strip().isdigit() or text == "", (path, text)
    assert not [path for path in town.path.iterdir() if path.name.startswith("board.json.")]


def test_case_57_misleading_modification_times_change_nothing():
    with Town() as town:
        name = town.agent()
        tasks = {town.task(name, body="x" * 100_000) for _ in range(3)}
        town.stop()
        for number, path in enumerate(sorted(p for p in town.path.rglob("*") if p.is_file())):
            os.utime(path, (0, 0) if number % 2 else (4e9, 4e9))
        assert town.start()
        assert set(town.turns(name)) == tasks
        assert town.says("log", "verify")["ok"] is True


# --- F. the roster ----------------------------------------------------------------------------------------------


def test_case_58_who_is_silent_is_not_live_and_every_session_shown_can_be_stopped(town):
    name = town.agent()
    town.turns(name)
    town.pass_time(10 * MINUTE)
    shown = next(a for a in town.call("agents")["agents"] if a["name"] == f"@{name}")
    assert shown["presence"] != "live"
    for session in shown["sessions"]:
        assert town.says("stop", session)["changed"] is True
    task = town.task(name)
    assert town.refused("take", name, task=task).code in ("unavailable", "denied", "conflict")


def test_case_60_a_session_that_does_not_exist_is_said_not_to(town):
    name = town.agent()
    town.turns(name)
    error = town.refused("ask", address=f"@{name}/ses_01JAZ000000000000000000009", title="t")
    assert error.code in ("not_found", "offline")
    code, out, err = town.run_tally("inbox", env={"TALLY_SESSION": "ses_01JAZ000000000000000000009"})
    assert (code, out) == (1, "")
    assert "not known here" in err
