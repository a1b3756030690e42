"""The hub that a good engineer writes in an afternoon: FastAPI and SQLite, to compare with. `python -m bench.naive_hub`
serves FILE at PORT. Durable (WAL, synchronous FULL), a transaction for each step, workers and callers by long poll;
no leases, no retry, no deadlines, no history, no dedup."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from contextlib import suppress
from typing import Annotated, Any

import uvicorn
from fastapi import Body, FastAPI, HTTPException, Response

WAIT_SECONDS = 5.0
"""Of one poll; whoever still wants it asks again."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
  id INTEGER PRIMARY KEY, capability TEXT NOT NULL, payload TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'queued',
  result TEXT);
CREATE INDEX IF NOT EXISTS queued ON requests (capability, id) WHERE state = 'queued';
"""
CLAIM = """
UPDATE requests SET state = 'working'
WHERE id = (SELECT id FROM requests WHERE capability = ? AND state = 'queued' ORDER BY id LIMIT 1)
RETURNING id, payload"""


def application(path: str) -> FastAPI:
    """The four calls. All are made in the event loop: with one writer, threads would only add locks."""
    app = FastAPI()
    base = sqlite3.connect(path, isolation_level=None)
    base.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;" + SCHEMA)
    news, done = asyncio.Condition(), dict[int, asyncio.Event]()

    @app.post("/requests/{capability}")
    async def ask(capability: str, payload: Annotated[Any, Body()]) -> dict[str, int]:
        insert = "INSERT INTO requests (capability, payload) VALUES (?, ?) RETURNING id"
        ((number,),) = base.execute(insert, (capability, json.dumps(payload))).fetchall()
        done[number] = asyncio.Event()
        async with news:
            news.notify()
        return {"id": number}

    @app.get("/work/{capability}")
    async def take(capability: str) -> Any:
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS), news:
                while not (found := base.execute(CLAIM, (capability,)).fetchall()):
                    await news.wait()
            return {"id": found[0][0], "payload": json.loads(found[0][1])}
        return Response(status_code=204)

    @app.post("/results/{number}")
    async def hand_in(number: int, result: Annotated[Any, Body()]) -> None:
        update = "UPDATE requests SET state = 'done', result = ? WHERE id = ?"
        base.execute(update, (json.dumps(result), number))
        done[number].set()

    @app.get("/results/{number}")
    async def outcome(number: int) -> Any:
        if number not in done:
            raise HTTPException(404)
        with suppress(TimeoutError):
            await asyncio.wait_for(done[number].wait(), WAIT_SECONDS)
            ((result,),) = base.execute("SELECT result FROM requests WHERE id = ?", (number,)).fetchall()
            return json.loads(result)
        return Response(status_code=204)

    return app


if __name__ == "__main__":
    uvicorn.run(application(sys.argv[1]), port=int(sys.argv[2]), log_level="error", loop="uvloop", http="httptools")
