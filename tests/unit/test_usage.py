"""What clients report of tokens and money, row by row of the table, in the shapes that the pinned versions send."""

from __future__ import annotations

import pytest

from tallystick.core.model import Budget, Spent
from tallystick.edge.acp import DRIVEN, driven
from tallystick.edge.acp.usage import REPORTS, Meter, Money, Reports, Sums, Tokens, at_start, unkept, words

START = Sums(0, 0)


def answer(total):
    return {"stopReason": "end_turn", "usage": {"totalTokens": total, "inputTokens": total - 1, "outputTokens": 1}}


def money(dollars, **meta):
    update = {"sessionUpdate": "usage_update", "used": 7, "size": 9, "cost": {"amount": dollars, "currency": "USD"}}
    return {**update, "_meta": meta} if meta else update


def turn(name, before, updates, answered):
    """(what it used, the sums afterwards)"""
    meter = Meter(REPORTS[name], before)
    for update in updates:
        meter.take(update)
    return meter.spent(1.0, answered), meter.sums


def spent(tokens=0, micros=0, *unknown):
    return Spent(tokens=tokens, micros=micros, seconds=1.0, unknown=unknown)


def test_every_client_of_the_registry_has_its_row_and_any_other_reports_nothing() -> None:
    assert {name: client.reports for name, client in DRIVEN.items()} == REPORTS
    assert driven("/opt/codex --acp").reports == Reports(Tokens.NONE, Money.NONE)


def test_codex_reports_the_tokens_of_the_turn_and_no_cost() -> None:
    update = {"sessionUpdate": "usage_update", "used": 11062, "size": 258400}
    used, _ = turn("codex", START, [update], answer(22019))
    assert used == spent(22019, 0, "cost")
    again, _ = turn("codex", Sums(None, None), [update], answer(11140))
    assert again == spent(11140, 0, "cost")


def test_claude_reports_the_tokens_of_the_turn_and_the_cost_since_its_process_began() -> None:
    first, sums = turn("claude", START, [{"sessionUpdate": "usage_update", "used": 1}, money(0.129657)], answer(42743))
    assert first == spent(42743, 129_657)
    second, sums = turn("claude", sums, [money(0.19411499999999998)], answer(21482))
    assert second == spent(21482, 64_458)
    restarted = at_start(REPORTS["claude"], sums, fresh=False, told={})
    third, _ = turn("claude", restarted, [money(0.264683)], answer(21553))  # more than before it was restarted
    assert third == spent(21553, 264_683)


def test_opencode_reports_the_tokens_of_the_last_call_and_the_cost_of_the_conversation() -> None:
    first, sums = turn("opencode", START, [money(0.014836)], answer(7438))
    assert first == spent(7438, 14_836, "tokens")
    restarted = at_start(REPORTS["opencode"], sums, fresh=False, told={})
    second, _ = turn("opencode", restarted, [money(0.022302000000000002)], answer(7465))
    assert second == spent(7465, 7_466, "tokens")


def test_a_sum_whose_beginning_this_host_did_not_see_is_unknown_once() -> None:
    unseen = at_start(REPORTS["opencode"], Sums(), fresh=False, told={})
    first, sums = turn("opencode", unseen, [money(0.5)], answer(10))
    assert first == spent(10, 0, "tokens", "cost")
    second, _ = turn("opencode", sums, [money(0.6)], answer(10))
    assert second == spent(10, 100_000, "tokens")


def test_gemini_reports_the_tokens_of_the_turn_beside_the_answer() -> None:
    quota = {"token_count": {"input_tokens": 24855, "output_tokens": 13}, "model_usage": []}
    used, _ = turn("gemini", START, [], {"stopReason": "end_turn", "_meta": {"quota": quota}})
    assert used == spent(24868, 0, "cost")


def test_pi_reports_neither() -> None:
    used, _ = turn(
        "pi", START, [{"sessionUpdate": "usage_update", "used": 1448, "size": 1}], {"stopReason": "end_turn"}
    )
    assert used == spent(0, 0, "tokens", "cost")


def test_qwen_reports_the_tokens_of_each_call_with_an_update() -> None:
    calls = [
        {"sessionUpdate": "agent_message_chunk", "_meta": {"usage": {"inputTokens": 20931, "totalTokens": 20943}}},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "one"}},
        {"sessionUpdate": "agent_message_chunk", "_meta": {"usage": {"inputTokens": 21033, "totalTokens": 21034}}},
    ]
    used, _ = turn("qwen", START, calls, {"stopReason": "end_turn"})
    assert used == spent(41977, 0, "cost")


PARTLY = ("tokens", "cost")
"""It leaves calls out: what it tells is the least that was used."""


def test_vibe_reports_both_for_the_conversation_and_tells_them_again_when_it_is_loaded() -> None:
    first, sums = turn("vibe", START, [money(0.008638, totalTokens=8633), money(0.017359, totalTokens=17353)], None)
    assert first == spent(17353, 17_359, *PARTLY)  # also before its answer
    second, sums = turn("vibe", sums, [money(0.02611, totalTokens=26103)], answer(26103))
    assert second == spent(8750, 8_751, *PARTLY)
    for known in (sums, Sums()):
        loaded = at_start(REPORTS["vibe"], known, fresh=False, told=money(0.02611, totalTokens=26103))
        third, _ = turn("vibe", loaded, [money(0.034893, totalTokens=34884)], answer(34884))
        assert third == spent(8781, 8_783, *PARTLY)


@pytest.mark.parametrize("name", REPORTS)
def test_a_turn_of_which_nothing_was_reported_used_an_unknown_amount(name) -> None:
    assert turn(name, START, [], None)[0] == spent(0, 0, "tokens", "cost")
    assert turn(name, START, [], {"stopReason": "cancelled"})[0] == spent(0, 0, "tokens", "cost")


NO_DOLLARS = (
    *(None, 5, "1.0", {}, {"amount": "1"}, {"amount": True}, {"amount": -1}, {"amount": 1e12}),
    *({"amount": float("nan")}, {"amount": 1.0, "currency": "EUR"}),
)


@pytest.mark.parametrize("cost", NO_DOLLARS, ids=repr)
def test_a_cost_that_is_no_sum_of_dollars_is_unknown(cost) -> None:
    used, sums = turn("claude", START, [{"sessionUpdate": "usage_update", "cost": cost}], answer(5))
    assert used == spent(5, 0, "cost")
    assert sums == START


@pytest.mark.parametrize("total", [None, -1, "7", 1.5, True, {}], ids=repr)
@pytest.mark.parametrize("name", ["codex", "gemini", "vibe", "qwen"])
def test_tokens_that_are_no_number_are_unknown(name, total) -> None:
    answered = {"usage": {"totalTokens": total}, "_meta": {"quota": {"token_count": total}}}
    used, _ = turn(name, START, [{"sessionUpdate": "x", "_meta": {"usage": {"totalTokens": total}}}], answered)
    assert used.tokens == 0
    assert "tokens" in used.unknown


def test_a_bound_that_a_client_does_not_report_is_said_not_to_be_kept() -> None:
    both = Budget(tokens=1, cents=1, seconds=1)
    assert {name: unkept(REPORTS[name], both) for name in REPORTS} == {
        "codex": "it reports no cost",
        "claude": "",
        "opencode": "it reports the tokens of the last call of a turn alone",
        "gemini": "it reports no cost",
        "pi": "it reports no tokens, it reports no cost",
        "qwen": "it reports no cost",
        "vibe": "it leaves out calls that run a program",
    }
    assert unkept(Reports(), Budget(seconds=1)) == ""


def test_what_was_used_is_said_with_what_is_unknown() -> None:
    assert words(Spent(tokens=5, micros=17_359)) == "5 tokens, 1.74 cents"
    assert words(Spent(tokens=5, unknown=("tokens", "cost"))) == "at least 5 tokens, cost unknown"
    assert words(Spent(tokens=5, micros=100, unknown=PARTLY)) == "at least 5 tokens, at least 0.01 cents"
    assert words(Spent(unknown=("tokens", "cost"))) == "tokens unknown, cost unknown"
