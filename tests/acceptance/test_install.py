"""`tally install` as a person types it: shown, asked for, done, undone; and what a client is told at its pauses."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hosts import RUN_TALLY, Home, eventually
from tests.support.seats import Desk

UID = 'person_verbs = "uid"\n'


@pytest.fixture
def home():
    with Home() as home:
        home.path.mkdir()
        (home.path / "config.toml").write_text(UID)
        yield home


class Person:
    """Somebody with clients in a home of their own and a repository, at a host."""

    def __init__(self, home):
        self.host = home
        self.home, self.work = home.place / "me 家", home.place / "repo"
        for folder in (self.home / ".claude", self.home / ".codex", self.work):
            folder.mkdir(parents=True)
        git = "git init -q . && git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m first"
        subprocess.run(git, shell=True, cwd=self.work, check=True)

    def tally(self, *words, **options):
        env = {"HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        return self.host.tally(*words, env=env, cwd=self.work, **options)

    def says(self, *words):
        code, out, err = self.tally(*words, "--json")
        assert code == 0, out + err
        return json.loads(out)

    def hook(self, event, client="claude", **said):
        """What the client reads at a pause, and what stands on standard error."""
        script = self.host.path / "hooks" / f"tallystick-{client}.sh"
        given = json.dumps({"cwd": str(self.work), **said}).encode()
        code, out, err = self.host.run("sh", str(script), event, given=given, cwd="/")
        assert code == 0
        return (json.loads(out) if out else {}), err

    def context(self, prompt, **said):
        told, err = self.hook("prompt", prompt=prompt, **said)
        assert err == ""
        return told.get("hookSpecificOutput", {}).get("additionalContext", "")


@pytest.fixture
def me(home):
    return Person(home)


def test_nothing_is_written_before_it_was_shown_and_wanted(me):
    before = sorted(me.home.rglob("*"))
    code, out, err = me.tally("install", "claude")
    assert code == 1
    assert "mcpServers" in out
    assert "--yes" in err
    code, out, _ = me.tally("install")
    assert code == 0
    assert "Claude Code" in out
    assert "Codex" in out
    shown = me.says("install", "--dry-run")
    assert [client["client"] for client in shown["clients"]] == ["claude", "codex"]
    assert shown["applied"] is False
    assert sorted(me.home.rglob("*")) == before


def test_what_is_shown_is_exactly_what_is_done(me):
    config = me.home / ".codex" / "config.toml"
    config.write_text('model = "x"\n')
    shown = me.says("install", "codex", "--dry-run")
    done = me.says("install", "codex", "--yes")
    assert done == {**shown, "applied": True}
    file = next(f for f in shown["clients"][0]["files"] if f["path"] == str(config))
    added = [line[1:] for line in file["diff"].splitlines()[3:] if line.startswith("+")]
    assert config.read_text() == "\n".join(['model = "x"', *added, ""])
    assert me.says("install", "codex", "--dry-run")["clients"][0]["files"] == []


def test_only_a_person_changes_a_client(me):
    (me.host.path / "config.toml").write_text("")
    code, _, err = me.tally("install", "claude", "--yes")
    assert code == 1
    assert "Only a person" in err
    code, _, err = me.tally("install", "claude", "--yes", "--as", "pen")
    assert code == 1
    assert list((me.home / ".claude").iterdir()) == []


def test_only_a_client_that_is_nobody_here_is_asked_for_a_name(me):
    me.says("join", "pen", "--client", "claude")
    code, out, _ = me.tally("install", "--yes")
    assert code == 0
    assert [line.strip() for line in out.splitlines() if "tally join" in line] == ["tally join NAME --client codex"]
    shown = me.says("install", "--dry-run")["clients"]
    assert {client["client"]: client["agent"] for client in shown} == {"claude": "@pen", "codex": ""}


def test_that_it_asks_for_each_tool_is_said_where_that_can_be_allowed_and_was_not(me):
    def told(*words):
        return {c["client"]: any("--allow" in n for n in c["notes"]) for c in me.says("install", *words)["clients"]}

    (me.home / ".gemini").mkdir()
    assert told("--dry-run") == {"claude": True, "codex": True, "gemini": False}
    assert told("claude", "--yes", "--allow") == {"claude": False}
    assert told("--dry-run") == {"claude": False, "codex": True, "gemini": False}


def test_an_agent_is_bound_on_the_way(me):
    done = me.says("install", "claude", "--yes", "--as", "pen")
    assert done["agent"] == "@pen"
    agents = me.says("agents")["agents"]
    assert [(a["name"], a["client"], a["connection"]) for a in agents] == [("@pen", "claude", "client")]
    assert me.says("install", "claude", "--yes", "--as", "pen")["agent"] == "@pen"
    assert me.tally("install", "--yes", "--as", "pen")[0] == 2
    assert me.tally("install", "claude", "--remove", "--yes", "--as", "pen")[0] == 2


def test_files_of_the_workspace_are_written_where_that_was_said(me):
    me.says("install", "claude", "--project", "--yes")
    assert (me.work / ".mcp.json").exists()
    assert (me.work / ".claude" / "settings.local.json").exists()
    assert not (me.home / ".claude.json").exists()
    me.says("install", "claude", "--project", "--remove", "--yes")
    assert sorted(path.name for path in me.work.iterdir()) == [".git"]


def test_any_other_client_gets_a_snippet_to_paste(me):
    snippet = json.loads(me.tally("install", "--print", "zed")[1])
    server = snippet["mcpServers"]["tallystick"]
    assert server["args"][-2:] == ["--client", "zed"]
    assert Path(server["command"]).is_absolute()
    assert server["env"] == {"TALLY_HOME": str(me.host.path)}
    asked = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    _, out, err = me.host.run(server["command"], *server["args"], given=asked, env=server["env"], cwd=me.work)
    assert json.loads(out.splitlines()[0])["result"] == {}, err
    assert me.says("install", "--print")["text"]


def test_an_unknown_client_and_a_broken_file_are_refused_with_a_way_out(me):
    code, _, err = me.tally("install", "zed", "--yes")
    assert code == 1
    assert "--print" in err
    (me.home / ".codex" / "config.toml").write_text("a = \n")
    code, _, err = me.tally("install", "codex", "--yes")
    assert code != 0
    assert "line 1" in err
    code, out, _ = me.tally("install", "--yes")
    assert code == 0
    assert "line 1" in out
    assert (me.home / ".claude.json").exists()


# --- pauses -------------------------------------------------------------------------------------------------------


@pytest.fixture
def pen(me):
    """A person whose Claude Code is the agent @pen; @reviewer is another."""
    me.says("install", "claude", "--yes", "--as", "pen")
    me.says("join", "reviewer", "--display-name", "审查员")
    return me


def hint(me):
    return (me.host.path / "hints" / "claude").read_text().strip()


def test_a_name_in_a_prompt_becomes_one_line_for_the_model(pen):
    head = pen.host.run("git", "rev-parse", "--short=12", "HEAD", cwd=pen.work)[1].strip()
    told = pen.context("@reviewer, look at this change", session_id="s")
    assert "@reviewer is an agent of workspace repo" in told
    assert f"commit {head}" in told
    assert len(told.splitlines()) == 1
    (pen.work / "new file.py").write_text("x")
    assert "uncommitted work" in pen.context("@reviewer看一下")
    assert "new file.py" in pen.context("@审查员 look")


@pytest.mark.parametrize(
    "prompt",
    [
        "use `@reviewer` as decorator",
        "```\n@reviewer\n```",
        "mail a@reviewer or see https://x.y/@reviewer",
        "\\@reviewer",
        "@dataclass and @pytest.fixture and @src/reviewer/a.py",
        "<task-notification>\n@reviewer said",
        "Tallystick: something new waits for @pen. It is about: \"@reviewer\"",
        "nobody",
    ],
)
def test_what_names_nobody_gets_no_line(pen, prompt):
    assert pen.context(prompt) == ""


def test_a_misspelt_name_gets_the_nearest(pen):
    assert "@reviewer is meant" in pen.context("@reviewr, look")


def test_a_client_that_is_bound_to_nobody_is_told_how_to_be(pen):
    pen.says("install", "codex", "--yes")
    pen.tally("down")
    (pen.host.path / "config.toml").write_text("")
    assert pen.tally("agents")[0] == 0
    told, _ = pen.hook("prompt", "codex", prompt="@reviewer look")
    assert "tally join NAME --client codex" in told["hookSpecificOutput"]["additionalContext"]
    assert pen.hook("stop", "codex") == ({}, "")


def test_a_notice_is_short_says_who_what_and_which_and_is_no_read(pen):
    eventually(lambda: hint(pen) == "0")
    pen.says("ask", "@pen", "Look at the\x1b[31m parser\n now " + "x" * 100)
    eventually(lambda: hint(pen) == "1")
    told = pen.context("go on", session_id="s")
    task = pen.says("board")["tasks"][0]["task_id"]
    assert "1 new for @pen" in told
    assert task[-6:].lower() in told.lower()
    assert "@" in told.split("from ")[1]
    assert "\x1b" not in told
    assert len(told) <= 600
    assert hint(pen) == "1"
    assert "1 new" in pen.context("still", session_id="s")


def test_the_end_of_a_turn_is_held_once_for_what_is_new(pen):
    pen.says("ask", "@pen", "One")
    eventually(lambda: hint(pen) == "1")
    told, _ = pen.hook("stop", session_id="s")
    assert told["decision"] == "block"
    assert "1 new" in told["reason"]
    assert pen.hook("stop", session_id="s", stop_hook_active=True)[0] == {}
    pen.says("ask", "@pen", "Two")
    eventually(lambda: hint(pen) == "2")
    assert pen.hook("stop", session_id="s", stop_hook_active=True)[0] == {}


def test_ten_thousand_waiting_messages_do_not_slow_the_hook_down(pen):
    pen.says("join", "pen", "--workspace", "default")
    line = pen.host.connect()
    for start in range(0, 10_000, 200):
        for number in range(start, start + 200):
            args = {"address": "@pen", "title": f"Task {number}"}
            line.send({"id": number, "op": "ask", "workspace": "default", "args": args})
        for _ in range(200):
            assert "result" in line.receive()
    line.close()
    eventually(lambda: hint(pen) == "10000")
    told = pen.context("@reviewer and go on", session_id="s")  # later than its two seconds it would say nothing
    assert "10000 new for @pen" in told
    assert "and 9997 more" in told
    assert len(told) <= 600


def test_a_hook_tells_which_conversation_it_is(pen):
    shell = pen.host.place / "bin" / "claude"
    shell.parent.mkdir()
    shutil.copy(Path("/bin/sh").resolve(), shell)
    script = pen.host.path / "hooks" / "tallystick-claude.sh"
    (pen.host.path / "hints" / "claude").unlink()
    said = json.dumps({"session_id": "s-1", "transcript_path": "/t/s-1.jsonl", "cwd": str(pen.work)})
    tally = pen.host.place / "tally.py"
    tally.write_text(RUN_TALLY)
    who = f"'{sys.executable}' '{tally}' whoami --json"
    lines = f"printf '%s' '{said}' | sh '{script}' session; cd '{pen.work}' && {who}; true"
    code, out, err = pen.host.run(str(shell), "-c", lines)
    assert code == 0, err
    session = json.loads(out)["session"]
    events = map(json.loads, pen.tally("log", "export")[1].splitlines())
    linked = [e for e in events if e["event"]["type"] == "SessionLinked"]
    assert [(e["stream"], e["event"]["history"], e["event"]["transcript"]) for e in linked] == [
        (session, "s-1", "/t/s-1.jsonl")
    ]


def test_what_a_hook_sends_is_never_a_stack_trace(pen):
    script = pen.host.path / "hooks" / "tallystick-claude.sh"
    (pen.host.path / "hints" / "claude").unlink()
    hostile = (b"", b"@", b"[1]", b'{"prompt": 3, "cwd": []}', b"{" * 100_000, b'"\xff@', b'{"prompt": "\\ud800@x"}')
    for given in hostile:
        for event in ("session", "prompt", "tool", "stop"):
            (pen.host.path / "hints" / "claude").unlink(missing_ok=True)
            code, out, err = pen.host.run("sh", str(script), event, given=given, cwd=pen.work)
            assert (code, out) == (0, ""), (given[:20], err)
            assert "Traceback" not in err


# --- doctor -------------------------------------------------------------------------------------------------------


def findings(me, client):
    code, out, _ = me.tally("doctor", "--json")
    assert code in (0, 1)
    return [f for f in json.loads(out)["findings"] if f["check"] == f"client {client}"]


def test_doctor_starts_what_is_installed_and_names_the_fix(me):
    (seen,) = findings(me, "claude")
    assert (seen["ok"], "not installed" in seen["saw"]) == (True, True)
    me.says("install", "claude", "codex", "--yes")
    (seen,) = findings(me, "claude")
    assert (seen["ok"], seen["saw"]) == (True, "both answered")
    (seen,) = findings(me, "codex")
    assert seen["ok"] is False
    assert "trust" in seen["fix"]
    hooks = me.home / ".codex" / "hooks.json"
    with (me.home / ".codex" / "config.toml").open("a") as config:
        for event in ("session_start", "user_prompt_submit", "stop"):
            config.write(f'\n[hooks.state."{hooks}:{event}:0:0"]\ntrusted_hash = "sha256:00"\n')
    assert findings(me, "codex")[0]["ok"] is True
    (me.home / ".claude" / "settings.json").write_text("{}")
    (seen,) = findings(me, "claude")
    assert seen["ok"] is False
    assert "tally install claude" in seen["fix"]
    (me.home / ".claude" / "settings.json").write_text("{")
    assert "line 1" in findings(me, "claude")[0]["saw"]


def test_doctor_sees_a_server_that_does_not_answer(tmp_path):
    desk = Desk(tmp_path)
    desk.install("claude")
    assert "server did not answer" in desk.installer.prove(desk.place(), "claude")[0].saw
