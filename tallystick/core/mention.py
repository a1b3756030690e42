"""Names in text: `@reviewer` and its like. The one parser, for rendering, routing and notification alike.

Code spans, fences, URLs and mail addresses mention nobody. May live here: pure functions over text and known names.
Block and span rules follow CommonMark 0.31 (4.5 fenced code blocks, 6.1 code spans, 2.4 backslash escapes).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from tallystick.core.errors import invalid
from tallystick.core.identity import CAPABILITY_PREFIX, RESERVED_ALIASES
from tallystick.core.model import Value


class Mention(Value, frozen=True):
    """A name after an `@`: `text[start:end]` is the name with its `@`."""

    name: str
    start: int
    end: int


class Known(Value, frozen=True):
    """Whom names may lead to: party by alias, and parties by display name. Tombstones are not in it."""

    aliases: Mapping[str, str] = {}
    displayed: Mapping[str, frozenset[str]] = {}


class Addressed(Value, frozen=True):
    """A mention that leads to exactly one party. A reserved name leads to itself: the caller knows whom it means."""

    mention: Mention
    party: str
    session: str = ""
    """The part after the `/`: that very session or nothing."""


class Mentions(Value, frozen=True):
    """What the names of a text lead to, in order; `unresolved` is to be told to the sender."""

    found: tuple[Addressed, ...] = ()
    unresolved: tuple[Mention, ...] = ()


# --- what is not prose ------------------------------------------------------------------------------------------

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_QUOTE = re.compile(r"(?: {0,3}>[ \t]?)*")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_RUN = re.compile(r"`+")
_URL = re.compile(r"(?:[a-z][a-z0-9+.-]{0,30}://|www\.|mailto:)[^\s<>\"`\u3000-\u303f\uff00-\uffef]*", re.IGNORECASE)
"""The scheme is bounded, or a long word would cost its length squared."""


def prose(text: str) -> list[tuple[int, int]]:
    """The stretches of a text, as (start, end), that are neither fences, code spans nor URLs."""
    found: list[tuple[int, int]] = []
    for start, end in _paragraphs(text):
        for left, right in _outside_spans(text, start, end):
            found += _outside_urls(text, left, right)
    return found


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Runs of lines that no blank line and no fence interrupts: code spans do not reach across those."""
    begun = -1
    fence = ""
    depth = 0
    for line in _LINE.finditer(text):
        quote = _QUOTE.match(line.group())
        deep = quote.group().count(">") if quote else 0
        words = line.group()[quote.end() if quote else 0 :].rstrip("\r\n")
        if fence and deep < depth:
            fence = ""
        inside = bool(fence)
        opened = None if inside else _FENCE.match(words)
        if inside and _closes(words, fence):
            fence = ""
        elif opened:
            fence, depth = opened.group(1), deep
        if inside or opened or not words.strip():
            if begun >= 0:
                yield begun, line.start()
            begun = -1
        elif begun < 0:
            begun = line.start()
    if begun >= 0:
        yield begun, len(text)


def _closes(words: str, fence: str) -> bool:
    mark = words.strip()
    indent = len(words) - len(words.lstrip(" "))
    return indent <= 3 and len(mark) >= len(fence) and mark == fence[0] * len(mark)


def _outside_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    runs = list(_RUN.finditer(text, start, end))
    by_size: dict[int, list[int]] = {}  # to look for each close from its opener on would cost the runs squared
    for index, run in enumerate(runs):
        by_size.setdefault(len(run.group()), []).append(index)
    at = start
    index = 0
    while index < len(runs):
        first = runs[index].start() + (1 if _escaped(text, runs[index].start()) else 0)
        alike = by_size.get(runs[index].end() - first, [])
        later = bisect_right(alike, index)
        if later == len(alike):
            index += 1
            continue
        close = alike[later]
        yield at, first
        at = runs[close].end()
        index = close + 1
    yield at, end


def _escaped(text: str, at: int) -> bool:
    """Whether an odd number of backslashes stands before it."""
    before = at
    while before and text[before - 1] == "\\":
        before -= 1
    return bool((at - before) % 2)


def _outside_urls(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    at = start
    for url in _URL.finditer(text, start, end):
        if url.start() and text[url.start() - 1].isascii() and text[url.start() - 1].isalnum():
            continue
        yield at, url.start()
        at = url.end()
    yield at, end


# --- names ------------------------------------------------------------------------------------------------------

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|[./](?=_*[A-Za-z0-9]))*")
"""What sticks together: `chief-khaliq`, `team_lead`, `reviewer/ses_…`; it ends before text of another script."""

_FREE = re.compile(r"[\w-]{1,64}")
_LOCAL_PART = re.compile(r"[\w.%+-]*[a-z0-9][\w.%+-]*\Z", re.IGNORECASE | re.ASCII)
_CJK_FROM: Final = "\u2e80"


def mentions(text: str, displayed: Iterable[str] = ()) -> tuple[Mention, ...]:
    """Every name after an `@` in prose, whether or not it leads anywhere.

    `displayed`: display names; the longest one that stands there is taken whole, also with spaces in it.
    """
    if "@" not in text:
        return ()
    longest = sorted((name for name in displayed if name.strip()), key=len, reverse=True)
    found: list[Mention] = []
    for start, end in prose(text):
        at = text.find("@", start, end)
        while at >= 0:
            mention = _mention_at(text, at, end, longest)
            if mention is not None:
                found.append(mention)
            at = text.find("@", mention.end if mention else at + 1, end)
    return tuple(found)


def _mention_at(text: str, at: int, end: int, displayed: list[str]) -> Mention | None:
    if _escaped(text, at) or _in_mail(text, at):
        return None
    token = _NAME.match(text, at + 1, end)
    shown = next((name for name in displayed if _stands(text, at + 1, end, name)), "")
    if token is None and not shown:
        token = _FREE.match(text, at + 1, end)
    stop = max(token.end() if token else 0, at + 1 + len(shown))
    if stop == at + 1 or text[stop : stop + 1] == "@":
        return None
    return Mention(text[at + 1 : stop], at, stop)


def _in_mail(text: str, at: int) -> bool:
    """Whether the `@` belongs to a mail address: something that may be its local part stands before it."""
    before = text[max(0, at - 64) : at]
    last = before[-1:]
    if last == "@" or (last.isalnum() and last < _CJK_FROM):
        return True
    return _LOCAL_PART.search(before) is not None


def _stands(text: str, at: int, end: int, name: str) -> bool:
    """Whether a display name stands there and the word ends with it; CJK has no spaces between words."""
    if at + len(name) > end or not text.startswith(name, at):
        return False
    after = text[at + len(name) : at + len(name) + 1]
    return not (after.isalnum() or after in ("_", "-")) or not after or name[-1] >= _CJK_FROM or after >= _CJK_FROM


def resolve(text: str, known: Known) -> Mentions:
    """Whom a text mentions. Where a longer display name and an alias are two parties, nobody is meant."""
    found: list[Addressed] = []
    unresolved: list[Mention] = []
    for mention in mentions(text, known.displayed):
        addressed = _lead(mention, known)
        if addressed is None:
            unresolved.append(mention)
        else:
            found.append(addressed)
    return Mentions(tuple(found), tuple(unresolved))


def _lead(mention: Mention, known: Known) -> Addressed | None:
    name, _, session = mention.name.partition("/")
    if session and not _SESSION.fullmatch(session):
        return None
    if session or name in known.aliases:
        party = known.aliases.get(name, "")
        return Addressed(mention, party, session) if party else None
    if name in RESERVED_ALIASES:
        return Addressed(mention, name)
    bare = name.rstrip("-_")
    if bare != name and bare in known.aliases:
        shorter = Mention(bare, mention.start, mention.end - len(name) + len(bare))
        return Addressed(shorter, known.aliases[bare])
    return _lead_displayed(mention, known)


def _lead_displayed(mention: Mention, known: Known) -> Addressed | None:
    parties = known.displayed.get(mention.name, frozenset())
    if len(parties) != 1:
        return None
    party = next(iter(parties))
    first = _NAME.match(mention.name)
    alias = known.aliases.get(first.group()) if first else None
    return Addressed(mention, party) if alias in (None, party) else None


# --- addresses --------------------------------------------------------------------------------------------------


class Role(Value, frozen=True, tag="role"):
    """`@reviewer`: a name, still to be looked up; the host may use a live session or start one."""

    name: str


class OneSession(Value, frozen=True, tag="session"):
    """`@reviewer/ses_…`: that very session or nothing. `session` is an id or at least 4 characters of one."""

    name: str
    session: str


class Coordinator(Value, frozen=True, tag="coordinator"):
    """`@coordinator`: whoever routes in this workspace."""


class Human(Value, frozen=True, tag="human"):
    """`@human`: the owner of the host."""


class Me(Value, frozen=True, tag="me"):
    """`@me`: the caller."""


class Room(Value, frozen=True, tag="room"):
    """`#room`."""

    name: str


class Capability(Value, frozen=True, tag="capability"):
    """`cap:Name` or `cap:Name@1.2`: the host chooses among registered holders."""

    name: str


Address = Role | OneSession | Coordinator | Human | Me | Room | Capability

_SESSION = re.compile(r"ses_[0-9A-Za-z]{4,26}")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,62}")
_CAPABILITY = re.compile(rf"{_WORD.pattern}(@[0-9]{{1,9}}(\.[0-9]{{1,9}}){{0,3}})?")
_ROOM = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_FORMS: Final = "Write @name, @name/ses_…, @coordinator, @human, @me, #room or cap:Name."
_FIXED: Final[dict[str, Address]] = {"coordinator": Coordinator(), "human": Human(), "me": Me()}


@lru_cache(maxsize=1024)
def parse_address(text: str) -> Address:
    """Whom an ask is for, still to be looked up; anything else is refused as invalid. The same few are asked for all
    the time, so what they mean is kept."""
    if text.startswith(CAPABILITY_PREFIX):
        name = text.removeprefix(CAPABILITY_PREFIX)
        if _CAPABILITY.fullmatch(name):
            return Capability(name)
    elif text.startswith("#"):
        if _ROOM.fullmatch(text[1:]):
            return Room(text[1:])
    elif text.startswith("@"):
        return _parse_party(text[1:])
    elif text and _is_name(text):
        raise invalid(f"{text!r} is no address.", f"Write @{text} for an agent or person. {_FORMS}")
    raise invalid(f"{text[:80]!r} is no address.", _FORMS)


def _parse_party(name: str) -> Address:
    fixed = _FIXED.get(name)
    if fixed is not None:
        return fixed
    if name in RESERVED_ALIASES:
        raise invalid(f"@{name} is reserved and takes no work.", f"Name one agent or person. {_FORMS}")
    role, slash, session = name.partition("/")
    if not _is_name(role) or (slash and not _SESSION.fullmatch(session)):
        raise invalid(f"{'@' + name[:80]!r} is no address.", _FORMS)
    if slash and role in RESERVED_ALIASES:
        raise invalid(f"@{role} has no sessions.", _FORMS)
    return OneSession(role, session) if slash else Role(role)


def _is_name(text: str) -> bool:
    """Loose: a misspelt name is for the look-up, which knows the nearest ones."""
    return _FREE.fullmatch(text) is not None and text[-1:] != "\n"


# --- nearest names ----------------------------------------------------------------------------------------------


def nearest(name: str, known: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """The known names most like a misspelt one, nearest first; empty when none is near."""
    wanted = _plain(name)
    ranked: list[tuple[int, str]] = []
    for other in set(known):
        plain = _plain(other)
        far = _distance(wanted, plain)
        if len(wanted) >= 2 and plain.startswith(wanted):
            far = min(far, 2)
        if far <= max(1, min(3, len(plain) // 3)):
            ranked.append((far, other))
    return tuple(other for _, other in sorted(ranked)[:limit])


def _plain(name: str) -> str:
    folded = unicodedata.normalize("NFKC", name).casefold().strip().lstrip("@")
    return re.sub(r"[\s_.]+", "-", folded)[:64]


def _distance(a: str, b: str) -> int:
    """Edits from one to the other: insert, delete, replace, or swap two neighbours."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        before, last, row = row, before, [i]
        for j, right in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (left != right))
            if i > 1 and j > 1 and left == b[j - 2] and a[i - 2] == right:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
