"""What each client's reports of tokens and money mean, and how they are brought to one measure. One row a client.

Never guessed: what a client does not report is named as unknown, and what it reports of a part counts as that part.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from tallystick.core.model import Budget, Spent, Value

_MICROS: Final = 1_000_000
_MOST: Final = 1e9
"""Dollars beyond which a report is none."""


class Tokens(StrEnum):
    """Where a client reports tokens, and of what."""

    TURN = "turn"
    """`usage` of an answered prompt: the sum over the turn."""
    LAST_CALL = "last_call"
    """`usage` of an answered prompt: its last model call alone. What came before it in the turn is unknown."""
    CONVERSATION = "conversation"
    """`usage` of an answered prompt, and `_meta.totalTokens` of `usage_update`: the sum over the conversation."""
    META_QUOTA = "meta_quota"
    """`_meta.quota.token_count` of an answered prompt: the sum over the turn."""
    META_UPDATE = "meta_update"
    """`_meta.usage` of updates: one model call each."""
    NONE = "none"


class Money(StrEnum):
    """Where a client reports money. It is always by the client's own table of prices."""

    CONVERSATION = "conversation"
    """`cost` of `usage_update`: US dollars, the sum over the conversation, which its client remembers."""
    PROCESS = "process"
    """The same, since the client's process began."""
    NONE = "none"


class Reports(Value, frozen=True):
    """What one client reports."""

    tokens: Tokens = Tokens.NONE
    money: Money = Money.NONE
    partial: bool = False
    """It leaves out model calls that run a program, as those of our tools do: both are lower bounds."""


REPORTS: Final[dict[str, Reports]] = {
    "codex": Reports(Tokens.TURN),
    "claude": Reports(Tokens.TURN, Money.PROCESS),
    "opencode": Reports(Tokens.LAST_CALL, Money.CONVERSATION),
    "gemini": Reports(Tokens.META_QUOTA),
    "pi": Reports(),
    "qwen": Reports(Tokens.META_UPDATE),
    "vibe": Reports(Tokens.CONVERSATION, Money.CONVERSATION, partial=True),
}
"""By client, as measured with the versions of the registry. Any other client: nothing is taken for granted.
Calls that a client makes besides (a title, a suggestion) are in nobody's count of tokens."""


class Sums(Value, frozen=True):
    """What a session's client has reported in sums by now. None: not known, so that nothing comes of a later one."""

    tokens: int | None = None
    micros: int | None = None


def at_start(reports: Reports, known: Sums, *, fresh: bool, told: dict[str, Any]) -> Sums:
    """The sums when a client's process has begun. `fresh`: so has the conversation; `told`: the newest `usage_update`
    of one that was loaded."""
    if fresh:
        return Sums(0, 0)
    sums = _summed(known, told)
    return Sums(sums.tokens, 0 if reports.money is Money.PROCESS else sums.micros)


def _summed(sums: Sums, update: dict[str, Any]) -> Sums:
    """With what an update says."""
    cost = update.get("cost")
    amount = cost.get("amount") if isinstance(cost, dict) and cost.get("currency", "USD") == "USD" else None
    micros = sums.micros
    if isinstance(amount, int | float) and not isinstance(amount, bool) and 0 <= amount < _MOST:
        micros = round(float(amount) * _MICROS)
    return Sums(_number(_within(update, "_meta"), "totalTokens") or sums.tokens, micros)


class Meter:
    """What one turn used. `before`: the sums when it began."""

    def __init__(self, reports: Reports, before: Sums) -> None:
        self._reports = reports
        self._before = before
        self._calls = 0
        self._cost_told = False
        self.sums = before
        """By now, for the next turn."""

    def take(self, update: dict[str, Any]) -> None:
        """One update of the turn."""
        if update.get("sessionUpdate") == "usage_update":
            self._cost_told = self._cost_told or _summed(Sums(), update).micros is not None
            self.sums = _summed(self.sums, update)
        if self._reports.tokens is Tokens.META_UPDATE:
            self._calls += _number(_within(update, "_meta", "usage"), "totalTokens")

    def spent(self, seconds: float, answer: dict[str, Any] | None = None) -> Spent:
        """What the turn used so far, or, with the answer to its prompt, in all."""
        tokens, tokens_known = self._tokens(answer or {})
        micros, cost_known = self._money()
        whole = not self._reports.partial
        unknown = (() if tokens_known and whole else ("tokens",)) + (() if cost_known and whole else ("cost",))
        return Spent(tokens=tokens, micros=micros, seconds=round(seconds, 3), unknown=unknown)

    def _money(self) -> tuple[int, bool]:
        if self._reports.money is Money.NONE or not self._cost_told:
            return 0, False
        return _since(self.sums.micros, self._before.micros)

    def _tokens(self, answer: dict[str, Any]) -> tuple[int, bool]:
        kind = self._reports.tokens
        if kind is Tokens.META_UPDATE:
            return self._calls, bool(self._calls)
        total = _quota(answer) if kind is Tokens.META_QUOTA else _number(answer.get("usage"), "totalTokens")
        if kind is Tokens.CONVERSATION:
            self.sums = Sums(total or self.sums.tokens, self.sums.micros)
            tokens, known = _since(self.sums.tokens, self._before.tokens)
            return tokens, known and tokens > 0
        if kind is Tokens.NONE or not total:
            return 0, False
        return total, kind is not Tokens.LAST_CALL


def unkept(reports: Reports, budget: Budget) -> str:
    """Which bounds of a budget cannot be kept with what a client reports, in words; empty if all can."""
    found = []
    if budget.tokens and reports.tokens is Tokens.NONE:
        found.append("it reports no tokens")
    if budget.tokens and reports.tokens is Tokens.LAST_CALL:
        found.append("it reports the tokens of the last call of a turn alone")
    if budget.cents and reports.money is Money.NONE:
        found.append("it reports no cost")
    if (budget.tokens or budget.cents) and reports.partial:
        found.append("it leaves out calls that run a program")
    return ", ".join(found)


def words(spent: Spent) -> str:
    """For a person: what is unknown is said to be."""
    tokens = _amount(f"{spent.tokens} tokens", bool(spent.tokens), "tokens", spent.unknown)
    return f"{tokens}, {_amount(f'{spent.micros / 10_000:.2f} cents', bool(spent.micros), 'cost', spent.unknown)}"


def _amount(text: str, some: bool, name: str, unknown: tuple[str, ...]) -> str:
    if name not in unknown:
        return text
    return f"at least {text}" if some else f"{name} unknown"


def _since(now: int | None, before: int | None) -> tuple[int, bool]:
    """What came to a sum, and whether that is known; one that is smaller than before was begun anew."""
    if now is None or before is None:
        return 0, False
    return (now - before if now >= before else now), True


def _quota(answer: dict[str, Any]) -> int:
    count = _within(answer, "_meta", "quota", "token_count")
    if isinstance(count, dict):
        return sum(_number(count, name) for name in ("input_tokens", "output_tokens"))
    return _number({"count": count}, "count")


def _within(values: Any, *path: str) -> Any:
    for name in path:
        values = values.get(name) if isinstance(values, dict) else None
    return values


def _number(values: Any, *names: str) -> int:
    for name in names:
        found = values.get(name) if isinstance(values, dict) else None
        if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
            return found
    return 0
