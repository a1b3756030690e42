"""The diagnostics file: one line per record, private, bounded, whole after a torn one, and never in the way."""

import json
import os
import stat

import pytest

from tallystick.app.desk.upkeep import _is_wide
from tallystick.app.diagnostics import Diagnostics


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log" / "host.jsonl"


def records(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_record_is_one_line_whatever_it_holds_h42(path):
    diagnostics = Diagnostics(path, now=lambda: 5.0)
    diagnostics.record("odd", text='a\nb\r\u2028{"kind":"forged"}\x1b[31m', number=3, thing=object(), lone="\udc80")
    diagnostics.close()
    (line,) = path.read_bytes().split(b"\n")[:-1]
    record = json.loads(line)
    assert record["at"] == 5.0
    assert record["text"].startswith("a\nb")
    assert record["lone"] == "\\udc80"


def test_files_and_directory_are_private_whatever_the_umask(path):
    before = os.umask(0)
    try:
        diagnostics = Diagnostics(path, size=2048)
        for number in range(100):
            diagnostics.record("filler", text="x" * 100, number=number)
    finally:
        os.umask(before)
        diagnostics.close()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


def test_an_existing_file_that_others_may_read_is_closed_to_them(path):
    path.parent.mkdir()
    path.touch(0o644)
    path.chmod(0o644)
    Diagnostics(path).record("x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("files", [1, 2, 5])
def test_the_files_rotate_and_stay_within_number_and_size(path, files):
    diagnostics = Diagnostics(path, files=files, size=2048)
    for number in range(300):
        diagnostics.record("filler", text="x" * 100, number=number)
    diagnostics.close()
    found = sorted(file.name for file in path.parent.iterdir())
    assert found == ["host.jsonl", *(f"host.jsonl.{n}" for n in range(1, files))]
    assert all(file.stat().st_size <= 2048 for file in path.parent.iterdir())
    kept = [r["number"] for name in reversed(found) for r in records(path.with_name(name))]
    assert kept == list(range(300 - len(kept), 300))


def test_a_torn_last_line_costs_only_itself_c51(path):
    diagnostics = Diagnostics(path)
    diagnostics.record("first")
    diagnostics.record("torn")
    diagnostics.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    later = Diagnostics(path)
    later.record("next")
    later.record("last")
    later.close()
    first, torn, following, last, end = path.read_bytes().split(b"\n")
    assert json.loads(first)["kind"] == "first"
    with pytest.raises(ValueError):
        json.loads(torn)
    assert json.loads(following)["kind"] == "next"
    assert json.loads(last)["kind"] == "last"
    assert end == b""


def test_a_failure_is_kept_under_the_number_that_the_caller_gets(path):
    diagnostics = Diagnostics(path)
    try:
        raise ValueError("detail")
    except ValueError as error:
        references = {diagnostics.failure("op x", error) for _ in range(50)}
    diagnostics.close()
    assert len(references) == 50
    assert {r["reference"] for r in records(path)} == references
    assert all("ValueError: detail" in r["trace"] and r["where"] == "op x" for r in records(path))


def test_nothing_that_goes_wrong_with_it_is_raised(path, tmp_path):
    path.parent.mkdir()
    path.symlink_to(tmp_path / "elsewhere")
    diagnostics = Diagnostics(path)
    diagnostics.record("x")
    assert len(diagnostics.failure("x", ValueError())) == 8
    diagnostics.close()
    assert not (tmp_path / "elsewhere").exists()
    nowhere = Diagnostics(tmp_path / "elsewhere" / "\0" / "x")
    nowhere.record("x", text="y")
    nowhere.close()


def test_a_file_that_is_put_away_while_doctor_looks_at_it_is_open_to_nobody(tmp_path):
    present, gone = tmp_path / "present", tmp_path / "gone"
    present.write_text("")
    present.chmod(0o644)
    assert (_is_wide(present), _is_wide(gone)) == (True, False)
