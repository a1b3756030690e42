"""Text of others on a terminal: nothing moves the cursor, hides, reorders, or passes for a line of ours."""

from __future__ import annotations

import sys
import unicodedata
from datetime import UTC, datetime

import pytest

from tallystick.app.calls import CallerFacts, Terminal
from tallystick.edge.cli.escape import escape, escape_lines
from tallystick.edge.cli.page import Page, Paint, Sheet, age, page_for
from tallystick.edge.cli.width import chunks, clip, pad, width

NOW = datetime(2026, 11, 30, 14, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("解析器 naïve ✓ 🎉", "解析器 naïve ✓ 🎉"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x1b]52;c;AAAA\x07", r"\x1b]52;c;AAAA\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("safe\rfake", r"safe\rfake"),
        ("two\nlines\tand", r"two\nlines\tand"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u200bb\u2066", r"a\u200bb\u2066"),
        ("a\u2028b\u2029", r"a\u2028b\u2029"),
        ("\ud800", r"\ud800"),
        ("\ue000", r"\ue000"),
        ("\U000e0041", r"\U000e0041"),
        ("\u3164", r"\u3164"),
        ("\x00", r"\x00"),
    ],
)
def test_what_could_do_harm_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_no_character_of_category_c_survives() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    left = {unicodedata.category(character) for character in escape(everything)}
    assert not left & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def test_escaped_text_stays_as_it_is() -> None:
    once = escape("\x1b[31m\u202e\n")
    assert escape(once) == once


def test_a_body_has_lines_only_where_it_has_newlines() -> None:
    assert escape_lines("a\r\nb\nc\u2028d\x0be\x85f\rg") == ["a", "b", r"c\u2028d\x0be\x85f\rg"]
    assert escape_lines("\tx") == ["    x"]


def sheet(columns: int = 0, *, colour: bool = False) -> Sheet:
    return Sheet(Page(now=NOW, columns=columns, colour=colour))


def test_every_line_of_a_body_is_marked_also_where_the_terminal_folds_it() -> None:
    page = sheet(20)
    page.body("x" * 50 + "\ntsk_00f3a9 completed\n\n$ rm\n")
    assert page.lines
    assert all(line.startswith("  │ ") for line in page.lines)
    assert all(width(line) <= 20 for line in page.lines)


def test_a_folded_line_is_set_in_so_that_none_begins_like_ours() -> None:
    page = sheet(30)
    page.field("title", "word " * 20 + "tsk_00f3a9 completed")
    assert len(page.lines) > 1
    assert all(line.startswith("      ") for line in page.lines[1:])
    assert all(width(line) <= 30 for line in page.lines)


def test_everything_on_a_sheet_is_escaped() -> None:
    evil = "a\x1b[2J\u202e\nfake"
    page = sheet(60, colour=True)
    page.line(evil, Paint(evil, "red"))
    page.field(evil, evil)
    page.heading(evil)
    page.command("show", evil)
    page.table((evil, "B"), [(evil, Paint(evil, "bold"))])
    page.body(evil)
    text = page.text()
    for code in ("1", "2", "31", "36", "0"):
        text = text.replace(f"\x1b[{code}m", "")
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not any(line.startswith("fake") for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("解析", 4), ("e\u0301", 1), ("ｆ", 2), ("ﾊ", 1), ("", 0), ("🎉", 2), ("한글", 4), ("각", 2)],
)
def test_width_is_what_a_terminal_shows(text: str, columns: int) -> None:
    assert width(text) == columns
    assert width(pad(text, 8)) == 8


def test_clip_cuts_to_columns_and_never_parts_a_letter_from_its_marks() -> None:
    assert clip("abcdef", 4) == "abc…"
    assert clip("解析器", 4) == "解…"
    assert clip("解析器", 6) == "解析器"
    assert clip("e\u0301e\u0301e\u0301", 2) == "e\u0301…"
    assert clip("abc", 0) == ""


def test_chunks_lose_nothing() -> None:
    for text in ("", "abcdefg", "解a析b器", "e\u0301" * 9):
        assert "".join(chunks(text, 3)) == text
        assert all(width(part) <= 3 for part in chunks(text, 3))
    assert chunks("解", 1) == ["解"]


def test_a_long_body_is_folded_in_one_pass() -> None:
    page = sheet(40)
    page.body("解" * 200_000)
    assert "".join(line.removeprefix("  │ ") for line in page.lines) == "解" * 200_000


def test_columns_of_a_table_line_up_whatever_the_script() -> None:
    page = sheet()
    page.table(("ID", "STATE", "TITLE"), [("a", "待核对", "x"), ("bcd", "e\u0301", "y"), ("", "done", "z")])
    at = [width(line[: line.index(last)]) for line, last in zip(page.lines, ("TITLE", "x", "y", "z"), strict=True)]
    assert len(set(at)) == 1


@pytest.mark.parametrize("columns", [20, 40, 72, 200])
def test_a_table_keeps_within_the_terminal_and_leaves_ids_whole(columns: int) -> None:
    page = sheet(columns)
    page.table(("ID", "STATE", "TITLE"), [("tsk_00f3a9", "待核对 result to be checked", "word " * 40)] * 2)
    assert all(width(line) <= columns for line in page.lines)
    assert all("tsk_00f3a9" in line for line in page.lines[1:])


def test_nothing_is_cut_where_there_is_no_terminal() -> None:
    page = sheet(0)
    page.table(("ID", "TITLE"), [("1", "x" * 500)])
    assert "x" * 500 in page.text()


@pytest.mark.parametrize(
    ("environment", "is_terminal", "coloured"),
    [
        ({"TERM": "xterm"}, True, True),
        ({}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"TERM": "xterm"}, False, False),
    ],
)
def test_colour_only_on_a_terminal_that_wants_it(
    environment: dict[str, str], is_terminal: bool, coloured: bool
) -> None:
    facts = CallerFacts(uid=1, pid=1, environment=environment, terminal=Terminal(stdout=is_terminal))
    assert page_for(facts, NOW, "").colour is coloured


def test_durations_and_times_are_short() -> None:
    assert [age(seconds) for seconds in (0, 42.9, 185, 7300, 400_000, -3)] == ["0s", "42s", "3m", "2h", "4d", "0s"]
    page = Page(now=NOW)
    assert page.when("2026-11-30T14:03:22.123Z") == "14:03:22"
    assert page.when("2026-11-28T14:03:22Z") == "11-28 14:03"
    assert page.when("2025-11-28T14:03:22Z") == "2025-11-28"
    assert page.when("") == ""
