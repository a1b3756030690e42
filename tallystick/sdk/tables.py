"""The tables of a spoke's store, and the rule of once over them. Runs in the thread of the store.

An *effect* is what a handler does for one key of one caller; a *delivery* is one attempt of the host to have it done.
Several deliveries may ask for the same effect; it is had once, and each is told what came of it.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any, Literal, TypeAlias

import msgspec

SCHEMA_VERSION = 1

SCHEMA = (
    "CREATE TABLE spoke (id TEXT NOT NULL)",
    """CREATE TABLE effects (
        capability TEXT NOT NULL,
        key TEXT NOT NULL,
        digest TEXT NOT NULL,
        task TEXT NOT NULL,
        state TEXT NOT NULL,
        outcome BLOB,
        settled INTEGER,
        PRIMARY KEY (capability, key)
    ) WITHOUT ROWID""",
    """CREATE TABLE deliveries (
        delivery TEXT NOT NULL PRIMARY KEY,
        capability TEXT NOT NULL,
        key TEXT NOT NULL,
        fence INTEGER NOT NULL,
        message TEXT NOT NULL,
        open INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX deliveries_open ON deliveries (open) WHERE open = 1",
    "CREATE INDEX deliveries_effect ON deliveries (capability, key)",
    "CREATE INDEX effects_settled ON effects (settled) WHERE settled IS NOT NULL",
)

HOT = 200
"""How many results stay after the host has acknowledged them; older ones are pruned, the host keeps them all."""

State: TypeAlias = Literal["begun", "done", "failed", "dropped"]
"""`begun`: no outcome yet · `done`, `failed`: the handler ended · `dropped`: the host settled it without this spoke."""


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a handler: its payload or, with a `code`, why there is none."""

    payload: Any = None
    code: str = ""
    message: str = ""
    began: bool = True
    """Whether the handler had been started."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery and the effect that it asks for."""

    delivery: str
    fence: int
    message: str
    """The id of the reach message."""
    capability: str
    key: str
    """Names the effect among those of its capability: caller, dedup key and workspace, or the message where it has
    no key."""
    digest: str
    """Of the body."""
    task: str
    revision: int = 0
    """How many results of the task the host has: what was done before counts no more as what is asked for."""
    is_idempotent: bool = False


class Verdict(msgspec.Struct, frozen=True):
    """What is to be done about a delivery."""

    say: Literal["run", "again", "conflict", "doubt"]
    """`run` the handler · tell the stored outcome `again` · another body under this key: `conflict` · `doubt`: it was
    begun, and nobody knows what came of it."""
    outcome: Outcome | None = None


class Held(msgspec.Struct, frozen=True):
    """A delivery of which the host has not acknowledged an outcome yet."""

    delivery: str
    fence: int
    state: State
    message: str
    outcome: Outcome | None


class Tables:
    """What may be done to a store. Every method is part of a transaction that the store commits."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def begin(self, ask: Ask) -> Verdict:
        """Note that this delivery begins, or say why its handler must not run."""
        effect = self._effect(ask)
        verdict = Verdict("run") if effect is None else self._judge(ask, *effect)
        if verdict.say == "run":
            self._db.execute(
                "INSERT OR REPLACE INTO effects (capability, key, digest, task, state) VALUES (?, ?, ?, ?, 'begun')",
                (ask.capability, ask.key, _stored(ask), ask.task),
            )
        if verdict.say in ("run", "again"):
            self._note(ask)
        return verdict

    def join(self, ask: Ask) -> Verdict:
        """Another delivery asks for an effect that is under way in this process."""
        effect = self._effect(ask)
        if effect is not None and not _is_same_body(ask, effect[0]):
            return Verdict("conflict")
        self._note(ask)
        return Verdict("again")

    def _judge(
        self, ask: Ask, digest: str, task: str, state: State, outcome: Outcome | None, settled: int | None
    ) -> Verdict:
        """There was something under this key before. A new attempt of the same task, told by its higher fence, is the
        host's decision: it makes one only where none began, where a person or a compensation asks for it again, or
        where the capability is idempotent, and it was told at the last ANCHOR what is begun here. What ended is told
        again until the host is known to have it."""
        if state == "dropped":
            return Verdict("run")
        if not _is_same_body(ask, digest):
            return Verdict("conflict")
        is_new_attempt = task == ask.task and ask.fence > self._highest_fence(ask)
        if state == "begun":
            return Verdict("run" if is_new_attempt or ask.is_idempotent else "doubt")
        is_told = settled is not None or _revision(digest) < ask.revision
        if is_new_attempt and (is_told or state == "failed"):
            return Verdict("run")
        return Verdict("again", outcome)

    def _effect(self, ask: Ask) -> tuple[str, str, State, Outcome | None, int | None] | None:
        row = self._db.execute(
            "SELECT digest, task, state, outcome, settled FROM effects WHERE capability = ? AND key = ?",
            (ask.capability, ask.key),
        ).fetchone()
        return row and (row[0], row[1], row[2], _outcome(row[3]), row[4])

    def _highest_fence(self, ask: Ask) -> int:
        found = self._db.execute(
            "SELECT max(fence) FROM deliveries WHERE capability = ? AND key = ?", (ask.capability, ask.key)
        ).fetchone()
        return int(found[0] or 0)

    def _note(self, ask: Ask) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO deliveries (delivery, capability, key, fence, message, open)"
            " VALUES (?, ?, ?, ?, ?, 1)",
            (ask.delivery, ask.capability, ask.key, ask.fence, ask.message),
        )

    def forget(self, delivery: str) -> None:
        """The host did not take the BEGIN: nothing ran for it."""
        effect = self._effect_of(delivery)
        self._db.execute("DELETE FROM deliveries WHERE delivery = ?", (delivery,))
        if effect is None:
            return
        self._db.execute(
            "DELETE FROM effects WHERE capability = ?1 AND key = ?2 AND state = 'begun'"
            " AND NOT EXISTS (SELECT 1 FROM deliveries WHERE capability = ?1 AND key = ?2)",
            effect,
        )

    def finish(self, ask: Ask, outcome: Outcome) -> None:
        """The handler ended."""
        state = "failed" if outcome.code else "done"
        self._db.execute(
            "UPDATE effects SET state = ?, outcome = ? WHERE capability = ? AND key = ?",
            (state, msgspec.json.encode(outcome), ask.capability, ask.key),
        )

    def settle(self, delivery: str) -> None:
        """The host has the outcome, or wants it no more."""
        self._close(delivery, "")

    def drop(self, delivery: str) -> None:
        """The host says that this delivery is no longer ours. What was begun under it is settled there."""
        self._close(delivery, "begun")

    def _close(self, delivery: str, dropped: str) -> None:
        effect = self._effect_of(delivery)
        self._db.execute("UPDATE deliveries SET open = 0 WHERE delivery = ?", (delivery,))
        if effect is None:
            return
        self._db.execute(
            "UPDATE effects SET settled = ?, state = CASE state WHEN ? THEN 'dropped' ELSE state END"
            " WHERE capability = ? AND key = ?",
            (time.time_ns(), dropped, *effect),
        )
        self._prune()

    def _prune(self) -> None:
        """All but the newest `HOT` of those that the host has acknowledged, with their deliveries."""
        old = self._db.execute(
            "SELECT capability, key FROM effects WHERE settled IS NOT NULL ORDER BY settled DESC LIMIT -1 OFFSET ?",
            (HOT,),
        ).fetchall()
        for effect in old:
            for table in ("deliveries", "effects"):
                self._db.execute(f"DELETE FROM {table} WHERE capability = ? AND key = ?", effect)  # noqa: S608

    def held(self) -> list[Held]:
        """What the host may not know yet, in the order of the deliveries' ids."""
        rows = self._db.execute(
            "SELECT delivery, fence, state, message, outcome FROM deliveries JOIN effects USING (capability, key)"
            " WHERE open = 1 ORDER BY delivery"
        )
        return [Held(row[0], row[1], row[2], row[3], _outcome(row[4])) for row in rows]

    def known(self, delivery: str) -> Held | None:
        """What is kept of one delivery."""
        row = self._db.execute(
            "SELECT delivery, fence, state, message, outcome FROM deliveries JOIN effects USING (capability, key)"
            " WHERE delivery = ?",
            (delivery,),
        ).fetchone()
        return row and Held(row[0], row[1], row[2], row[3], _outcome(row[4]))

    def _effect_of(self, delivery: str) -> tuple[str, str] | None:
        found: tuple[str, str] | None = self._db.execute(
            "SELECT capability, key FROM deliveries WHERE delivery = ?", (delivery,)
        ).fetchone()
        return found


def _stored(ask: Ask) -> str:
    """What the store compares: the digest of the body and, where it is asked for anew, for which revision."""
    return f"{ask.digest}+{ask.revision}" if ask.revision else ask.digest


def _is_same_body(ask: Ask, stored: str) -> bool:
    return stored.partition("+")[0] == ask.digest


def _revision(stored: str) -> int:
    return int(stored.partition("+")[2] or 0)


def _outcome(stored: bytes | None) -> Outcome | None:
    return None if stored is None else msgspec.json.decode(stored, type=Outcome)
