"""What an agent must not be able to do, each on a real host: named after the attack that must fail."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tallystick import wire
from tallystick.app.verify import Verifier
from tallystick.core.caller import CallerClaim, person_by_name, person_way
from tallystick.core.model import CheckKind, CheckOutcome, CheckSpec
from tallystick.edge.api import peer
from tallystick.edge.process import prefixes
from tests.support.hosts import SECONDS, eventually
from tests.support.places import Place, git

ABSENT = "tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV"


class Agent:
    """A client of the shared socket that says of itself what it likes."""

    def __init__(self, place, **fields):
        self.place, self.fields = place, fields

    def call(self, op, **args):
        client = wire.connect(path=self.place.socket, seconds=SECONDS, start=False)
        try:
            return client.call(op, **{"cwd": str(self.place.place), "env": {}, **self.fields, "args": args})
        finally:
            client.close()

    def refused(self, op, **args):
        """The refusal, as the caller reads it."""
        with pytest.raises(wire.WireError) as caught:
            self.call(op, **args)
        return caught.value.code, caught.value.message, caught.value.remedy


@pytest.fixture
def place():
    with Place() as made:
        made.start()
        yield made


@pytest.fixture
def two(place):
    """@anna in one workspace, @zed in another, and a task there that is nothing to @anna."""
    here, there = place.repository("here"), place.repository("there")
    place.call("join", cwd=str(here), name="anna")
    place.call("join", cwd=str(there), name="zed")
    foreign = place.call("ask", cwd=str(there), address="@zed", title="secret plan")["task_id"]
    return Agent(place, **{"as": "anna", "cwd": str(here)}), foreign


# --- being a person ---------------------------------------------------------------------------------------------------


def test_a_session_or_a_coding_client_calls_itself_a_person():
    for claim in (CallerClaim(session="ses_X"), CallerClaim(listener="ses_X"), CallerClaim(client="pi", terminal=True)):
        assert person_by_name(claim)
        assert person_way(claim).startswith("!")
    assert person_by_name(CallerClaim(client="pi", setting="uid")) == ""
    assert person_by_name(CallerClaim(session="ses_X", setting="uid"))


def test_a_session_lifts_its_limits_with_the_name_of_a_person(place):
    place.call("join", name="anna")
    session = place.call("whoami", who="anna")["session"]
    owner = place.call("whoami")["name"].removeprefix("@")
    for name in (owner, f"@{owner}"):
        impostor = Agent(place, **{"as": name, "env": {"TALLY_SESSION": session}})
        for op in ("board", "inbox", "whoami"):
            assert impostor.refused(op)[0] == "denied"


def test_a_terminal_is_forged_in_the_frame(place):
    (place.path / "config.toml").write_text('person_verbs = "terminal"\n')
    place.stop()
    place.start()
    words = ["check", "add", "mine", "--", "true"]
    client = wire.connect(path=place.socket, seconds=SECONDS, start=False)
    try:
        tty = {"stdin": True, "stdout": True, "stderr": True}
        fields = {"argv": words, "cwd": str(place.place), "env": {}, "tty": tty}
        assert client.call("cli", **fields) != 0
    finally:
        client.close()
    assert "mine" not in place.tally("check", "list", cwd=place.place)[1]


def test_only_a_terminal_passes_for_one(tmp_path):
    assert not peer.has_terminal(2**22 + 1, 0)
    main, terminal = pty.openpty()
    pipe, other = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    try:
        assert peer.has_terminal(os.getpid(), terminal)
        for number in (pipe, other, null):
            assert peer.has_terminal(os.getpid(), number) is (sys.platform != "linux")
    finally:
        for number in (main, terminal, pipe, other, null):
            os.close(number)


def test_an_agent_chooses_who_coordinates(two):
    anna, _ = two
    anna.place.call("join", cwd=anna.fields["cwd"], name="bob")
    code, _, said = anna.place.tally("workspace", "coordinator", "bob", "--as", "anna", cwd=anna.fields["cwd"])
    assert (code, "Only a person" in said) == (1, True)


# --- reading across workspaces ----------------------------------------------------------------------------------------


def test_a_forged_acknowledgement_makes_a_foreign_task_the_last(two):
    anna, foreign = two
    absent = anna.refused("show", task="@last")
    texts = dict.fromkeys(("from", "state", "reason", "title", "asks", "question", "answer", "kind", "workspace"), "")
    for task in (foreign, ABSENT):
        item = {**texts, "task_id": task, "references": [], "new": False, "age": 0.0, "version": 1}
        anna.call("seen", turns=[item], notices=[])
        assert anna.refused("show", task="@last") == absent
        assert anna.refused("take", task="@last") == absent


@pytest.mark.parametrize("how", ["name", "path"])
def test_a_foreign_workspace_is_told_from_an_absent_one(two, how):
    anna, _ = two
    names = ("there", "where") if how == "name" else [str(anna.place.place / name) for name in ("there", "where")]
    told = [Agent(anna.place, **anna.fields, workspace=name).refused("board") for name in names]
    assert told[0] == tuple(text.replace("where", "there") for text in told[1])


def test_registering_a_foreign_workspace_shows_who_is_there(two):
    anna, _ = two
    there = str(anna.place.place / "there")
    code, out, _ = anna.place.tally("workspace", "add", there, "--as", "anna", cwd=anna.fields["cwd"])
    assert code == 0
    assert "zed" not in out


def test_a_foreign_trace_is_told_from_an_absent_one(two):
    anna, foreign = two
    trace = anna.place.show(foreign)["trace"]
    for verb in ("settle", "trace"):
        told = [
            anna.place.tally(verb, name, "--as", "anna", cwd=anna.fields["cwd"])
            for name in (trace, f"trc_{ABSENT[4:]}")
        ]
        assert told[0] == tuple(
            text.replace(ABSENT[-6:].lower(), trace[-6:].lower()) if isinstance(text, str) else text for text in told[1]
        )


def test_a_foreign_session_is_told_from_an_absent_one(two):
    anna, _ = two
    known = anna.place.call("whoami", who="zed", cwd=str(anna.place.place / "there"))["session"]
    told = [
        anna.place.tally("stop", name, "--as", "anna", cwd=anna.fields["cwd"]) for name in (known, f"ses_{ABSENT[4:]}")
    ]
    assert told[0] == told[1]


def test_why_reads_a_repository_of_another_workspace(two):
    anna, _ = two
    there = anna.place.place / "there"
    code, out, _ = anna.place.tally("why", "a.txt:1", "--as", "anna", "--workspace", "here", cwd=there)
    assert code == 1
    assert "one" not in out


# --- evidence ---------------------------------------------------------------------------------------------------------


def _check(place, repo, name, *words):
    code, _, said = place.tally("check", "add", name, *words, cwd=repo, env={"PATH": os.environ["PATH"]})
    assert code == 0, said


def _work(place, repo, check, base, change):
    """Hand in a commit made on top of the base, under a task with that check; how it ended."""
    git(repo, "checkout", "-q", base)
    task = place.call("ask", cwd=str(repo), address="@anna", title="x", done_when=check)["task_id"]
    place.call("take", who="anna", cwd=str(repo), task=task)
    git(repo, "checkout", "-qB", f"work-{task[-6:].lower()}", base)
    change(repo)
    git(repo, "add", "-Af")
    git(repo, "commit", "-qm", "work")
    commit = git(repo, "rev-parse", "HEAD").strip()
    place.call("submit", who="anna", cwd=str(repo), task=task, commit=commit)
    eventually(lambda: place.show(task)["checks"], "the check")
    return place.show(task)


@pytest.fixture
def judged(place):
    """A repository with a check whose setup is kept, and @anna who works there."""
    repo = place.repository()
    (repo / "verdict.sh").write_text('cat "$TALLY_SETUP/verdict"; grep -q strict "$TALLY_SETUP/verdict"\n')
    (repo / "prepare.sh").write_text('echo strict > "$TALLY_SETUP/verdict"\n')
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "check")
    place.call("join", cwd=str(repo), name="anna")
    return repo, git(repo, "rev-parse", "HEAD").strip()


def _only_setup(place):
    (folder,) = (place.path / "setups").iterdir()
    return (folder / "verdict").read_text()


def test_a_check_poisons_the_setup_of_later_checks(place, judged):
    repo, base = judged
    _check(place, repo, "c", "--kind", "command", "--setup", "sh prepare.sh", "--", "sh", "verdict.sh")

    def poison(tree):
        (tree / "verdict.sh").write_text('echo easy > "$TALLY_SETUP/verdict"; true\n')

    _work(place, repo, "c", base, poison)
    if "level none" in place.tally("doctor")[1]:
        pytest.skip("no sandbox on this machine: nothing keeps a check from writing where its user may write")
    assert _only_setup(place) == "strict\n"


def test_handed_in_work_decides_what_the_setup_makes(place, judged):
    repo, base = judged
    _check(place, repo, "c", "--kind", "command", "--setup", "sh prepare.sh", "--", "sh", "verdict.sh")
    shown = _work(
        place, repo, "c", base, lambda tree: (tree / "prepare.sh").write_text("echo easy > $TALLY_SETUP/verdict\n")
    )
    assert shown["checks"][-1]["outcome"] == "passed"
    assert _only_setup(place) == "strict\n"


def test_a_report_handed_in_with_the_work_counts_as_tests_that_ran(place, judged):
    repo, base = judged
    _check(place, repo, "c", "--kind", "test", "--", "true")
    report = '<testsuite><testcase name="a"/><testcase name="b"/></testsuite>'
    shown = _work(place, repo, "c", base, lambda tree: (tree / ".tally-junit.xml").write_text(report))
    assert shown["checks"][-1]["outcome"] == "no_tests"
    assert shown["state"] != "completed"


@pytest.mark.parametrize("way", ["itself", "below", "link", "link to above"])
def test_a_search_path_leads_a_check_to_the_record_of_the_host(tmp_path, way):
    home = tmp_path / "data" / "tally"
    (home / "worktrees").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "link").symlink_to(home)
    (tmp_path / "above").symlink_to(home.parent)
    entry = {
        "itself": home,
        "below": home / "worktrees",
        "link": tmp_path / "link",
        "link to above": tmp_path / "above",
    }
    found = prefixes("true", f"{tmp_path}/bin:{entry[way]}", "", hidden=(str(home),))
    assert str(tmp_path / "bin") in found
    assert str(entry[way]) not in found
    assert str(entry[way]) not in prefixes("true", "", str(entry[way]), hidden=(str(home),))


SECRET = "TOP SECRET"
REPLACED = {
    "file": 'rm -rf .git; echo "gitdir: {there}/.git" > .git',
    "link": "rm -rf .git; ln -s {there}/.git .git",
    "alternates": "echo {there}/.git/objects > .git/objects/info/alternates; echo {head} > .git/HEAD",
    "emptied": "rm -rf .git",
}


@pytest.mark.parametrize("how", REPLACED)
def test_a_command_makes_the_host_read_another_repository_for_it(place, how):
    repo, there = place.repository("here"), place.repository("there")
    head = place.commit(there, SECRET)
    words = REPLACED[how].format(there=there, head=head)
    (repo / "go.sh").write_text(f"echo two >> a.txt; {words}\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "go")
    place.tally("join", "sly", "--run", "sh go.sh", cwd=repo, env={"PATH": "/usr/bin:/bin"})
    task = place.call("ask", cwd=str(repo), address="@sly", title="go", expect="change")["task_id"]
    place.until(task, "failed")
    (mirror,) = (place.path / "mirrors").glob("*.git")
    with pytest.raises(subprocess.CalledProcessError):
        git(mirror, "--git-dir", str(mirror), "cat-file", "-e", head)


class Bare:
    """A machine without a sandbox."""

    def level(self):
        return "none"


async def _never(*_):
    raise AssertionError("it was run")


def test_verify_runs_an_unregistered_command_without_a_sandbox(tmp_path):
    runner = Bare()
    runner.run = runner.adopt = _never
    verifier = Verifier(tmp_path, None, runner, None, None, None, None, prefixes)
    spec = CheckSpec(name="x", argv=("rm", "-rf", "x"), kind=CheckKind.COMMAND)
    task = SimpleNamespace(done_when=spec, commit="c", base_commit="", repository="r")
    seen = asyncio.run(verifier.run(task, "verify-x"))
    assert (seen.outcome, seen.exit_code) == (CheckOutcome.ERROR, None)


# --- denial -----------------------------------------------------------------------------------------------------------


def test_one_process_locks_everybody_out(place):
    held = []

    def hold():
        for _ in range(1001):
            held.append(place.raw())

    try:
        with pytest.raises((AssertionError, OSError)):  # it is closed before or after it has said who it is
            hold()
        assert place.module("status")[0] == 0
        assert place.tally("whoami")[0] == 0
    finally:
        for client in held:
            client.__exit__()
