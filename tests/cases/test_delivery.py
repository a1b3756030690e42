"""Reported cases 1 to 29: said to be delivered, and was not. The numbers are those of README.md here."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tallystick.wire import WireError
from tests.support.hosts import RUN_TALLY, eventually
from tests.support.town import Town, place_of, race

HOUR = 3600.0


@pytest.fixture(scope="module")
def town():
    with Town() as town:
        yield town


def facts(town, task):
    return [fact["fact"] for fact in town.show(task)["facts"]]


def test_case_01_a_deaf_session_shows_only_what_was_witnessed_and_for_how_long_nothing_happened(town):
    name = town.agent()
    task = town.task(name)
    assert facts(town, task) == ["accepted", "persisted"]
    town.call("take", name, task=task)
    town.pass_time(600)
    shown = town.show(task)
    assert [fact["fact"] for fact in shown["facts"]] == ["accepted", "persisted", "claimed", "admitted", "working"]
    assert shown["silent_seconds"] >= 600
    town.call("submit", name, task=task, text="Done.")
    town.pass_time(600)
    ended = town.show(task)
    assert (ended["state"], ended["silent_seconds"]) == ("completed", 0), "nothing more is to be heard of it"


@pytest.mark.parametrize("decision", ["allow", "deny"])
def test_case_02_a_message_that_is_held_says_so_and_the_later_decision_reaches_its_sender(town, decision):
    guarded, sender = town.agent(inbound="hold"), town.agent()
    receipt = town.ask(guarded, sender)
    task = receipt["task_id"]
    assert place_of(receipt) == "auth_required/inbound"
    assert facts(town, task) == ["accepted", "persisted"]
    assert town.refused("take", guarded, task=task).code == "conflict"
    town.says("permission", decision, task)
    if decision == "allow":
        assert place_of(town.show(task)) == "submitted/new"
        town.call("take", guarded, task=task)
    else:
        assert place_of(town.show(task)) == "rejected/by_person"
        assert town.notices(sender)[task]["state"] == "rejected"


def test_case_05_a_misspelt_recipient_is_an_error_with_the_nearest_names_and_no_mailbox_comes_into_being(town):
    town.call("join", name="engineer")
    town.call("join", name="team-lead")
    agents, before = town.call("agents"), town.position()
    for wrong, right in (("enginer", "@engineer"), ("engineeer", "@engineer"), ("team-leed", "@team-lead")):
        error = town.refused("ask", address=f"@{wrong}", title="t")
        assert (error.code, right in error.remedy) == ("not_found", True), error.remedy
    assert "@team-lead" in str(town.refused("ask", address="@team_lead", title="t"))
    assert (town.call("agents"), town.events_since(before)) == (agents, [])


def test_case_06_a_name_with_a_hyphen_is_not_the_name_before_the_hyphen(town):
    town.call("join", name="chief")
    town.call("join", name="chief-khaliq")
    task = town.task("chief-khaliq", body="@chief-khaliq, and nobody else")
    assert task in town.turns("chief-khaliq")
    assert task not in town.turns("chief")
    assert town.ask("chief-khaliq", body="@chief-khali")["unresolved"] == ["chief-khali"]


def test_case_07_messages_to_a_renamed_agent_go_with_it_and_nobody_gets_the_old_name(town):
    old, new, sender = town.agent("old"), town.name("new"), town.agent()
    tasks = {town.task(old, sender) for _ in range(6)}
    town.says("rename", old, new)
    assert town.refused("join", name=old).code == "conflict"
    assert town.refused("ask", address=f"@{old}", title="t").code == "not_found"
    assert tasks <= set(town.turns(new))


def test_case_07_messages_to_one_who_left_reach_no_successor_and_their_sender_has_them_again(town):
    name, sender = town.agent("gone"), town.agent()
    tasks = {town.task(name, sender) for _ in range(6)}
    town.says("leave", name, "--everywhere")
    assert town.refused("join", name=name).code == "conflict"
    eventually(lambda: tasks <= set(town.turns(sender)), "that the sender is asked what is to become of them")


def test_case_08_name_display_name_session_and_capability_lead_to_one_mailbox(town):
    name = town.agent(display_name="审查员", capabilities=["Unique8"])
    town.turns(name)  # it has a session now
    (session,) = next(a["sessions"] for a in town.call("agents")["agents"] if a["name"] == f"@{name}")
    ways = (f"@{name}", "@审查员", f"@{name}/{session}", f"@{name}/ses_{session[-6:].lower()}", "cap:Unique8")
    tasks = {town.call("ask", address=way, title="t")["task_id"] for way in ways}
    assert tasks == set(town.turns(name))


def test_case_09_an_inbox_that_nobody_reads_promises_a_mailbox_and_doctor_finds_it(town):
    name = town.agent("unread")
    assert town.ask(name)["promise"] in ("mailbox", "offline")
    town.pass_time(2 * HOUR)
    _, out, _ = town.run_tally("doctor", "--json")
    finding = next(f for f in json.loads(out)["findings"] if f["check"] == f"inbox @{name}")
    assert (finding["ok"], bool(finding["fix"])) == (False, True)


def test_case_10_what_a_crashed_client_took_is_due_again_when_its_lease_is_over(town):
    name = town.agent()
    task = town.task(name)
    town.call("take", name, task=task)
    town.pass_time(HOUR)
    shown = town.until(task, "submitted/new")
    assert (shown["attempt"], shown["turn"]) == (2, f"@{name}")
    assert town.call("take", name, task=task)["fence"] == 2


def test_case_11_two_senders_in_one_moment_are_both_there(town):
    name = town.agent()
    calls = [{"op": "ask", "cwd": str(town.place), "args": {"address": f"@{name}", "title": f"{i}"}} for i in range(2)]
    answers = race(town.racers(2), calls)
    assert {answer["result"]["task_id"] for answer in answers} == set(town.turns(name))


def test_case_13_a_message_that_only_waits_is_not_read(town):
    name = town.agent()
    task = town.task(name)
    for _ in range(2):
        (item,) = town.call("inbox", name)["turns"]
        assert (item["task_id"], item["new"]) == (task, True)
    assert "recorded" not in facts(town, task)
    town.says("take", task, who=name)
    assert "recorded" in facts(town, task), "its body was printed and flushed"


@pytest.mark.parametrize("verb", ["inbox", "take"])
def test_case_14_a_read_that_nobody_received_does_not_count_as_read(town, verb):
    name = town.agent()
    task = town.task(name)
    reading, writing = os.pipe()
    os.close(reading)
    words = ("inbox",) if verb == "inbox" else ("take", task)
    argv = [sys.executable, "-c", RUN_TALLY, *words, "--as", name]
    child = town.spawn(*argv, stdout=writing, cwd=town.place)
    os.close(writing)
    child.communicate(timeout=60)
    assert child.returncode != 0
    if verb == "inbox":
        assert [item["new"] for item in town.call("inbox", name)["turns"]] == [True]
    else:
        assert "recorded" not in facts(town, task)


def test_case_15_one_acknowledgement_takes_one_away_and_is_nothing_new_itself(town):
    name = town.agent()
    tasks = [town.task(name), town.task(name)]
    shown = town.call("inbox", name)
    town.call("seen", name, turns=[i for i in shown["turns"] if i["task_id"] == tasks[0]], notices=[])
    after = {item["task_id"]: item["new"] for item in town.call("inbox", name)["turns"]}
    assert after == {tasks[0]: False, tasks[1]: True}
    whole = town.call("inbox", name)
    town.call("seen", name, **whole)
    before = town.position()
    town.call("seen", name, **whole)
    assert town.events_since(before) == []
    assert [item["new"] for item in town.call("inbox", name)["turns"]] == [False, False]


def test_case_16_neither_my_own_mail_nor_that_of_others_is_in_my_inbox(town):
    sender, other, bystander = town.agent(), town.agent(), town.agent()
    task = town.task(other, sender)
    for name in (sender, bystander):
        assert task not in town.turns(name)
        assert task not in town.notices(name)


def test_case_17_a_retry_after_a_lost_answer_gets_the_first_result_and_there_is_one_message():
    with Town() as town:
        name = town.agent()
        town.stop()
        assert town.start(kill={"executor.after_append": 2}), "the first is that of the start"
        with pytest.raises(WireError):
            town.ask(name, title="once", key="2031-04-01 no. 7")
        assert town.start()
        (task,) = town.turns(name)
        again = town.ask(name, title="once", key="2031-04-01 no. 7")
        assert (again["task_id"], again["duplicate"]) == (task, True)
        assert town.turns(name) == [task]


def test_case_18_a_message_too_large_and_a_queue_too_full_are_errors_that_name_the_limit():
    with Town(mailbox_queue=3, message_bytes=2048, brief_bytes=512) as town:
        name = town.agent()
        before = town.position()
        for form, limit in (({"body": "x" * 2049}, "2048"), ({"context": "x" * 513}, "512")):
            assert limit in town.refused("ask", address=f"@{name}", title="t", **form).message
        assert (town.turns(name), town.events_since(before)) == ([], [])
        tasks = [town.task(name) for _ in range(3)]
        error = town.refused("ask", address=f"@{name}", title="one more")
        assert (error.code, "3" in error.message) == ("unavailable", True)
        assert set(town.turns(name)) == set(tasks)


def test_case_19_the_message_itself_starts_an_idle_recipient(town):
    task = town.task(town.command("echo done"))
    assert "done" in town.until(task, "completed")["result"]


def test_case_19_what_cannot_come_to_pass_ends_with_a_reason(town):
    name, sender = town.agent(), town.agent()
    task = town.task(name, sender, deadline="1h")
    town.says("leave", name, "--everywhere")
    town.pass_time(2 * HOUR)
    assert place_of(town.show(task)) == "failed/expired"
    assert town.notices(sender)[task]["reason"] == "expired"


def test_case_20_being_busy_queues_and_costs_no_attempt(town):
    name = town.command("head -1 {gate}")
    with town.fifo(name, "gate") as gate:
        first, second = town.task(name), town.task(name)
        town.until(first, "working")
        town.pass_time(30)
        waiting = town.show(second)
        assert (place_of(waiting), waiting["attempt"]) == ("submitted/new", 1)
        assert [attempt["retries"] for attempt in waiting["attempts"]] == [0]
        gate.open()
        town.until(first, "completed")
        gate.open()
        town.until(second, "completed")


def test_case_21_what_nobody_picks_up_shows_its_age_and_its_sender_is_told_at_the_deadline(town):
    name, sender = town.agent(), town.agent()
    task = town.task(name, sender, deadline="3h")
    town.pass_time(2 * HOUR)
    line = next(item for item in town.call("board")["tasks"] if item["task_id"] == task)
    assert line["age"] >= 2 * HOUR
    town.pass_time(2 * HOUR)
    assert town.notices(sender)[task]["reason"] == "expired"


def test_case_25_a_very_long_message_arrives_whole_as_one(town):
    body = "工作 " * 100_000 + "end"
    name, command = town.agent(), town.command("wc -c; :")
    task = town.task(name, body=body)
    assert town.call("take", name, task=task)["brief"]["body"] == body
    long = town.task(command, body=body)
    size = int(town.until(long, "completed")["result"].split()[0])
    assert size > len(body.encode())


def test_case_26_two_messages_in_a_row_stay_two(town):
    name = town.agent()
    bodies = {town.task(name, body=body): body for body in ("first", "second")}
    for task, body in bodies.items():
        assert town.call("take", name, task=task)["brief"]["body"] == body


def test_case_28_what_was_never_heard_of_is_unknown(town):
    name = town.agent()
    assert next(a for a in town.call("agents")["agents"] if a["name"] == f"@{name}")["presence"] == "unknown"


def test_case_29_after_an_error_the_shell_does_not_say_sent(town):
    tally = town.place / "tally"
    tally.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{RUN_TALLY}' \"$@\"\n")
    tally.chmod(0o755)
    line = f"{tally} ask @nobody-at-all hello && echo sent"
    done = subprocess.run(["sh", "-c", line], cwd=town.place, env=town.environment(), capture_output=True, check=False)
    assert (done.returncode != 0, b"sent" in done.stdout) == (True, False)
