"""The seven facts of a delivery: who may say each, for each kind of connection, and how else it may end. A table."""

from __future__ import annotations

from typing import Final

import msgspec

from tallystick.core.model import Fact


class FactRow(msgspec.Struct, frozen=True):
    """One row of the table of facts: who may say it, for each kind of connection, and where else it may end."""

    fact: Fact
    witness: str
    pull: str
    command: str
    drive: str
    spoke: str
    may_end: tuple[str, ...]


FACTS: Final[tuple[FactRow, ...]] = (
    FactRow(
        Fact.ACCEPTED,
        "host",
        "in the log",
        "in the log",
        "in the log",
        "in the log",
        ("rejected", "expired", "canceled", "failed"),
    ),
    FactRow(
        Fact.PERSISTED,
        "host",
        "in the log",
        "in the log",
        "in the log",
        "in the log",
        ("rejected", "expired", "canceled", "failed"),
    ),
    FactRow(
        Fact.CLAIMED,
        "connection holding the lease",
        "take",
        "slot taken",
        "slot taken; the prompt is written down before it is sent",
        "dispatched to the holder that was chosen",
        ("persisted", "held", "rejected", "expired", "canceled", "failed", "unverified"),
    ),
    FactRow(
        Fact.ADMITTED,
        "the recipient's policy code",
        "membership rule",
        "join record",
        "inbound policy",
        "domain rule: that of its offer",
        ("rejected", "expired", "canceled", "failed", "unverified"),
    ),
    FactRow(
        Fact.RECORDED,
        "connection, by proof in the session's own history; else inferred",
        "body acknowledged after the reader's own flush, or its next call: inferred",
        "keeper ready with the brief: inferred",
        "the client's own id of the prompt; else the first update of its turn: inferred",
        "BEGIN, stored by the spoke and recorded before its handler runs",
        ("rejected", "expired", "canceled", "failed", "unverified"),
    ),
    FactRow(
        Fact.WORKING,
        "the recipient, by a call bound to session and fence; else auto",
        "take",
        "keeper told to begin: auto",
        "take, at the session's own socket; a turn that ended without one: auto",
        "BEGIN: auto",
        ("failed", "canceled", "unverified"),
    ),
    FactRow(
        Fact.SUBMITTED,
        "the recipient, with references that resolve",
        "submit",
        "exit collected by the host",
        "submit, at the session's own socket",
        "RESULT, stored by the spoke until it is acknowledged",
        (),
    ),
    FactRow(
        Fact.UNVERIFIED,
        "host",
        "-",
        "lost sight of it",
        "its client is gone, and its history does not tell",
        "its connection is gone after BEGIN",
        ("submitted", "failed", "persisted"),
    ),
)
"""Who may say what. Docs and tests read this table."""
