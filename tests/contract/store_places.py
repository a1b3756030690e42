"""Places for stores, and ways to damage what stands there."""

from __future__ import annotations

from pathlib import Path

import apsw
import msgspec

from tallystick.store.contract import FullStore
from tallystick.store.memory import MemoryStore
from tallystick.store.sqlite import SqliteStore


class MemoryPlace:
    """A memory store; opening it again makes a new one around the same lists."""

    def __init__(self) -> None:
        self.store: MemoryStore | None = None

    def open(self) -> FullStore:
        before, self.store = self.store, MemoryStore()
        if before is not None:
            self.store.log, self.store._tables, self.store._versions = before.log, before._tables, before._versions
        return self.store

    def damage(self, how: str, position: int) -> None:
        assert self.store is not None
        log = self.store.log
        kept = log[position - 1]
        if how == "remove":
            del log[position - 1]
        elif how == "swap":
            log[position - 1], log[position] = log[position], log[position - 1]
        elif how == "body":
            assert kept.body is not None
            kept.body = kept.body[:-3] + b"?" + kept.body[-2:]
        else:
            change = {"data": kept.sealed.data.replace("work", "werk")} if how == "flip" else {"subject": "per_2"}
            kept.sealed = msgspec.structs.replace(kept.sealed, **change)


DAMAGES = {
    "flip": "UPDATE events SET data = replace(data, 'work', 'werk') WHERE position = :at",
    "field": "UPDATE events SET subject = workspace WHERE position = :at",
    "remove": "DELETE FROM events WHERE position = :at",
    "swap": """UPDATE events SET position = -1 WHERE position = :at;
               UPDATE events SET position = position - 1 WHERE position = :at + 1;
               UPDATE events SET position = :at + 1 WHERE position = -1""",
    "body": "UPDATE events SET body = (SELECT body FROM events WHERE position = :at + 1) WHERE position = :at",
}


class SqlitePlace:
    """A file in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "log.db"

    def open(self) -> FullStore:
        return SqliteStore.open(self.path)

    def damage(self, how: str, position: int) -> None:
        connection = apsw.Connection(str(self.path))
        connection.execute(DAMAGES[how], {"at": position})
        connection.close()
