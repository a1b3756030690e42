"""Whether a concurrent history could have happened one at a time (Wing and Gong, with a memo of visited states)."""

from __future__ import annotations

from typing import NamedTuple

ALWAYS = (0, 2**63)


class Op(NamedTuple):
    """One call on one task: what was asked by which session, how it went, and between which moments."""

    kind: str
    """take, release or lapse."""
    session: str
    won: bool
    fence: int = 0
    begun: int = ALWAYS[0]
    ended: int = ALWAYS[1]


State = tuple[str, int]
"""Who holds it, and the newest fence."""


def after(state: State, op: Op) -> State | None:
    """The state after an operation with that outcome; None where this outcome cannot be."""
    holder, fence = state
    if op.kind == "take":
        if op.won:
            return (op.session, op.fence) if not holder and op.fence == fence + 1 else None
        return state if holder else None
    if op.kind == "release":
        if op.won:
            return ("", fence) if holder == op.session else None
        return state if holder != op.session else None
    return ("", fence) if holder else None


def linearisable(history: list[Op], start: State = ("", 0)) -> bool:
    """Whether there is an order that respects real time and in which every outcome is right."""
    ops = tuple(history)
    seen: set[tuple[int, State]] = set()
    stack: list[tuple[int, State]] = [((1 << len(ops)) - 1, start)]
    while stack:
        left, state = stack.pop()
        # A lapse nobody waited for need not have been seen by anybody: only calls have to be placed.
        if not any(left >> i & 1 and op.kind != "lapse" for i, op in enumerate(ops)):
            return True
        if (left, state) in seen:
            continue
        seen.add((left, state))
        first = min(op.ended for i, op in enumerate(ops) if left >> i & 1)
        for i, op in enumerate(ops):
            if left >> i & 1 and op.begun <= first and (then := after(state, op)) is not None:
                stack.append((left & ~(1 << i), then))
    return False
