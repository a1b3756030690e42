"""Who a call is taken for that comes out of a coding client: the agent bound to it, one session for each execution."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.hosts import RUN_TALLY, Home


@pytest.fixture
def home():
    with Home() as home:
        home.tally("join", "pen", "--client", "claude", "--json")
        yield home


def inside(home: Home, client: str, *commands: tuple[str, ...]) -> list[dict]:
    """What `tally … --json` says from a shell that is called like a client's process."""
    shell = home.place / "bin" / client
    shell.parent.mkdir(exist_ok=True)
    shutil.copy(Path("/bin/sh").resolve(), shell)
    script = home.place / "tally.py"
    script.write_text(RUN_TALLY)
    lines = [f"{sys.executable} {script} {' '.join(words)} --json" for words in commands]
    code, out, err = home.run(str(shell), "-c", "\n".join([*lines, "true"]))
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def test_calls_out_of_one_execution_are_one_session_and_of_another_another(home: Home) -> None:
    first, again = inside(home, "claude", ("whoami",), ("whoami",))
    (other,) = inside(home, "claude", ("whoami",))
    assert first["name"] == "@pen"
    assert first["session"] == again["session"] != ""
    assert other["name"] == "@pen"
    assert other["session"] != first["session"]


def test_an_agent_that_is_named_outside_of_its_client_has_its_standing_session(home: Home) -> None:
    (inner,) = inside(home, "claude", ("whoami",))
    code, out, err = home.tally("whoami", "--as", "pen", "--json")
    assert code == 0, err
    assert json.loads(out)["session"] != inner["session"]


def test_a_client_that_nobody_bound_only_reads(home: Home) -> None:
    (shown,) = inside(home, "codex", ("whoami",))
    assert shown["read_only"] is True


@pytest.mark.parametrize("client", ["cluade", "codx", "Gemini"])
def test_a_client_that_is_nearly_a_known_one_is_a_slip(home: Home, client: str) -> None:
    code, out, err = home.tally("join", "quill", "--client", client)
    assert (code, out) == (2, "")
    assert "Did you mean" in err


def test_any_other_client_may_be_named(home: Home) -> None:
    code, _, err = home.tally("join", "quill", "--client", "some-editor")
    assert code == 0, err


@pytest.mark.parametrize("option", ["--run", "--wake"])
def test_what_only_a_shell_understands_is_refused_before_it_does_something_else(home: Home, option: str) -> None:
    (home.path / "config.toml").write_text('person_verbs = "uid"\n')
    home.tally("down")
    code, _, err = home.tally("join", "quill", option, "echo x >> file")
    assert code == 2
    assert "sh -c 'echo x >> file'" in err
    assert home.tally("join", "quill", option, "sh -c 'echo x >> file'")[0] == 0
