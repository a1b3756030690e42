"""The runner of the examples compares strictly enough to find a difference, and loosely enough to be of use."""

from __future__ import annotations

import pytest

from tools.console import alike, blocks


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (["tsk_7f3a9c taken"], ["tsk_x52y96 taken"]),
        (["at 19:50:15 in 0.3s"], ["at 07:01:59 in 12.0s"]),
        (["commit c66d3ab23d94"], ["commit 0123456789ab"]),
        (["a   b"], ["a b"]),
        (["first", "…", "last"], ["first", "second", "third", "last"]),
        (["…"], []),
        (["host … done"], ["host ran it, done"]),
    ],
)
def test_what_always_varies_may_differ(shown: list[str], printed: list[str]) -> None:
    assert alike(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (["taken"], ["refused"]),
        (["one"], ["one", "two"]),
        (["one", "two"], ["one"]),
        (["first", "…", "last"], ["first", "second"]),
        (["state done (completed/verified)"], ["state done (completed/unreviewed)"]),
    ],
)
def test_a_real_difference_is_found(shown: list[str], printed: list[str]) -> None:
    assert not alike(shown, printed)


def test_commands_continue_and_say_how_they_end() -> None:
    ((first, second),) = blocks("```console\n$ cat <<E\n> text\n> E\ntext\n$ false  # exits 1\n```\n")
    assert (first.command, first.code, first.expected) == ("cat <<E\ntext\nE", 0, ["text"])
    assert (second.command, second.code) == ("false", 1)
