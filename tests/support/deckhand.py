"""A spoke for tests: `deckhand.py WISHES-JSON`. What its handler does is counted outside of it, in a file.

Wishes: `spoke_id`, `capability`, `store`, `effects` (the file), `concurrency`, `idempotent`, `workspace`. A payload may
hold `key` (written into the file as a line: the effect), `gate` (a FIFO that the handler reads to its end afterwards),
`fail` (the words of an exception). The answer is the key.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tallystick import Capability, ReachMessage, Spoke

WISHES: dict[str, Any] = json.loads(sys.argv[1])


def effect(message: ReachMessage) -> str:
    """What may happen at most once for each key."""
    given = message.payload
    file = os.open(WISHES["effects"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{given['key']}\n".encode())
    os.close(file)
    if given.get("gate"):
        Path(given["gate"]).read_bytes()
    if given.get("fail"):
        raise RuntimeError(given["fail"])
    return str(given["key"])


async def main() -> None:
    """Serve until killed."""
    name = WISHES.get("capability", "Work")
    about = {key: WISHES[key] for key in ("concurrency", "idempotent", "standing", "domain", "weight") if key in WISHES}
    spoke = Spoke(
        WISHES.get("spoke_id", "deckhand"),
        [Capability(name, **about)],
        {name: effect},
        hub_url=WISHES.get("hub_url"),
        token=WISHES.get("token"),
        store=WISHES["store"],
    )
    await spoke.start()
    os.write(1, b"offers\n")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
