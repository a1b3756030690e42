"""Settings are read once and frozen; a wrong one is refused with key, allowed values and file."""

from pathlib import Path

import pytest

from tallystick import wire
from tallystick.app.home import HomeGuard, file_system
from tallystick.config import load
from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.limits import Limits
from tallystick.edge.api.errors import ERRORS, render


def write(home, text):
    (home / "config.toml").write_text(text, "utf-8")
    return home


def test_without_a_file_all_settings_are_the_defaults(tmp_path):
    settings = load(tmp_path)
    assert settings.home == tmp_path
    assert settings.limits == Limits()
    assert settings.person_verbs == "terminal"
    assert settings.listen == ""


def test_what_is_set_is_taken_and_the_rest_stays(tmp_path):
    text = 'person_verbs = "uid"\nlisten = "127.0.0.1:8765"\n[limits]\ndepth = 5\nretry_seconds = [1, 2.5]\n'
    settings = load(write(tmp_path, text))
    assert settings.person_verbs == "uid"
    assert settings.listen == "127.0.0.1:8765"
    assert settings.limits.depth == 5
    assert settings.limits.retry_seconds == (1.0, 2.5)
    assert settings.limits.rounds == Limits().rounds
    with pytest.raises(AttributeError):
        settings.listen = "x"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("colour = 1", ["colour", "person_verbs", "limits"]),
        ("[limits]\ndephts = 3", ["limits.dephts", "depth"]),
        ("[limits]\ndepth = true", ["limits.depth", "int"]),
        ('[limits]\ndepth = "3"', ["limits.depth", "int"]),
        ("[limits]\ndepth = -1", ["limits.depth", ">= 0"]),
        ("[limits]\nheartbeat_seconds = nan", ["limits.heartbeat_seconds"]),
        ("limits = 3", ["limits", "table"]),
        ('person_verbs = "never"', ["person_verbs", "terminal, page, uid"]),
        ("person_verbs = 1", ["person_verbs", "terminal, page, uid"]),
        ("person_verbs = []", ["person_verbs", "terminal, page, uid"]),
        ("listen = 8765", ["listen", "127.0.0.1:8765"]),
        ('listen = "localhost"', ["listen"]),
        ('listen = "a:70000"', ["listen"]),
        ("x = ", ["no TOML"]),
    ],
)
def test_a_wrong_setting_is_refused_with_key_allowed_values_and_file(tmp_path, text, told):
    with pytest.raises(Refused) as caught:
        load(write(tmp_path, text))
    assert caught.value.code is ErrorCode.INVALID
    for word in [*told, str(tmp_path / "config.toml")]:
        assert word in str(caught.value)


def test_a_file_that_is_no_utf_8_or_no_file_is_refused(tmp_path):
    (tmp_path / "config.toml").write_bytes(b'listen = "\xff"')
    with pytest.raises(Refused):
        load(tmp_path)
    (tmp_path / "config.toml").unlink()
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(Refused):
        load(tmp_path)


def test_the_home_comes_from_the_environment_or_the_platform(monkeypatch):
    monkeypatch.setenv("TALLY_HOME", "/a/../b")
    assert wire.home() == "/b"
    monkeypatch.delenv("TALLY_HOME")
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", "/x")
    assert wire.home() == "/x/tallystick"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert wire.home() == "/h/.local/share/tallystick"
    monkeypatch.setattr("sys.platform", "darwin")
    assert wire.home() == "/h/Library/Application Support/tallystick"


MOUNTS = r"""22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:40 / /mnt/share rw - nfs4 server:/x rw
31 22 0:41 / /mnt/with\040space rw shared:1 - cifs //s/x rw
32 30 8:2 / /mnt/share/local rw - xfs /dev/sdb rw
33 22 0:42 / /over rw - ext4 /dev/sdc rw
34 33 0:43 / /over rw - 9p x rw
35 22 0:44 / /fuse rw - fuse.sshfs x rw"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/.local", "ext4"),
        ("/mnt/share/home", "nfs4"),
        ("/mnt/shared", "ext4"),
        ("/mnt/with space/home", "cifs"),
        ("/mnt/share/local/home", "xfs"),
        ("/over/home", "9p"),
        ("/fuse/home", "fuse.sshfs"),
    ],
)
def test_the_file_system_of_a_home_is_the_innermost_mount_h65(path, kind):
    assert file_system(Path(path), MOUNTS) == kind


def test_a_home_on_a_network_file_system_is_refused_h65(tmp_path):
    for kind in ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"):
        guard = HomeGuard(tmp_path / "home", mounts=f"1 0 0:1 / / rw - {kind} x rw")
        with pytest.raises(Refused, match=kind):
            guard.prepare()
    assert not (tmp_path / "home").exists()


def test_every_error_code_has_a_shape_at_this_door():
    assert set(ERRORS) == set(ErrorCode)
    for code in ErrorCode:
        assert render(Refused(code, "m\udc80", "r")) == {"code": code.value, "message": "m\\udc80", "remedy": "r"}
