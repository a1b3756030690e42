"""Faults that were put into the rules on purpose are noticed. The whole list: `python -m tests.mutants`."""

from __future__ import annotations

import pytest

from tests.mutants import MUTANTS, Mutant, try_mutant

QUICK = [mutant for mutant in MUTANTS if not mutant.slow][::2]
"""Half of them, so that the whole test stays well below a minute."""


def test_there_are_enough_of_them_and_each_is_another_one() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 12


@pytest.mark.parametrize("mutant", QUICK, ids=lambda m: m.name.replace(" ", "-"))
def test_a_seeded_fault_is_killed_by_its_test(mutant: Mutant) -> None:
    verdict = try_mutant(mutant)
    assert verdict.killed, verdict.detail
