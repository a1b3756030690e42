"""The real program in a temporary home: the line protocol, the life of a host, the `tally` command."""

import itertools
import json
import os
import pty
import signal
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tallystick import wire
from tallystick.edge.acp import egress
from tallystick.edge.api import server
from tests.support.hosts import ROOT, SECONDS, Home, Raw, eventually


@pytest.fixture
def home():
    with Home() as home:
        yield home


STATUS = "import json; c = wire.connect(); print(json.dumps(c.call('status')))"


# --- the life of a host -----------------------------------------------------------------------------------------


def test_the_first_command_starts_a_host_and_the_second_finds_it(home):
    code, out, err = home.python(STATUS)
    assert code == 0, err
    code, again, _ = home.python(STATUS)
    assert json.loads(out)["pid"] == json.loads(again)["pid"] == home.holder().pid
    assert json.loads(out)["home"] == str(home.path)


def test_eight_starters_at_once_make_one_host(home):
    head = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tallystick import wire\n"
    children = [home.spawn(sys.executable, "-c", head + STATUS) for _ in range(8)]
    results = [(child.communicate(timeout=2 * SECONDS), child.returncode) for child in children]
    assert [code for _, code in results] == [0] * 8, results
    assert len({json.loads(out)["pid"] for (out, _), _ in results}) == 1


def test_after_kill_9_the_next_command_starts_another_host(home):
    first = json.loads(home.python(STATUS)[1])["pid"]
    os.kill(first, signal.SIGKILL)
    eventually(lambda: home.holder() is None)
    second = json.loads(home.python(STATUS)[1])["pid"]
    assert second != first


def test_down_stops_the_host_and_returns_when_it_is_gone(home):
    home.python(STATUS)
    code, out, _ = home.tally("down")
    assert code == 0
    assert "has stopped" in out
    assert home.holder() is None
    assert not Path(home.socket).exists()
    assert home.tally("down") == (0, f"No host runs for {home.path}.\n", "")


def test_status_never_starts_a_host(home):
    code, out, _ = home.tally("status")
    assert code == 1
    assert "tally up" in out
    code, out, _ = home.module("status", "--json")
    assert code == 1
    assert json.loads(out) == {"running": False, "home": str(home.path)}
    assert not home.path.exists()


def test_status_shows_the_host_that_runs(home):
    home.probe()
    code, out, _ = home.module("status", "--json")
    assert code == 0
    shown = json.loads(out)
    assert shown["pid"] == home.holder().pid
    assert shown["running"] is True
    assert home.tally("status") == (0, "from the host\n", "")


def test_a_second_host_on_one_home_is_refused_h59(home):
    home.probe()
    code, _, err = home.module("up")
    assert code == 1
    assert str(home.holder().pid) in err
    assert "tally up --replace" in err


def test_up_replace_stops_the_old_host_in_order_and_serves(home):
    old = home.probe()
    new = home.spawn(sys.executable, "-m", "tallystick", "up", "--replace", cwd=ROOT)
    assert b"serves" in new.stdout.readline()
    assert old.wait(SECONDS) == 0
    assert home.holder().pid == new.pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_host_in_order(home, number):
    host = home.probe()
    host.send_signal(number)
    assert host.wait(SECONDS) == 0
    assert not Path(home.socket).exists()
    last = [json.loads(line) for line in (home.path / "log/host.jsonl").read_text().splitlines()][-2:]
    assert [record["kind"] for record in last] == ["host stopping", "host stopped"]


def test_a_session_never_starts_or_stops_a_host(home):
    code, _, err = home.tally("inbox", env={"TALLY_SESSION": "ses_1"})
    assert code == 1
    assert "tally mcp" in err
    assert not home.path.exists()
    home.probe()
    assert home.tally("down", env={"TALLY_SESSION": "ses_1"})[0] == 1
    assert home.holder()


def test_a_host_that_dies_at_its_start_says_why(home):
    home.path.mkdir(0o700)
    (home.path / "config.toml").write_text("colour = 1\n")
    code, _, err = home.tally("inbox")
    assert code == 1
    assert "colour" in err
    assert "Known are" in err
    assert "Traceback" not in err


def test_a_host_in_the_background_keeps_a_fixed_environment_alone(home):
    env = {"SECRET_TOKEN": "x", "LANG": "C", "XDG_CACHE_HOME": "/nowhere"}
    pid = json.loads(home.python(STATUS, env=env)[1])["pid"]
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    names = {entry.split(b"=")[0].decode() for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if entry}
    assert "TALLY_HOME" in names
    assert {n for n in names if not n.startswith("XDG_")} <= set(wire.HOST_ENVIRONMENT)
    session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3]
    assert int(session) != os.getsid(0)


def test_running_calls_are_told_when_the_host_stops(home):
    home.probe(stop_seconds=0.05)
    with home.raw() as client:
        client.send({"id": 7, "op": "hang"})
        client.send({"id": 8, "op": "down"})
        answers = {}
        while (line := client.line()) is not None:
            answers[line["id"]] = line
    assert answers[8]["result"]["stopping"] is True
    assert answers[7]["error"]["code"] == "unavailable"


def test_what_a_vanished_client_asked_for_is_finished_when_the_host_stops(home):
    host = home.probe()
    with home.raw() as client:
        client.send({"id": 1, "op": "slow_write"})
        client.send({"id": 2, "op": "echo"})
        assert client.line()["id"] == 2
    host.send_signal(signal.SIGTERM)
    assert host.wait(SECONDS) == 0
    assert (home.path / "written").exists()


# --- files ------------------------------------------------------------------------------------------------------


def test_every_file_is_private_whatever_the_umask_h57(home):
    code, _, err = home.python("import os; os.umask(0)\n" + STATUS)
    assert code == 0, err
    modes = {}
    for path in [home.path, *home.path.rglob("*")]:
        with suppress(FileNotFoundError):  # a host at work puts files away
            modes[path] = stat.S_IMODE(path.lstat().st_mode)
    assert {oct(mode) for path, mode in modes.items() if path.is_dir()} == {"0o700"}
    assert {oct(mode) for path, mode in modes.items() if not path.is_dir()} == {"0o600"}
    assert Path(home.socket) in modes


@pytest.mark.parametrize("bound", [server._bind, egress._bound])
def test_a_socket_is_private_and_what_other_threads_make_meanwhile_can_be_entered(tmp_path, bound):
    sockets, others = tmp_path / "sockets", tmp_path / "others"
    sockets.mkdir(0o700)
    others.mkdir()
    enough = threading.Event()

    def make():
        for number in itertools.count():
            (others / f"{threading.get_ident()}-{number}").mkdir(0o700)
            if enough.is_set():
                return

    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(300):
        bound(sockets / str(number)).close()
    enough.set()
    for thread in threads:
        thread.join()
    assert {stat.S_IMODE(path.stat().st_mode) for path in sockets.iterdir()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in others.iterdir()} == {0o700}


def test_an_own_home_that_others_may_enter_is_closed_to_them(home):
    home.path.mkdir()
    home.path.chmod(0o755)
    home.python(STATUS)
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700


def test_a_home_that_is_a_link_is_refused(home):
    (home.place / "real").mkdir()
    home.path.symlink_to(home.place / "real")
    code, _, err = home.module("up")
    assert code == 1
    assert "no directory of its own" in err


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make another user's directory")
def test_a_home_of_another_user_is_refused(home):
    home.path.mkdir(0o777)
    os.chown(home.path, 12345, 12345)
    code, _, err = home.tally("inbox")
    assert code == 1
    assert "12345" in err


def test_a_deep_home_gets_a_short_socket_path_that_all_clients_find_c71():
    with Home("d" * 90 + "/" + "名前" * 20) as home:
        code, _, err = home.python(STATUS, env={"XDG_RUNTIME_DIR": ""})
        assert code == 0, err
        assert len(os.fsencode(home.socket)) <= 104
        assert stat.S_IMODE(Path(home.socket).parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(Path(home.socket).stat().st_mode) == 0o600
        # Another environment computes another place: the note in the home decides.
        elsewhere = home.place / "x"
        elsewhere.mkdir()
        code, out, _ = home.module("status", "--json", env={"XDG_RUNTIME_DIR": "", "TMPDIR": str(elsewhere)})
        assert code == 0
        assert json.loads(out)["pid"] == home.holder().pid


def test_a_short_directory_that_is_not_ours_alone_is_refused():
    with Home("d" * 100) as home:
        runtime = home.place / "r"
        runtime.mkdir(0o700)
        env = {"XDG_RUNTIME_DIR": str(runtime)}
        path = home.python("print(wire.short_socket_path(wire.home()))", env=env)[1].strip()
        Path(path).parent.mkdir()
        Path(path).parent.chmod(0o777)
        code, _, err = home.tally("inbox", env=env)
        assert code == 1
        assert "not a directory of yours alone" in err


def test_a_home_with_chinese_characters_works_c71():
    with Home("家 和 房子") as home:
        assert json.loads(home.python(STATUS)[1])["home"] == str(home.path)
        assert home.tally("down")[0] == 0


# --- the handshake and the protocol -----------------------------------------------------------------------------


def test_an_unknown_protocol_version_is_refused_and_names_the_way_on(home):
    home.probe()
    with home.raw(greet=False) as client:
        client.send({"hello": {"protocol": [2, 9], "client": "future", "version": "9"}})
        refused = client.line()["refused"]
        assert client.line() is None
    assert refused["code"] == "unsupported"
    assert "tally up --replace" in refused["remedy"]


def test_a_range_that_overlaps_is_agreed_on(home):
    home.probe()
    with home.raw(greet=False) as client:
        client.send({"hello": {"protocol": [1, 9], "client": "future", "version": "9"}})
        assert client.line()["welcome"]["protocol"] == 1


def test_requests_are_pipelined_and_answered_by_id(home):
    home.probe()
    with home.raw() as client:
        client.send({"id": 1, "op": "until_interrupted"})
        assert client.line() == {"id": 1, "out": "waiting\n"}
        for number in range(2, 100):
            client.send({"id": number, "op": "echo", "n": number})
        answers = [client.line() for _ in range(2, 100)]
        assert {a["id"]: a["result"] for a in answers} == {n: {"n": n} for n in range(2, 100)}
        client.send({"id": 1, "interrupt": True})
        assert client.line() == {"id": 1, "result": 130}


def test_frames_go_both_ways_in_order_while_a_call_runs(home):
    home.probe()
    with Raw(home.socket) as client:
        lines = [{"id": 1, "op": "frames"}, *({"id": 1, "frame": {"n": n}} for n in range(50))]
        client.sock.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        assert [client.line() for _ in range(50)] == [{"id": 1, "frame": {"n": n}} for n in range(50)]
        client.send({"id": 1, "interrupt": True})
        assert client.line() == {"id": 1, "result": 50}


def test_frames_that_are_sent_together_stand_before_what_the_call_ends_with(home):
    home.probe()
    with Raw(home.socket) as client:
        client.send({"id": 1, "op": "last_words"})
        assert [client.line() for _ in range(4)] == [*({"id": 1, "frame": n} for n in range(3)), {"id": 1, "result": 3}]
        client.send({"id": 2, "op": "last_words"})
        client.send({"id": 3, "op": "echo", "a": 1})
        said = [client.line() for _ in range(5)]
        assert [line for line in said if line["id"] == 2] == [
            *({"id": 2, "frame": n} for n in range(3)),
            {"id": 2, "result": 3},
        ]
        assert {"id": 3, "result": {"a": 1}} in said


def pour(sock, data, most):
    """Send without waiting, until nothing more is taken."""
    sent = 0
    while sent < most:
        sent += sock.send(data)


def test_a_call_can_stop_listening_to_a_client_that_sends_too_much(home):
    home.probe()
    with Raw(home.socket) as client:
        client.send({"id": 1, "op": "frames"})
        client.send({"id": 1, "frame": "hold"})
        assert client.line() == {"id": 1, "frame": "hold"}
        client.sock.setblocking(False)
        lines = b'{"id":1,"frame":{"n":1}}\n' * 100
        with pytest.raises(BlockingIOError):
            pour(client.sock, lines, most=64 * 1024 * 1024)


@pytest.mark.parametrize("code", ["invalid", "denied", "not_found", "no_route", "offline", "expired", "internal"])
def test_a_refusal_arrives_with_code_message_and_remedy(home, code):
    home.probe()
    connection = home.connect()
    with pytest.raises(wire.WireError) as caught:
        connection.call("refuse", code=code)
    assert (caught.value.code, caught.value.message, caught.value.remedy) == (code, "It is so.", "Do otherwise.")
    assert connection.call("echo", a=1) == {"a": 1}
    connection.close()


def test_an_unforeseen_error_is_a_number_to_the_caller_and_a_trace_in_the_diagnostics(home):
    home.probe()
    connection = home.connect()
    with pytest.raises(wire.WireError) as caught:
        connection.call("boom")
    connection.close()
    assert caught.value.code == "internal"
    assert "secret" not in str(caught.value)
    records = [json.loads(line) for line in (home.path / "log/host.jsonl").read_text().splitlines()]
    (failure,) = [record for record in records if record["kind"] == "failure"]
    assert failure["reference"] in caught.value.message
    assert "secret detail" in failure["trace"]


def test_the_kernel_says_who_calls_and_parents_are_named(home):
    home.probe()
    connection = home.connect(client="mcp")
    shown = connection.call("facts")
    connection.close()
    assert (shown["uid"], shown["pid"]) == (os.getuid(), os.getpid())
    assert shown["door"] == "mcp"
    assert shown["listener"] == ""


def test_a_session_socket_is_the_identity(home):
    home.probe()
    control = home.connect()
    path = home.path / "run" / "s1.sock"
    control.call("listen", session="ses_1", path=str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    session = wire.connect(path=str(path), seconds=SECONDS)
    assert session.call("facts")["listener"] == "ses_1"
    with pytest.raises(wire.WireError, match="may not stop"):
        session.call("down")
    assert control.call("facts")["listener"] == ""
    assert control.call("unlisten", session="ses_1") is True
    with pytest.raises(wire.WireError):
        session.call("facts")
    assert not path.exists()
    session.close()
    control.close()


# --- the command ------------------------------------------------------------------------------------------------


def test_what_the_host_says_is_printed_and_its_exit_code_returned(home):
    home.probe()
    assert home.tally("words", "a", "✓") == (0, "a ✓\n", "to stderr ✓\n")
    for code in (0, 2, 3, 4, 5, 124):
        assert home.tally("exit", str(code))[0] == code


def test_a_refusal_is_printed_with_its_remedy_and_exits_1_c29(home):
    home.probe()
    assert home.tally("refuse") == (1, "", "tally: It is taken ✓.\n  → Take another.\n")
    code, out, err = home.tally("boom")
    assert (code, out) == (1, "")
    assert "reference" in err


def test_a_refusal_that_quotes_hostile_text_is_escaped_h41(home):
    home.probe()
    _, _, err = home.tally("refuse", "\x1b]52;c;x\x07", "\x9b31m", "a\rb", "\u202egnp", "z\u200bw")
    assert err == "tally: \\x1b]52;c;x\\x07 \\x9b31m a\\rb \\u202egnp z\\u200bw\n  → Take another.\n"


@pytest.mark.parametrize(
    "env", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0"}]
)
def test_output_is_utf_8_whatever_the_locale_c69(home, env):
    home.probe()
    assert home.tally("words", "✓ 名前", env=env) == (0, "✓ 名前\n", "to stderr ✓\n")


def test_long_output_arrives_whole(home):
    home.probe()
    assert home.tally("long", "3000000") == (0, "é" * 3000000 + "\n", "")


def test_an_answer_that_json_cannot_carry_is_an_internal_error(home):
    home.probe()
    code, _, err = home.tally("surrogate")
    assert code == 1
    assert "reference" in err


def test_an_argument_that_is_no_utf_8_is_refused(home):
    home.probe()
    code, _, err = home.tally(b"caf\xe9")
    assert code == 2
    assert "UTF-8" in err


def test_the_host_learns_directory_terminal_and_a_fixed_part_of_the_environment(home):
    home.probe()
    env = {"LC_TIME": "C", "TALLY_AGENT": "bob", "SECRET": "x", "COLUMNS": "133"}
    code, out, _ = home.tally("facts", env=env, cwd=home.place)
    shown = json.loads(out)
    assert code == 0
    assert shown["cwd"] == str(home.place)
    assert shown["columns"] == 133
    assert shown["tty"] == [False, False, False]
    assert shown["env"]["TALLY_AGENT"] == "bob"
    assert shown["env"]["LC_TIME"] == "C"
    assert "SECRET" not in shown["env"]
    if sys.platform == "linux":
        assert Path(f"/proc/{os.getpid()}/comm").read_text().strip() in shown["ancestors"]


def test_standard_input_is_sent_when_it_is_asked_for(home):
    home.probe()
    data = bytes(range(256)) * 1000
    assert home.tally("stdin", given=data) == (0, f"{len(data)} bytes, sum {sum(data)}\n", "")
    assert home.tally("stdin", given=b"") == (0, "0 bytes, sum 0\n", "")


def test_too_much_standard_input_is_refused_and_not_read_to_its_end(home):
    home.probe(stdin_bytes=100_000)
    with Path("/dev/zero").open("rb") as endless:
        code, _, err = home.tally("stdin", stdin=endless)
    assert code == 1
    assert "100000" in err


def test_the_flush_is_acknowledged(home):
    home.probe()
    assert home.tally("flush") == (0, "before\nflushed True\n", "")


def test_a_prompt_is_asked_at_the_terminal_and_nowhere_else(home):
    home.probe()
    assert home.tally("ask") == (0, "reply None\n", "")
    master, slave = pty.openpty()
    child = home.spawn_tally("ask", stdin=slave)
    os.close(slave)
    assert os.read(child.stderr.fileno(), 100) == b"Sure? "
    os.write(master, b"yes\n")
    out, _ = child.communicate(timeout=SECONDS)
    os.close(master)
    assert (child.returncode, out) == (0, b"reply 'yes'\n")


def test_an_interrupt_ends_a_prompt(home):
    home.probe()
    master, slave = pty.openpty()
    child = home.spawn_tally("ask", stdin=slave)
    os.close(slave)
    assert os.read(child.stderr.fileno(), 100) == b"Sure? "
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=SECONDS)
    os.close(master)
    assert (child.returncode, out) == (0, b"reply None\n")


def test_an_interrupt_is_passed_on_and_the_host_ends_the_command(home):
    home.probe()
    child = home.spawn_tally("wait")
    assert child.stdout.readline() == b"waiting\n"
    child.send_signal(signal.SIGINT)
    assert child.wait(SECONDS) == 130


def test_a_second_interrupt_ends_the_command_itself(home):
    host = home.probe()
    child = home.spawn_tally("wait")
    assert child.stdout.readline() == b"waiting\n"
    host.send_signal(signal.SIGSTOP)
    try:
        child.send_signal(signal.SIGINT)
        eventually(lambda: child.send_signal(signal.SIGINT) or child.poll() is not None)
        assert child.wait(SECONDS) == 130
    finally:
        host.send_signal(signal.SIGCONT)


def test_a_closed_pipe_ends_the_command_silently_and_the_call_too(home):
    home.probe()
    child = home.spawn_tally("forever")
    child.stdout.read(5)
    child.stdout.close()
    assert child.wait(SECONDS) == 141
    assert child.stderr.read() == b""
    connection = home.connect()
    eventually(lambda: connection.call("tasks") == 1, "the end of the abandoned call")
    connection.close()


def test_a_host_that_vanishes_is_reported_and_not_taken_for_success(home):
    host = home.probe()
    child = home.spawn_tally("wait")
    assert child.stdout.readline() == b"waiting\n"
    host.kill()
    _, err = child.communicate(timeout=SECONDS)
    assert child.returncode == 1
    assert b"not known" in err


def test_a_socket_that_may_not_be_used_names_the_tool_that_does_the_same_h58(home):
    home.probe()
    # Root may do anything, so it becomes somebody else first; the home is not theirs to enter.
    become = "import os; from tallystick import _tally; os.getuid() or os.setuid(65534); sys.exit(_tally.main())"
    (home.path / "run").chmod(0)
    try:
        code, _, err = home.python(become)
    finally:
        (home.path / "run").chmod(0o700)
    assert code == 1
    assert "tally mcp" in err
    assert "Traceback" not in err


def test_verbs_about_the_host_work_without_one(home):
    assert home.tally("--version")[1].startswith("tally 0.")
    code, _, err = home.module("inbox")
    assert code == 2
    assert "tally up" in err
    assert home.module("status", "--nonsense")[0] == 2


def test_a_removed_working_directory_is_no_obstacle(home):
    home.probe()
    code = "import os, tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d); print(repr(wire.directory()))"
    assert home.python(code) == (0, "''\n", "")


# --- who listens --------------------------------------------------------------------------------------------------


def test_a_stranger_behind_the_socket_is_told_nothing(home):
    if os.getuid() != 0:
        pytest.skip("only root can let another user listen")
    home.path.joinpath("run").mkdir(parents=True)
    home.place.chmod(0o777)
    home.path.chmod(0o777)
    home.path.joinpath("run").chmod(0o777)
    code = f"""
import os, socket
os.setuid(12345)
s = socket.socket(socket.AF_UNIX); s.bind({home.socket!r}); s.listen(); print("listening", flush=True)
c, _ = s.accept(); print(len(c.recv(100)), flush=True)
"""
    stranger = home.spawn(sys.executable, "-c", code, stderr=subprocess.STDOUT)
    assert stranger.stdout.readline() == b"listening\n"
    _, _, err = home.tally("inbox")
    assert "another user's" in err
    assert stranger.stdout.readline() == b"0\n"


def test_raw_is_refused_before_hello(home):
    home.probe()
    with Raw(home.socket, greet=False) as client:
        client.send({"id": 1, "op": "echo"})
        assert client.line()["refused"]["code"] == "invalid"
        assert client.line() is None
