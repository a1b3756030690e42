"""Names in text, and addresses."""

from __future__ import annotations

import pytest

from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.mention import (
    Address,
    Capability,
    Coordinator,
    Human,
    Known,
    Me,
    OneSession,
    Role,
    Room,
    mentions,
    nearest,
    parse_address,
    resolve,
)

KNOWN = Known(
    {"chief": "C", "chief-khaliq": "K", "reviewer": "R", "team-lead": "T", "name": "N"},
    {
        "审查员": frozenset({"R"}),
        "两个": frozenset({"R", "C"}),
        "Name With Space": frozenset({"S"}),
        "name with space": frozenset({"S"}),
        "chief of all": frozenset({"C"}),
    },
)


def found(text: str) -> list[str]:
    return [item.party for item in resolve(text, KNOWN).found]


def unresolved(text: str) -> list[str]:
    return [item.name for item in resolve(text, KNOWN).unresolved]


@pytest.mark.parametrize(
    ("text", "parties"),
    [
        ("@chief-khaliq have a look", ["K"]),
        ("@chief have a look", ["C"]),
        ("@reviewer请看", ["R"]),
        ("请@reviewer看一下", ["R"]),
        ("请@审查员看一下", ["R"]),
        ("@审查员", ["R"]),
        ("(@reviewer) @chief, @reviewer. @chief! @reviewer's", ["R", "C", "R", "C", "R"]),
        ("-@reviewer", ["R"]),
        ("**@reviewer**", ["R"]),
        ("@reviewer-", ["R"]),
        ("@Name With Space", ["S"]),
        ("@chief of all", ["C"]),
        ("\\\\@reviewer", ["R"]),
        ("\\`@reviewer`", ["R"]),
        ("`a\n\n@reviewer`", ["R"]),
        ("``` not a fence ``` @reviewer", ["R"]),
        ("    ```\n@reviewer", ["R"]),
        ("```\n~~~\n```\n@reviewer", ["R"]),
        ("~~~\n@chief\n~~~~~\n@reviewer", ["R"]),
        ("> ```\n> @chief\n@reviewer", ["R"]),
        ("see https://example.org/ @reviewer", ["R"]),
        ("https://example.org/a，@reviewer", ["R"]),
        ("@all @human", ["all", "human"]),
    ],
)
def test_a_mention_leads_to_exactly_who_is_named(text: str, parties: list[str]) -> None:
    assert found(text) == parties
    assert not unresolved(text)


@pytest.mark.parametrize(
    "text",
    [
        "`@reviewer`",
        "``a ` @reviewer``",
        "`` ` @reviewer ` ``",
        "`a\n@reviewer`",
        "```\n@reviewer\n```",
        "```python\n@reviewer\n",
        "~~~\n@reviewer\n```\n@chief",
        "   ~~~\n@reviewer\n   ~~~",
        "````\n```\n@reviewer\n````",
        "> ~~~\n> @reviewer\n> ~~~",
        "```\r\n@reviewer\r\n```",
        "https://example.org/@reviewer",
        "HTTP://u:p@reviewer/x",
        "www.example.org/@reviewer",
        "mailto:a@reviewer",
        "me@reviewer.org",
        "me.x-@reviewer",
        "é@reviewer",
        "<me@reviewer>",
        "\\@reviewer",
        "\\\\\\@reviewer",
        "@reviewer@example.org",
        "@@reviewer",
        "@",
        "@ reviewer",
        "",
    ],
)
def test_code_fences_urls_mail_and_escapes_mention_nobody(text: str) -> None:
    assert resolve(text, KNOWN) == resolve("", KNOWN)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@nobody and @team_lead", ["nobody", "team_lead"]),
        ("@Reviewer", ["Reviewer"]),
        ("@chief.khaliq @chief_khaliq @chief/khaliq", ["chief.khaliq", "chief_khaliq", "chief/khaliq"]),
        ("@chiefs", ["chiefs"]),
        ("@两个", ["两个"]),
        ("@未知", ["未知"]),
        ("@name with space", ["name with space"]),
        ("@nobody/ses_ABCD", ["nobody/ses_ABCD"]),
        ("@reviewer/ses_A", ["reviewer/ses_A"]),
    ],
)
def test_what_leads_to_nobody_or_to_several_is_told_to_the_sender(text: str, names: list[str]) -> None:
    assert unresolved(text) == names
    assert not found(text)


def test_a_mention_of_one_session_keeps_it() -> None:
    item = resolve("@reviewer/ses_ABCD12 look", KNOWN).found[0]
    assert (item.party, item.session) == ("R", "ses_ABCD12")


def test_a_word_of_a_million_letters_is_read_in_one_go() -> None:
    """A pattern that tries each letter anew needs hours for it, and the host stands still meanwhile."""
    assert mentions("b" * 1_000_000 + " @a http" + "+" * 100_000 + "://@b")[0].name == "a"


def test_a_mention_tells_where_it_stands() -> None:
    text = "请@审查员看, @chief-khaliq"
    names = [(m.name, text[m.start : m.end]) for m in mentions(text, KNOWN.displayed)]
    assert names == [("审查员", "@审查员"), ("chief-khaliq", "@chief-khaliq")]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("@reviewer", Role("reviewer")),
        ("@team_lead", Role("team_lead")),
        ("@审查员", Role("审查员")),
        ("@reviewer/ses_abcd", OneSession("reviewer", "ses_abcd")),
        ("@coordinator", Coordinator()),
        ("@human", Human()),
        ("@me", Me()),
        ("#design-1", Room("design-1")),
        ("cap:FileSummarize", Capability("FileSummarize")),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@",
        "reviewer",
        "@all",
        "@host",
        "@system",
        "@me/ses_abcd",
        "@a b",
        "@a\n",
        "@a/",
        "@a/b",
        "@a/ses_",
        "#",
        "#A",
        "cap:",
        "cap:a b",
        "cap:a\n",
        "@" + "a" * 65,
        "@a\x00",
        "@a\u202e",
        "@/ses_abcd",
        "@a/ses_abcd/ses_abcd",
        "@@a",
    ],
)
def test_what_is_no_address_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_address(text)
    assert caught.value.code is ErrorCode.INVALID
    assert "cap:Name" in caught.value.remedy


def test_reported_5_a_misspelt_name_brings_the_nearest_valid_ones() -> None:
    names = ["team-lead", "engineer", "reviewer", "chief", "chief-khaliq"]
    assert nearest("team_lead", names) == ("team-lead",)
    assert nearest("enginer", names) == ("engineer",)
    assert nearest("@Reviewer", names) == ("reviewer",)
    assert nearest("reveiwer", names) == ("reviewer",)
    assert nearest("zzzzzz", names) == ()


def test_at_most_so_many_near_names_are_brought_nearest_first() -> None:
    names = ["worker-1", "worker-2", "worker-3", "worker-44"]
    assert nearest("worker-1", names, 2) == ("worker-1", "worker-2")
    assert nearest("worker", names)[:1] == ("worker-1",)
    assert len(nearest("worker", names)) == 3
