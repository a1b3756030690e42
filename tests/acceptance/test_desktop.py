"""Notices on the desktop, handed to a real notification service on a bus of its own."""

import contextlib
import json
import shutil

import pytest

from tests.support.hosts import Home, eventually

pytestmark = pytest.mark.skipif(
    not shutil.which("dbus-daemon"), reason="no dbus-daemon; to run these: install dbus (Debian: dbus)"
)


@pytest.fixture
def desk():
    from tests.support.desktop import DesktopService

    with DesktopService() as desk:
        yield desk


@pytest.fixture
def home(desk):
    with Home() as home:
        home.path.mkdir(parents=True, mode=0o700)
        (home.path / "config.toml").write_text('person_verbs = "uid"\n')
        home.desk = {"DBUS_SESSION_BUS_ADDRESS": desk.address}
        for name in ("one", "two"):
            say(home, "join", name)
        yield home


def say(home, *words):
    code, out, err = home.tally(*words, "--json", env=home.desk, cwd=home.place)
    assert code == 0, out + err
    return json.loads(out)


def texts(found):
    return [text for _, text in found]


def test_of_a_hundred_mixed_events_three_decisions_are_three_notices(home, desk):
    with contextlib.closing(home.connect()) as connection:

        def call(op, who="", **args):
            return connection.call(op, cwd=str(home.place), **({"as": who} if who else {}), args=args)

        for number in range(16):  # six events each that are nothing to a person
            task = call("ask", "one", address="@two", title=f"work {number}")["task_id"]
            call("take", "two", task=task)
            call("progress", "two", task=task, text="half")
            call("question", "two", task=task, text="which?")
            call("answer", "one", task=task, text="that")
            call("submit", "two", task=task, text="done")
        decisions = []
        for number in range(3):
            task = call("ask", "two", address="@human", title=f"choose {number}")["task_id"]
            decisions.append(task)
        eventually(lambda: len(desk.shown) >= 3, "the notices")
        call("take", task=decisions[0])
        eventually(lambda: desk.closed, "the end of a notice")
    assert [title for title, _ in desk.shown] == ["Tallystick: decision"] * 3
    assert [text.split(" is yours")[0] for text in texts(desk.shown)] == ["choose 0", "choose 1", "choose 2"]
    assert texts(desk.closed) == texts(desk.shown)[:1]
    assert say(home, "log", "head")["position"] >= 100


def test_a_result_is_told_once_and_goes_when_it_was_read(home, desk):
    task = say(home, "ask", "@one", "count <b>all</b> \u202efiles")["task_id"]
    say(home, "take", task, "--as", "one")
    say(home, "submit", task, "--text", "7", "--as", "one")
    eventually(lambda: desk.shown, "the notice")
    assert desk.shown[0][0] == "Tallystick: result"
    assert desk.shown[0][1].startswith("count &lt;b&gt;all&lt;/b&gt; files is done")
    say(home, "inbox")
    eventually(lambda: desk.closed, "the end of the notice")
    assert len(desk.shown) == 1


def test_what_a_person_does_itself_is_not_told_to_it(home, desk):
    task = say(home, "ask", "@one", "mine")["task_id"]
    say(home, "cancel", task)
    other = say(home, "ask", "@one", "theirs")["task_id"]
    say(home, "decline", other, "no", "--as", "one")
    eventually(lambda: desk.shown, "the notice")
    assert texts(desk.shown)[0].startswith("theirs was declined")


def test_an_agent_that_nothing_can_wake_has_to_be_opened_and_its_person_is_told_once(home, desk):
    with contextlib.closing(home.connect()) as connection:

        def call(op, **args):
            return connection.call(op, cwd=str(home.place), args=args)

        call("join", name="closed", client="gemini")
        for number in range(3):
            assert call("ask", address="@closed", title=f"work {number}")["promise"] == "mailbox"
        eventually(lambda: any("@closed" in text for text in texts(desk.shown)), "the notice")
        call("ask", address="@two", title="something else")
    say(home, "activity")
    assert len([text for text in texts(desk.shown) if "open it" in text]) == 1


def test_without_a_desktop_nothing_fails_and_doctor_says_so():
    with Home() as home:
        home.desk = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"}
        say(home, "join", "one")
        task = say(home, "ask", "@one", "count")["task_id"]
        say(home, "take", task, "--as", "one")
        say(home, "submit", task, "--text", "7", "--as", "one")

        def finding():
            return [f for f in say(home, "doctor")["findings"] if f["check"] == "desktop" and not f["ok"]]

        assert "no notification service" in eventually(finding, "the finding")[0]["saw"]
