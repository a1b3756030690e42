"""Mentions in any text: they stand where they say, in order, in prose, and reach only who is named."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.core.mention import Known, mentions, nearest, prose, resolve

ALIASES = ["chief", "chief-khaliq", "reviewer", "a", "name"]
KNOWN = Known({name: f"party:{name}" for name in ALIASES}, {"审查员": frozenset({"party:reviewer"})})
PIECES = [
    *(f"@{name}" for name in ALIASES),
    "@审查员",
    "@",
    "@nobody",
    "`",
    "``",
    "```",
    "~~~",
    "\n",
    "\n\n",
    "\\",
    " ",
    "请",
]
PIECES += ["https://x.y/", "me", ".", "-", "_", "/", "> ", "    ", "x", "@name with space"]
texts = st.lists(st.sampled_from(PIECES), max_size=16).map("".join)
fixed = settings(max_examples=300)


@fixed
@given(texts)
def test_a_mention_is_where_it_says_and_none_overlaps_another(text: str) -> None:
    end = 0
    for mention in mentions(text, KNOWN.displayed):
        assert text[mention.start : mention.end] == f"@{mention.name}"
        assert mention.start >= end
        assert any(left <= mention.start and mention.end <= right for left, right in prose(text))
        end = mention.end


@fixed
@given(texts)
def test_every_mention_leads_to_one_party_or_is_told(text: str) -> None:
    result = resolve(text, KNOWN)
    assert len(result.found) + len(result.unresolved) == len(mentions(text, KNOWN.displayed))
    for item in result.found:
        assert item.party in (f"party:{item.mention.name}", "party:reviewer", "me")


@fixed
@given(texts, st.integers(1, 6), st.sampled_from("`~"))
def test_nothing_inside_a_fence_is_a_mention(text: str, extra: int, mark: str) -> None:
    fence = mark * (2 + extra + max((len(run) for run in text.split("@")), default=0) + len(text))
    assert mentions(f"{fence}\n{text}\n{fence}\n") == ()
    assert mentions(f"{fence}\n{text}") == ()


@fixed
@given(st.text(alphabet="@a b审-`~\\/.:\n", max_size=40))
def test_any_text_is_parsed(text: str) -> None:
    pieces = prose(text)
    assert pieces == sorted(pieces)
    resolve(text, KNOWN)


@fixed
@given(st.sampled_from(ALIASES), st.text(alphabet="bcd-_0", min_size=1, max_size=5))
def test_a_longer_name_never_reaches_a_shorter_one(alias: str, more: str) -> None:
    parties = [item.party for item in resolve(f"@{alias}{more}", KNOWN).found]
    longer = (alias + more).rstrip("-_")
    assert parties in ([], [f"party:{longer}"])


@fixed
@given(st.sampled_from(ALIASES), st.data())
def test_one_slip_is_still_near(alias: str, data: st.DataObject) -> None:
    if len(alias) < 5:
        return
    at = data.draw(st.integers(0, len(alias) - 1))
    slip = data.draw(st.sampled_from([alias[:at] + alias[at + 1 :], alias[:at] + "z" + alias[at:]]))
    assert alias in nearest(slip, ALIASES)
