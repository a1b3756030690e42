"""Ids and names: what they look like, and what is refused."""

from __future__ import annotations

import pytest

from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.identity import RESERVED_ALIASES, Prefix, check_alias, id_milliseconds, is_id, make_id, short


def test_an_id_is_a_prefix_and_a_ulid_that_holds_its_time() -> None:
    made = make_id(Prefix.TASK, 1_800_000_000_123, bytes(range(10)))
    assert made.startswith("tsk_")
    assert len(made) == 4 + 26
    assert is_id(made)
    assert is_id(made, Prefix.TASK)
    assert not is_id(made, Prefix.AGENT)
    assert id_milliseconds(made) == 1_800_000_000_123


def test_ids_sort_by_time() -> None:
    made = [make_id(Prefix.TASK, at, b"\xff" * 10) for at in range(5)]
    assert made == sorted(made)


def test_chance_fills_the_rest_of_an_id() -> None:
    assert make_id(Prefix.TASK, 0, b"\xff" * 10) == "tsk_" + "0" * 10 + "Z" * 16


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tsk",
        "tsk_",
        "xyz_" + "0" * 26,
        "tsk_" + "0" * 25,
        "tsk_" + "0" * 26 + "\n",
        "tsk_" + "8" + "0" * 25,
        "tsk_" + "I" * 26,
        "tsk_" + "o" * 26,
        "tsk_" + "٠" * 26,
    ],
)
def test_what_is_no_id_is_not_taken_for_one(text: str) -> None:
    assert not is_id(text)


def test_the_short_form_is_the_last_six_characters() -> None:
    assert short("tsk_01MCC5RM00000000000ABCDEFG") == "tsk_bcdefg"
    assert short("cap:FileSummarize") == "cap:FileSummarize"
    assert short("host") == "host"


@pytest.mark.parametrize("alias", ["a", "0", "reviewer", "chief-khaliq", "a" * 63, "1-2-3", "a-"])
def test_a_plain_name_is_accepted(alias: str) -> None:
    assert check_alias(alias) == alias


@pytest.mark.parametrize(
    "alias",
    [
        "",
        "-a",
        "Reviewer",
        "revіewer",
        "ﬁx",
        "reviewer\n",
        "a b",
        "team_lead",
        "a" * 64,
        "é",
        "审查员",
        "a.b",
        "a/b",
        "a\u200b",
        "\u202ea",
        "a\x00",
        "a\x1b[0m",
        "ａ",
        "�",
    ],
)
def test_hostile_43_names_that_look_like_others_are_refused_with_the_rule(alias: str) -> None:
    with pytest.raises(Refused) as caught:
        check_alias(alias)
    assert caught.value.code is ErrorCode.INVALID
    assert "a-z" in caught.value.remedy


@pytest.mark.parametrize("alias", sorted(RESERVED_ALIASES))
def test_hostile_44_reserved_names_are_refused(alias: str) -> None:
    with pytest.raises(Refused) as caught:
        check_alias(alias)
    assert caught.value.code is ErrorCode.INVALID
    assert "reserved" in caught.value.message
