"""What is written into the files of coding clients: all or nothing, links and modes kept, nobody else's words lost."""

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tallystick.core.clients import CLIENTS as KNOWN
from tallystick.core.errors import ErrorCode, Refused
from tallystick.edge.clients import CLIENTS, files
from tallystick.edge.clients.answers import SPEAKS
from tests.support.hosts import ROOT
from tests.support.seats import Desk

SETTINGS = '{\n  // mine\n  "theme": "dark",\n}\n'


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def refused(act):
    with pytest.raises(Refused) as caught:
        act()
    return caught.value


def test_a_link_is_followed_and_kept(desk):
    real = desk.write(desk.home / "dotfiles" / "claude.json", SETTINGS)
    link = desk.home / ".claude.json"
    link.symlink_to("dotfiles/claude.json")
    before = desk.tree()
    desk.install("claude")
    assert link.is_symlink()
    assert "tallystick" in real.read_text()
    desk.remove("claude")
    assert desk.tree() == before


def test_a_linked_folder_is_followed_and_kept(desk):
    (desk.home / "dotfiles").mkdir()
    (desk.home / ".codex").symlink_to("dotfiles")
    before = desk.tree()
    desk.install("codex")
    assert (desk.home / "dotfiles" / "config.toml").exists()
    desk.remove("codex")
    assert desk.tree() == before


@pytest.mark.parametrize("link", [".mcp.json", ".claude", ".claude/skills/tallystick/SKILL.md"])
def test_a_link_out_of_a_workspace_is_not_followed(desk, link):
    """A repository may come from strangers."""
    outside = desk.write(desk.home / "mine", "precious\n") if link.endswith((".json", ".md")) else desk.home
    (desk.work / link).parent.mkdir(parents=True, exist_ok=True)
    (desk.work / link).symlink_to(outside)
    before = desk.tree()
    error = refused(lambda: desk.install("claude", project=True))
    assert error.code is ErrorCode.DENIED
    assert "leads out of the workspace" in error.message
    assert desk.tree() == before


def test_the_mode_is_kept_and_a_new_file_is_for_its_owner_alone(desk):
    mine = desk.write(desk.home / ".claude.json", SETTINGS)
    mine.chmod(0o644)
    desk.install("claude")
    assert stat.S_IMODE(mine.stat().st_mode) == 0o644
    assert stat.S_IMODE((desk.home / ".claude" / "settings.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("client", ["claude", "codex", "opencode", "gemini"])
def test_a_broken_file_is_refused_by_line_and_no_file_is_touched(desk, client):
    file = desk.shared(client, project=client == "gemini")[-1]
    desk.write(file, "{\n  broken")
    before = desk.tree()
    error = refused(lambda: desk.install(client, project=client == "gemini"))
    assert error.code is ErrorCode.INVALID
    assert f"{file}, line 2" in error.message
    assert desk.tree() == before
    assert not (desk.tally / "hooks").exists()


@pytest.mark.parametrize("data", [b"\xff\xfe{\x00}\x00", b'{"a": "\xe9"}', "{}".encode("utf-16")])
def test_a_file_that_is_not_utf_8_is_refused(desk, data):
    desk.write(desk.home / ".claude.json", data)
    assert "not UTF-8" in refused(lambda: desk.install("claude")).message


@pytest.mark.parametrize("kind", ["folder", "fifo", "loop", "file above"])
def test_what_is_no_file_is_refused_without_waiting(desk, kind):
    path = desk.home / ".claude.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path.name)
    else:
        desk.write(desk.home / ".claude", "a file where a folder should be")
    before = {name: what for name, what in desk.tree().items() if kind != "fifo"}
    assert refused(lambda: desk.install("claude")).code in (ErrorCode.DENIED, ErrorCode.UNAVAILABLE)
    assert kind == "fifo" or desk.tree() == before


def test_a_file_that_changes_between_showing_and_writing_is_refused_and_no_file_is_touched(desk):
    path = desk.write(desk.home / ".claude.json", SETTINGS)
    plan = desk.plan("claude")
    path.write_text('{"theirs": 1}')
    before = desk.tree()
    error = refused(lambda: desk.installer.apply(plan))
    assert error.code is ErrorCode.CONFLICT
    assert "changed meanwhile" in error.message
    assert desk.tree() == before


def test_a_file_that_changes_in_the_last_moment_undoes_those_already_written(desk, monkeypatch):
    path = desk.write(desk.home / ".claude" / "settings.json", "{}")
    plan = desk.plan("claude")
    real = files._check
    seen = []

    def check(change):
        seen.append(change.path)
        if seen.count(str(path)) == 2:
            path.write_text('{"theirs": 1}')
        real(change)

    monkeypatch.setattr(files, "_check", check)
    assert refused(lambda: desk.installer.apply(plan)).code is ErrorCode.CONFLICT
    assert path.read_text() == '{"theirs": 1}'
    assert not (desk.home / ".claude.json").exists()
    assert not (desk.home / ".claude" / "skills").exists()
    assert [file for file in desk.home.rglob(".*.??????*") if file.is_file()] == []


@pytest.mark.parametrize("step", range(9))
def test_a_full_disk_at_any_write_leaves_every_file_as_it_was(desk, monkeypatch, step):
    desk.write(desk.home / ".claude.json", SETTINGS)
    plan = desk.plan("claude")
    before = desk.tree()
    calls = iter(range(10**6))

    def full(_):
        if next(calls) == step:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    error = refused(lambda: desk.installer.apply(plan))
    assert error.code is ErrorCode.UNAVAILABLE
    assert "No space left" in error.message
    assert desk.tree() == before
    monkeypatch.undo()
    desk.install("claude")
    desk.remove("claude")
    assert desk.tree() == before


AS_USER = """
import os, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tallystick.core.errors import Refused
from tests.support.seats import Desk
Desk(Path({place!r})).plan("claude")  # what is imported late must be read before
if os.getuid() == 0:
    os.setuid(12345)
try:
    Desk(Path({place!r})).install("claude")
except Refused as error:
    print(error.code.value, error.message)
"""


@pytest.fixture
def lent():
    """A place that a process of another user may use, where the tests are run by root."""
    place = Path(tempfile.mkdtemp(prefix="lent-"))
    yield place
    shutil.rmtree(place)


@pytest.mark.parametrize(("what", "mode"), [(".claude", 0o555), (".claude/settings.json", 0o444), ("", 0o555)])
def test_what_is_read_only_is_refused_and_nothing_is_half_done(lent, what, mode):
    desk = Desk(lent)
    desk.write(desk.home / ".claude" / "settings.json", "{}")
    desk.write(desk.home / ".claude.json", "{}")
    if os.getuid() == 0:
        for path in (lent, *lent.rglob("*")):
            os.chown(path, 12345, 12345)
    (desk.home / what).chmod(mode)
    before = desk.tree()
    code = AS_USER.format(root=str(ROOT), place=str(lent))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith(("denied", "unavailable")), done.stdout + done.stderr
    assert "No file was changed" in done.stdout
    assert desk.tree() == before


def test_a_record_of_what_was_before_is_kept_until_it_is_put_back(desk):
    desk.write(desk.home / ".claude.json", SETTINGS)
    desk.install("claude")
    records = desk.records()
    assert {record["client"] for record in records} == {"claude"}
    assert len(records) == 4
    kept = [path.read_text() for path in desk.tally.glob("backups/*/before")]
    assert kept == [SETTINGS]
    for path in desk.tally.glob("backups/*/*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    desk.remove("claude")
    assert desk.records() == []


def test_without_the_backups_only_our_entries_go(desk):
    path = desk.write(desk.home / ".claude.json", '{"mcpServers": {"mine": {}}, "a": 1}')
    desk.install("claude")
    for kept in desk.tally.glob("backups/*/*"):
        kept.unlink()
    desk.remove("claude")
    assert json.loads(path.read_text()) == {"mcpServers": {"mine": {}}, "a": 1}
    assert "tallystick" not in str(desk.tree())


def test_what_a_person_added_to_our_entry_stays_when_it_is_brought_up_to_date(desk):
    path = desk.home / ".claude.json"
    desk.install("claude")
    held = json.loads(path.read_text())
    held["mcpServers"]["tallystick"]["disabled"] = True
    held["mcpServers"]["tallystick"]["command"] = "/old/python"
    path.write_text(json.dumps(held, indent=2))
    desk.install("claude")
    entry = json.loads(path.read_text())["mcpServers"]["tallystick"]
    assert entry["disabled"] is True
    assert entry["command"] == "/opt/py thon/bin/python3"


def test_an_upgrade_changes_only_what_differs(desk):
    desk.write(desk.home / ".claude.json", SETTINGS)
    before = desk.tree()
    desk.install("claude")
    desk.program = desk.program._replace(package="/opt/newer")
    desk.installer = type(desk.installer)(desk.program, CLIENTS)
    plan = desk.install("claude")
    assert sorted(os.path.basename(change.path) for change in plan.changes) == [".claude.json", "tallystick-claude.sh"]
    desk.remove("claude")
    assert desk.tree() == before


def test_the_hook_script_stays_while_another_place_needs_it(desk):
    script = desk.tally / "hooks" / "tallystick-claude.sh"
    desk.install("claude")
    desk.install("claude", project=True)
    desk.remove("claude")
    assert script.exists()
    desk.remove("claude", project=True)
    assert not script.exists()
    assert "tallystick" not in str(desk.tree())


def test_a_group_in_which_somebody_put_their_own_hook_beside_ours_is_left_to_them(desk):
    desk.install("claude")
    path = desk.home / ".claude" / "settings.json"
    held = json.loads(path.read_text())
    held["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "theirs"})
    path.write_text(json.dumps(held))
    desk.remove("claude")
    assert json.loads(path.read_text()) == {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "theirs"}]}]}}


def test_pauses_are_those_of_the_table_of_clients(desk):
    for client in CLIENTS:
        texts = "".join(
            change.after.decode() for change in desk.plan(client).changes if "tallystick-" not in change.path
        )
        for pause in ("session", "prompt", "tool", "stop"):
            said = f"{client}.sh {pause}" in texts.replace("'", "") or f'ask("{pause}"' in texts
            assert said == (pause in KNOWN[client].pauses), (client, pause)
        assert not KNOWN[client].pauses or client in SPEAKS


def test_where_a_client_keeps_its_files_is_taken_from_the_callers_environment(tmp_path):
    desk = Desk(tmp_path, {"CODEX_HOME": str(tmp_path / "cx"), "CLAUDE_CONFIG_DIR": str(tmp_path / "cc")})
    desk.install("codex")
    desk.install("claude")
    assert (tmp_path / "cx" / "config.toml").exists()
    assert (tmp_path / "cc" / ".claude.json").exists()
    assert desk.tree() == {}
