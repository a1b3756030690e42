"""The bash script in a real bash, with a `tally` that only says what it was asked."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tallystick.edge.cli.completion import SCRIPTS

STUB = r"""
tally() { printf '%s\n' "${@:3}" > "$ASKED"; printf '@reviewer\n@tester\n'; }
COMP_LINE=$1 COMP_POINT=${#1}
_tally
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "asked", "reply"),
    [
        ("tally ask @re", "ask\n@re\n", "reviewer\ntester\n"),
        ("tally ask ", "ask\n\n", "@reviewer\n@tester\n"),
    ],
)
def test_bash_asks_with_whole_words_and_replaces_what_follows_the_at(line, asked, reply, tmp_path) -> None:
    said = tmp_path / "asked"
    argv = ["bash", "--norc", "-c", SCRIPTS["bash"] + STUB, "bash", line]
    done = subprocess.run(argv, capture_output=True, text=True, env={"ASKED": str(said), "PATH": "/usr/bin:/bin"})
    assert done.stderr == ""
    assert done.stdout == reply
    assert said.read_text() == asked
