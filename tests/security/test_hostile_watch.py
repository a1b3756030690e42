"""What is watched may be anything: trees without end, links to themselves, pipes, devices, files as large as a disk."""

from __future__ import annotations

import glob
import os
from pathlib import Path

import pytest

from tallystick.app import matching, watches
from tallystick.app.matching import matches
from tests.support.town import Town


def test_a_pattern_finds_what_a_shell_finds(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "c.txt", ".hidden.log", "x/a.log", "x/y/b.log", "x/.git/c.log", "[odd]/d.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    for pattern in ("*.log", "**/*.log", "x/**", "**", "?.txt", "[ab].log", "*/*.log", ".*.log", "x/y/*", "none*"):
        whole = f"{tmp_path}/{pattern}"
        wanted = {path.rstrip("/") for path in glob.glob(whole, recursive=True) if os.path.isfile(path)}
        assert {path for path in matches(whole) if os.path.isfile(path)} == wanted, pattern


def test_two_links_to_their_own_folder_are_no_endless_tree(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(".")
    (tmp_path / "b").symlink_to(".")
    (tmp_path / "x").write_text("1")
    assert matches(f"{tmp_path}/**/x") == [f"{tmp_path}/x"]


def test_a_folder_that_is_a_link_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text("1")
    (tmp_path / "inside" / "link").symlink_to("../outside")
    assert matches(f"{tmp_path}/inside/**/key") == []
    assert matches(f"{tmp_path}/inside/*/key") == []


def test_a_tree_without_bounds_is_looked_at_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looked.append(path) or scandir(path))
    monkeypatch.setattr(matching, "LOOKED_AT", 50)
    for number in range(100):
        (tmp_path / f"{number:03}" / "sub").mkdir(parents=True)
    assert matches(f"{tmp_path}/**/**/nothing/**/x") == []
    assert len(looked) <= 51
    deep = tmp_path / Path(*["d"] * 300)
    deep.mkdir(parents=True)
    assert len(matches(f"{tmp_path}/d/**")) <= 101


def test_of_many_large_files_no_more_is_read_than_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    monkeypatch.setattr(watches, "_ALL_BYTES", 10)
    monkeypatch.setattr(watches, "_content", lambda path: read.append(path) or "content")
    for number in range(20):
        (tmp_path / f"{number:02}").write_text("12345")
    looker = watches.Watches(*[None] * 6)  # type: ignore[arg-type]
    before = looker._files(f"{tmp_path}/*")
    assert len(read) == 2
    (tmp_path / "15").write_text("123456")
    assert looker._files(f"{tmp_path}/*") != before


def test_what_is_no_plain_file_is_watched_without_being_read_and_the_host_still_stops() -> None:
    with Town() as town:
        name = town.agent("pen")
        os.mkfifo(town.place / "pipe")
        (town.place / "self").symlink_to("self")
        (town.place / "l1").symlink_to(".")
        (town.place / "l2").symlink_to(".")
        for path in ("/dev/zero", str(town.place / "pipe"), str(town.place / "self"), f"{town.place}/**/x", "/**/none"):
            town.says("watch", "add", name, "--file", path)
        for ref in ("--upload-pack=touch x", "-x", "a..b", "@{-1}"):
            town.complains("watch", "add", name, "--ref", ref, "--repo", str(town.repository(town.name())))
        assert len(town.says("watch", "list")["watches"]) == 5
        town.stop()
