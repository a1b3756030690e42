"""A row of the table: what was measured, against what, the target, and the verdict."""

from __future__ import annotations

from statistics import median
from typing import Any

import msgspec


class Row(msgspec.Struct):
    """One line. `values` holds one number per round; ratios are taken inside the round."""

    name: str
    what: str
    target: float
    at_least: bool
    """Whether more is better."""
    values: list[float]
    unit: str = "×"
    note: str = ""

    @property
    def measured(self) -> float:
        """The median of the rounds."""
        return median(self.values)

    @property
    def verdict(self) -> str:
        """met, between (half of the target and the target), or below half."""
        share = self.measured / self.target if self.at_least else self.target / max(self.measured, 1e-12)
        return "met" if share >= 1 else "between" if share >= 0.5 else "below half"

    def line(self) -> str:
        """As it is printed."""
        sign = "≥" if self.at_least else "≤"
        spread = f"[{_short(min(self.values))}–{_short(max(self.values))}]" if len(self.values) > 1 else ""
        measured = f"{_short(self.measured)} {self.unit} {spread}".strip()
        target = f"{sign} {_short(self.target)} {self.unit}"
        return f"{self.name:<24} {self.what:<72} {target:<19} {measured:<28} {self.verdict}"

    def told(self) -> dict[str, Any]:
        """As it stands in the file."""
        return {**msgspec.to_builtins(self), "measured": self.measured, "verdict": self.verdict}


class Skip(Exception):
    """A group cannot be measured here; the text says how to make it possible."""


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def at(values: list[float], share: float) -> float:
    """A quantile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
