"""What may be offered, and which version serves which request."""

from __future__ import annotations

import pytest

from tallystick.core.errors import ErrorCode, Refused
from tallystick.core.offers import MOST_OFFERS, Offer, Wanted, check_offers, serves, wanted


@pytest.mark.parametrize(
    ("version", "asked", "does"),
    [
        ("1.0", "", True),
        ("1.2", "1.2", True),
        ("1.10", "1.9", True),
        ("1.2", "1.3", False),
        ("2.0", "1.2", False),
        ("1.0", "2", False),
        ("1", "1.0", True),
        ("1.0", "1", True),
        ("0.3", "0.2", True),
        ("1.2.1", "1.2", True),
    ],
)
def test_a_version_serves_what_it_is_compatible_with(version: str, asked: str, *, does: bool) -> None:
    assert serves(Offer("Count", version), Wanted("Count", asked)) is does


def test_another_name_serves_nothing() -> None:
    assert not serves(Offer("Count"), wanted("Counter"))


WRONG = ["", "@1", "Count@", "Count@x", "Count@1.", "Count@01", "1Count", "Co unt", "Count\n", "C@1@2"]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_capability_is_refused(text: str) -> None:
    with pytest.raises(Refused) as caught:
        wanted(text)
    assert caught.value.code is ErrorCode.INVALID
    assert caught.value.remedy


@pytest.mark.parametrize(
    "offers",
    [
        (Offer("Count@1"),),
        (Offer("Count", "one"),),
        (Offer("Count", "01"),),
        (Offer("Count", domain="Data Team"),),
        (Offer("Count", weight=0),),
        (Offer("Count", weight=1001),),
        (Offer("Count", concurrency=0),),
        (Offer("Count", concurrency=65),),
        (Offer("Count", schema="x" * 70_000),),
        (Offer("Count", "1.0"), Offer("Count", "1")),
        tuple(Offer(f"C{n}") for n in range(MOST_OFFERS + 1)),
    ],
)
def test_an_offer_that_could_not_be_routed_to_is_refused(offers: tuple[Offer, ...]) -> None:
    with pytest.raises(Refused) as caught:
        check_offers(offers)
    assert caught.value.code is ErrorCode.INVALID


def test_one_capability_may_be_offered_in_several_versions_and_domains() -> None:
    check_offers((Offer("Count", "1.0"), Offer("Count", "2.0"), Offer("Count", "1.0", domain="web")))
