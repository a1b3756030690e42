"""The barest host that keeps every step on disk, measured in the place of the real one (`python -m bench --bare`): Unix
socket, JSON lines, one writer thread with group commit (WAL, synchronous FULL), an event and a row of a task for each
command. It checks nothing, knows nobody, keeps no history to ask for and delivers nothing: what it reaches is what
Python, the socket and SQLite allow here, and what the real host is slower is the price of what it does.

`python -m bench.bare_host SOCKET FILE` serves.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, cast

import apsw
import msgspec
import uvloop

from tallystick import __version__

Statement = tuple[str, tuple[Any, ...]]
Write = tuple[tuple[Statement, ...], Callable[[], None]]
"""What is to be stored together, and who is to be told once it is."""

SCHEMA = """
PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
CREATE TABLE events (position INTEGER PRIMARY KEY, task INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE tasks (id INTEGER PRIMARY KEY, state TEXT NOT NULL, assignee TEXT NOT NULL);"""
EVENT = "INSERT INTO events (task, kind, body) VALUES (?, ?, ?)"
NEW = "INSERT INTO tasks (id, state, assignee) VALUES (?, 'submitted', ?)"
MOVE = "UPDATE tasks SET state = ? WHERE id = ?"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Bare:
    """The tasks of one run, and the writer; at most one batch is under way, and all that came meanwhile is the next."""

    def __init__(self, path: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._batches: SimpleQueue[list[Write]] = SimpleQueue()
        self._batch: list[Write] = []
        self._is_busy = False
        self._last = 0
        self._waiting: dict[int, Callable[[Any], None]] = {}
        """By task: who is told of its result."""
        Thread(target=self._write, args=(path,), daemon=True).start()

    def do(self, op: str, args: dict[str, Any], answer: Callable[[Any], None]) -> None:
        """One request; `answer` is called once it is durable."""
        body = args.get("body") or args.get("text") or ""
        if op == "ask":
            self._last += 1
            task = self._last
            new = (EVENT, (task, op, body)), (NEW, (task, args["address"]))
            self._store(new, lambda: answer({"task_id": task}))
        elif op == "outcome":
            self._waiting[args["task"]] = answer
        elif op in ("take", "submit"):
            task, state = args["task"], "working" if op == "take" else "completed"
            moved = (EVENT, (task, op, body)), (MOVE, (state, task))
            self._store(moved, lambda: self._moved(task, state, body, answer))
        else:
            answer({})

    def _moved(self, task: int, state: str, body: str, answer: Callable[[Any], None]) -> None:
        answer({"fence": 1, "state": state})
        if state == "completed" and task in self._waiting:
            self._waiting.pop(task)({"state": state, "result": body})

    def _store(self, statements: tuple[Statement, ...], done: Callable[[], None]) -> None:
        self._batch.append((statements, done))
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_soon(self._launch)

    def _launch(self) -> None:
        batch, self._batch = self._batch, []
        self._is_busy = bool(batch)
        if batch:
            self._batches.put(batch)

    def _committed(self, batch: list[Write]) -> None:
        self._launch()
        for _, done in batch:
            done()

    def _write(self, path: str) -> None:
        try:
            base = apsw.Connection(path)
            base.execute(SCHEMA).fetchall()
            while True:
                batch = self._batches.get()
                with base:
                    for statements, _ in batch:
                        for statement, values in statements:
                            base.execute(statement, values)
                self._loop.call_soon_threadsafe(self._committed, batch)
        finally:
            os._exit(1)  # whoever waits for an answer sees the end of the connection


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, bare: Bare) -> None:
        self._bare = bare
        self._left = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        *lines, self._left = (self._left + data).split(b"\n")
        for line in lines:
            message = _decode(line)
            if "hello" in message:
                self._say({"welcome": {"protocol": 1, "host": __version__, "pid": os.getpid()}})
            else:
                self._bare.do(message["op"], message.get("args", {}), self._answer(message["id"]))

    def _answer(self, number: int) -> Callable[[Any], None]:
        return lambda result: self._say({"id": number, "result": result})

    def _say(self, message: dict[str, Any]) -> None:
        self._transport.write(_encode(message) + b"\n")


async def serve(socket: str, path: str) -> None:
    """Serve until the process is ended."""
    bare = Bare(path)
    server = await asyncio.get_running_loop().create_unix_server(lambda: Connection(bare), socket)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(*sys.argv[1:]))
