"""Who and what: ids (a type prefix and a ULID), aliases, and the one who acts.

May live here: the shape of ids and names. Chance and time come in as arguments.
"""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from tallystick.core.errors import invalid

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_ALIAS = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")

RESERVED_ALIASES: Final = frozenset({"all", "coordinator", "human", "me", "host", "system"})


class Prefix(StrEnum):
    """The type of thing an id names."""

    PERSON = "per"
    AGENT = "agt"
    TASK = "tsk"
    DELIVERY = "dlv"
    SESSION = "ses"
    TRACE = "trc"
    MESSAGE = "msg"
    PERMISSION = "prm"
    WORKSPACE = "wsp"
    ARTIFACT = "art"
    CHECK = "chk"
    REPOSITORY = "rep"
    INTENT = "int"
    TURN = "trn"
    WAKE = "wak"
    WATCH = "wch"
    TOKEN = "tok"  # noqa: S105 - the type of an id


HOST_ID: Final = "host"
"""The actor id of the host itself."""

CAPABILITY_PREFIX: Final = "cap:"
"""A party that is a capability still to be routed is written `cap:Name`."""


_AS_DIGITS: Final = str.maketrans(_CROCKFORD, "0123456789ABCDEFGHIJKLMNOPQRSTUV")
_PAIRS: Final = tuple(first + second for first in _CROCKFORD for second in _CROCKFORD)
LETTERS: Final = 16
"""How many letters of an id are chance."""
_LETTER_OF: Final = bytes(ord(_CROCKFORD[value & 31]) for value in range(256))
_HEADS: Final = {prefix: f"{prefix.value}_" for prefix in Prefix}


def make_id(prefix: Prefix, milliseconds: int, chance: bytes) -> str:
    """An id from a UTC time in milliseconds since 1970 and ten bytes of chance."""
    number = int.from_bytes(chance[:10], "big")
    return spelled(prefix, milliseconds, "".join([_PAIRS[number >> shift & 1023] for shift in range(70, -1, -10)]))


def spelled(prefix: Prefix, milliseconds: int, letters: str) -> str:
    """An id from its time and the letters of its chance: several are made for every request."""
    return f"{_HEADS[prefix]}{_second(milliseconds >> 10)}{_PAIRS[milliseconds & 1023]}{letters}"


def letters_of(chance: bytes) -> str:
    """Random bytes as letters for ids: one for each, five bits of it."""
    return chance.translate(_LETTER_OF).decode()


@lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    """All but the last two letters of a time: they stay the same for about a second."""
    return "".join([_PAIRS[seconds >> shift & 1023] for shift in (30, 20, 10, 0)])


def is_id(text: str, prefix: Prefix | None = None) -> bool:
    """Whether `text` is a whole id, of that type if one is given."""
    kind, _, rest = text.partition("_")
    is_kind = kind == prefix if prefix is not None else kind in Prefix._value2member_map_
    return is_kind and _ULID.fullmatch(rest) is not None


def id_milliseconds(identifier: str) -> int:
    """The UTC time in milliseconds that an id was made at."""
    # Crockford's letters in order are those that Python reads numbers in to the base of 32.
    return int(identifier.partition("_")[2][:10].translate(_AS_DIGITS), 32)


def short(identifier: str) -> str:
    """The form shown to people: the prefix and the last six characters."""
    prefix, mark, rest = identifier.partition("_")
    return f"{prefix}_{rest[-6:].lower()}" if mark and len(rest) > 6 else identifier


def check_alias(alias: str) -> str:
    """The alias itself, or a refusal that states the rule (ASCII only, so no look-alikes)."""
    folded = unicodedata.normalize("NFKC", alias).casefold()
    if alias != folded or _ALIAS.fullmatch(alias) is None:
        raise invalid(
            f"{alias!r} is not a valid name.",
            "Use 1 to 63 characters from a-z, 0-9 and '-', starting with a letter or digit.",
        )
    if alias in RESERVED_ALIASES:
        raise invalid(f"{alias!r} is reserved.", "Choose another name.")
    return alias


class ActorKind(StrEnum):
    """What kind of party acts."""

    PERSON = "person"
    AGENT = "agent"
    HOST = "host"


class Assertion(StrEnum):
    """How the host knows who the actor is, from weakest to strongest."""

    ASSERTED = "asserted"  # said so on the shared control socket (E1)
    TERMINAL = "terminal"  # a person at a terminal of the host's user
    LISTENER = "listener"  # the session's own socket: the listener is the identity
    HOST = "host"  # the host itself


class Actor(msgspec.Struct, frozen=True, gc=False):
    """Who acts (the `actor` of RFC 8693); the subject represented is recorded beside it."""

    id: str
    kind: ActorKind
    session: str = ""
    door: str = "api"
    assertion: Assertion = Assertion.ASSERTED
    uid: int | None = None


HOST: Final = Actor(id=HOST_ID, kind=ActorKind.HOST, door="host", assertion=Assertion.HOST)
"""The host acting by a rule of its own."""
