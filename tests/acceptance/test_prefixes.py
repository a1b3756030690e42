"""Which directories a registered command needs, on the layouts that people have."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tallystick.edge.process import prefixes


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home" / "me"
    home.mkdir(parents=True)
    return home


def program(path: Path, text: str = "\x7fELF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def environment(path: Path, python: Path) -> Path:
    """A virtual environment as venv makes it: a link to the interpreter, and where that is in pyvenv.cfg."""
    (path / "bin").mkdir(parents=True)
    (path / "bin" / "python").symlink_to(python)
    (path / "pyvenv.cfg").write_text(f"home = {python.parent}\nversion = 3.12\n")
    return path


def needed(home: Path, argv0: str, search_path: str = "", virtual_env: str = "") -> set[str]:
    return set(prefixes(argv0, search_path, virtual_env, str(home)))


def test_an_environment_brings_the_prefix_its_interpreter_comes_from(home: Path, tmp_path: Path) -> None:
    python = program(home / ".pyenv/versions/3.12/bin/python3.12")
    venv = environment(tmp_path / "work" / ".venv", python)
    program(venv / "bin" / "pytest", f"#!{venv}/bin/python\n")
    expected = {str(venv), str(home / ".pyenv/versions/3.12")}
    assert needed(home, "pytest", "", str(venv)) == expected
    assert needed(home, str(venv / "bin" / "pytest")) == expected
    assert needed(home, str(venv / "bin" / "python")) == expected
    assert needed(home, "pytest", str(venv / "bin")) == expected | {str(venv / "bin")}


def test_an_entry_of_the_path_that_cannot_be_looked_at_is_left_out(home: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    program(tools / "pytest")
    entries = f"{tmp_path}/{'x' * 300}:{tools}:/nonexistent:{tools}/pytest/below"
    assert needed(home, "pytest", entries) == {str(tools)}


def test_a_shim_brings_the_whole_version_switcher(home: Path) -> None:
    program(home / ".pyenv/shims/pytest", "#!/usr/bin/env bash\n")
    assert needed(home, "pytest", f"{home}/.pyenv/shims:/usr/bin") == {str(home / ".pyenv")}


def test_a_tool_linked_into_the_home_brings_its_own_environment_and_not_the_rest_of_the_home(home: Path) -> None:
    python = program(home / ".local/share/uv/python/cpython-3.12/bin/python3.12")
    tool = environment(home / ".local/share/uv/tools/ruff", python)
    program(tool / "bin" / "ruff", f"#!{tool}/bin/python\n")
    (home / ".local/bin").mkdir()
    (home / ".local/bin/ruff").symlink_to(tool / "bin" / "ruff")
    assert needed(home, "ruff", str(home / ".local/bin")) == {
        str(home / ".local/bin"),
        str(tool),
        str(home / ".local/share/uv/python/cpython-3.12"),
    }


def test_every_name_on_a_chain_of_links_is_there(home: Path) -> None:
    python = program(home / "opt/python/bin/python3.12")
    (home / ".local/bin").mkdir(parents=True)
    (home / ".local/bin/python3").symlink_to(python)
    venv = environment(home / "work/.venv", home / ".local/bin/python3")
    found = needed(home, str(venv / "bin" / "python"))
    assert {str(venv), str(home / ".local/bin"), str(home / "opt/python")} <= found


@pytest.mark.parametrize("argv0", ["tool", "missing"])
def test_the_home_and_what_holds_it_are_never_bound(home: Path, argv0: str) -> None:
    program(home / "bin" / "tool")
    search_path = ":".join([str(home), str(home.parent), "/", str(home / "bin"), str(home / "bin/.."), "relative", ""])
    assert needed(home, argv0, search_path, str(home)) == {str(home / "bin")}


def test_a_link_to_the_home_is_the_home(home: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(home)
    assert needed(home, "tool", str(tmp_path / "alias")) == set()


def test_what_does_not_exist_or_shows_anyway_is_left_out(home: Path) -> None:
    assert needed(home, "sh", f"/usr/bin:/bin:{home}/gone") == set()


def test_links_in_a_circle_end(home: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/a").symlink_to(tmp_path / "bin/b")
    (tmp_path / "bin/b").symlink_to(tmp_path / "bin/a")
    assert needed(home, "a", str(tmp_path / "bin")) == {str(tmp_path / "bin")}


def test_this_interpreter_is_covered(home: Path) -> None:
    visible = {*needed(home, sys.executable), "/usr", "/opt"}
    assert any(Path(sys.base_prefix).is_relative_to(path) for path in visible)
