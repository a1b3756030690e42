"""What an agent offers: capabilities with version and domain, and what may be asked of them.

`Name` means any version, `Name@1.2` each version from 1.2 up to, not including, 2. May live here: offers, their
spelling, which version serves which request. Who is chosen among several holders stands in `core.route`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from tallystick.core.errors import invalid
from tallystick.core.model import Value

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,62}")
_VERSION: Final = re.compile(r"(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){0,3}")
_DOMAIN: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
HEAVIEST: Final = 1000
MOST_AT_ONCE: Final = 64
MOST_OFFERS: Final = 64
SCHEMA_BYTES: Final = 64 * 1024


class Offer(Value, frozen=True):
    """One capability of one agent."""

    name: str
    version: str = "1.0"
    domain: str = ""
    """Only callers registered for it see the offer; empty: everybody in the workspace does."""
    weight: int = 1
    """Its share among holders of the same capability, 1 to 1000."""
    concurrency: int = 1
    """How many messages it works at together, 1 to 64."""
    idempotent: bool = False
    """A message that was begun and has no outcome may be given to another holder."""
    schema: str = ""
    """JSON schema of what it takes; empty: anything."""
    result_schema: str = ""
    standing: bool = False
    """It is meant to come back: messages wait for it while it is away."""


class Wanted(Value, frozen=True):
    """A capability as it is asked for."""

    name: str
    version: str = ""
    """The lowest version that serves; empty: any."""


@lru_cache(maxsize=1024)
def wanted(spec: str) -> Wanted:
    """`Name` or `Name@1.2`, parsed. Refused as `invalid` where it is neither."""
    name, mark, version = spec.partition("@")
    if _NAME.fullmatch(name) is None or (mark and _VERSION.fullmatch(version) is None):
        raise invalid(f"{spec[:80]!r} is no capability.", "Write Name, or Name@1.2 for versions from 1.2 up to 2.")
    return Wanted(name, version)


def serves(offer: Offer, asked: Wanted) -> bool:
    """Whether an offer is of that capability, in a version that is compatible with the one asked for."""
    if offer.name != asked.name:
        return False
    if not asked.version:
        return True
    have, need = _numbers(offer.version), _numbers(asked.version)
    return have[0] == need[0] and have >= need


def _numbers(version: str) -> tuple[int, ...]:
    found = [int(part) for part in version.split(".")]
    while len(found) > 1 and not found[-1]:
        found.pop()  # 1.0 is 1
    return tuple(found)


def check_offers(offers: tuple[Offer, ...]) -> None:
    """Refuse what could not be routed to."""
    if len(offers) > MOST_OFFERS:
        raise invalid(f"There are {len(offers)} capabilities; the limit is {MOST_OFFERS}.", "Offer fewer.")
    for offer in offers:
        _check(offer)
    keys = [(offer.name, _numbers(offer.version), offer.domain) for offer in offers]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise invalid(f"The capability {twice[0]!r} is offered twice in one version.", "Offer each once.")


def _check(offer: Offer) -> None:
    wanted(offer.name)
    if "@" in offer.name or _VERSION.fullmatch(offer.version) is None:
        raise invalid(f"{offer.version[:40]!r} is no version of {offer.name[:64]!r}.", "Write it like 1.0.")
    if offer.domain:
        check_domain(offer.domain)
    if not 1 <= offer.weight <= HEAVIEST:
        raise invalid(f"The weight of {offer.name!r} must be between 1 and {HEAVIEST}.", "Give a number in that range.")
    if not 1 <= offer.concurrency <= MOST_AT_ONCE:
        raise invalid(
            f"The concurrency of {offer.name!r} must be between 1 and {MOST_AT_ONCE}.", "Give a number in that range."
        )
    for schema in (offer.schema, offer.result_schema):
        if len(schema) > SCHEMA_BYTES:
            raise invalid(f"A schema of {offer.name!r} is longer than {SCHEMA_BYTES} bytes.", "Shorten it.")


def check_domain(domain: str) -> str:
    """The domain, or a refusal of what can be none."""
    if _DOMAIN.fullmatch(domain) is None:
        raise invalid(f"{domain[:64]!r} is no domain.", "Use 1 to 63 characters from a-z, 0-9, '.', '_' and '-'.")
    return domain
