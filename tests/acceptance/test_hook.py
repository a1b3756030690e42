"""The installed hook: what it costs, that it fails open, and that no place, locale or stopped host is in its way."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tallystick import _hook, wire
from tallystick.core.clients import CLIENTS
from tallystick.edge.clients import Program
from tallystick.edge.clients.texts import hook_script
from tests.support.hosts import ROOT, Home, eventually

PAUSES = ("prompt", "tool", "stop")
TURN = json.dumps({"session_id": "s-1", "cwd": "/", "prompt": "reading, no name 在里面"}, ensure_ascii=False)
LOCALES = [
    {},
    {"LC_ALL": "C"},
    {"LC_ALL": "C", "PYTHONIOENCODING": "cp932"},
    {"LC_ALL": "ja_JP.SJIS", "LANG": "ja_JP.SJIS", "PYTHONIOENCODING": "cp932"},
    {"LC_ALL": "zh_TW.Big5", "LANG": "zh_TW.Big5", "PYTHONIOENCODING": "cp950"},
    {"LC_ALL": "zh_CN.GBK", "LANG": "zh_CN.GBK", "PYTHONIOENCODING": "gbk"},
]
SHELLS = [name for name in ("sh", "dash", "bash", "busybox") if shutil.which(name)]


@pytest.fixture
def home():
    with Home("家 it's $HOME `x` @HINT@") as home:
        yield home


def install_hook(home, python=sys.executable, client="claude"):
    """The script as `tally install` writes it."""
    made = hook_script(client, Program(str(home.path), python, str(ROOT / "tallystick")))
    made.file.parent.mkdir(parents=True, exist_ok=True)
    made.file.write_text(made.text)
    return made.file


def write_hint(home, text, client="claude"):
    hint = Path(wire.hint_path(str(home.path), client))
    hint.parent.mkdir(parents=True, exist_ok=True)
    hint.write_text(text)


def probe(home):
    """A host that has written its hints: each says that nothing is unseen."""
    host = home.probe()
    folder = Path(wire.hint_path(str(home.path), "claude")).parent
    eventually(lambda: folder.is_dir() and set(CLIENTS) == {hint.name for hint in folder.iterdir()})
    return host


def spy_on(home):
    """A Python that only leaves a mark."""
    mark, spy = home.place / "started", home.place / "spy"
    spy.write_text(f"#!/bin/sh\n: > {mark}\n")
    spy.chmod(0o755)
    return str(spy), mark


def fire(home, script, event, said=TURN, shell="sh", **options):
    words = ["busybox", "sh"] if shell == "busybox" else [shell]
    return home.run(*words, str(script), event, given=said.encode(), **options)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("event", [*PAUSES, "session"])
def test_with_nothing_unseen_no_python_starts(home, event, shell):
    python, mark = spy_on(home)
    script = install_hook(home, python)
    write_hint(home, "0\n")
    assert fire(home, script, event, shell=shell) == (0, "", "")
    assert not mark.exists()
    write_hint(home, "2\n")
    fire(home, script, event, shell=shell)
    assert mark.exists()


@pytest.mark.skipif(not shutil.which("strace"), reason="without strace it is not counted; to run it: install strace")
@pytest.mark.parametrize("event", PAUSES)
def test_with_nothing_unseen_the_shell_starts_no_other_program_at_all(home, event, tmp_path):
    script = install_hook(home)
    write_hint(home, "0\n")
    log = tmp_path / "trace"
    calls = ["strace", "-f", "-e", "trace=execve,fork,vfork,clone,clone3", "-o", str(log), "sh", str(script), event]
    code, _, err = home.run(*calls, given=TURN.encode())
    assert code == 0, err
    lines = [line for line in log.read_text().splitlines() if "exited" not in line]
    assert len(lines) == 1, lines
    assert "execve(" in lines[0]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_prompt_with_an_at_sign_is_looked_at_whole(home, shell):
    probe(home)
    script = install_hook(home)
    write_hint(home, "0\n")
    said = json.dumps({"prompt": "a\\b\n@reviewer 看 this $(touch /x) `y`", "more": "x" * 100_000}, ensure_ascii=False)
    code, out, err = fire(home, script, "prompt", f"{{\n{said[1:]}", shell=shell)
    assert (code, err) == (0, "")
    assert json.loads(out.removeprefix("1 unseen for claude ✓ ")) == json.loads(said)
    assert fire(home, script, "stop", said, shell=shell) == (0, "", "")


def test_only_codex_is_asked_at_the_start_of_a_conversation_whatever_the_hint_says(home):
    python, mark = spy_on(home)
    write_hint(home, "0\n", "codex")
    fire(home, install_hook(home, python, "codex"), "session")
    assert mark.exists()


@pytest.mark.parametrize("hint", ["1\n", "", "rubbish", None])
def test_a_hint_that_is_not_zero_makes_the_hook_look(home, hint):
    probe(home)
    script = install_hook(home)
    write_hint(home, hint or "")
    if hint is None:
        Path(wire.hint_path(str(home.path), "claude")).unlink()
    assert fire(home, script, "stop", "said") == (0, "1 unseen for claude ✓ said\n", "")


@pytest.mark.parametrize("env", LOCALES, ids=lambda env: env.get("PYTHONIOENCODING", env.get("LC_ALL", "own")))
def test_no_locale_is_in_the_way(home, env):
    probe(home)
    work = home.place / "仕事 作業"
    work.mkdir()
    code, out, err = fire(home, install_hook(home), "prompt", "@審査 を見て", env=env, cwd=work)
    assert (code, err) == (0, "")
    assert out == "1 unseen for claude ✓ @審査 を見て\n"


def test_the_hook_fails_open_with_one_line(home):
    code, out, err = fire(home, install_hook(home), "prompt")
    assert (code, out) == (0, "")
    assert len(err.splitlines()) == 1
    code, out, err = fire(home, install_hook(home, "/nowhere/python"), "prompt")
    assert (code, out) == (0, "")
    assert "tally install" in err
    assert len(err.splitlines()) == 1
    assert home.holder() is None


def test_a_program_that_is_gone_never_looks_like_a_wake(home):
    made = hook_script("claude", Program(str(home.path), sys.executable, str(home.place / "gone")))
    made.file.parent.mkdir(parents=True)
    made.file.write_text(made.text)
    for event in (*PAUSES, "wait"):
        assert fire(home, made.file, event)[0] == 0


@pytest.mark.parametrize("event", ["prompt", "stop"])
def test_the_hook_does_not_wait_for_a_host_that_hangs(home, event):
    host = probe(home)
    write_hint(home, "1\n")
    host.send_signal(signal.SIGSTOP)
    try:
        code, out, err = fire(home, install_hook(home), event)
    finally:
        host.send_signal(signal.SIGCONT)
    assert (code, out) == (0, "")
    assert len(err.splitlines()) == 1
    assert _hook.SECONDS < 2


def test_the_hook_does_not_wait_for_a_client_that_says_nothing(home):
    probe(home)
    write_hint(home, "1\n")
    child = home.spawn("sh", str(install_hook(home)), "stop", stdin=subprocess.PIPE)
    assert child.wait(30) == 0
    assert b"1.8 s" in child.stderr.read()


def test_one_that_waits_wakes_its_client_by_its_exit_code(home):
    probe(home)
    write_hint(home, "0\n")
    assert fire(home, install_hook(home), "wait", "{}") == (2, "", "wake up ✓ {}\n")


STARTER = """
import subprocess, sys
child = subprocess.Popen(["sh", sys.argv[1], "wait"])
print(child.pid, flush=True)
child.wait()
"""


def test_none_waits_where_claude_has_no_terminal(home):
    probe(home)
    script = install_hook(home)
    assert fire(home, script, "wait", "{}", env={"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}) == (0, "", "")
    assert fire(home, script, "wait", "{}", env={"CLAUDE_CODE_ENTRYPOINT": "cli"})[0] == 2
    pi = install_hook(home, client="pi")
    assert fire(home, pi, "wait", "{}", env={"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"})[0] == 2


def test_one_that_waits_ends_with_its_client(home):
    host = probe(home)
    write_hint(home, "1\n")
    host.send_signal(signal.SIGSTOP)
    try:
        client = home.spawn(sys.executable, "-c", STARTER, str(install_hook(home)))
        pid = int(client.stdout.readline())
        # The script runs, and what it becomes does not look for its parent yet: that may be gone by then.
        eventually(lambda: b"_hook.py" in Path(f"/proc/{pid}/cmdline").read_bytes(), "the hook")
        client.kill()
        eventually(lambda: not is_running(pid))
    finally:
        host.send_signal(signal.SIGCONT)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False
