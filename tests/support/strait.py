"""A strait: the one passage between a process and the host's socket. Each frame of REACH-RPC is seen as it passes, and
a test has something happen at exactly one of them."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

Seen = tuple[str, str]
"""`("to host" | "from host", "BEGIN")`: which way a frame went, and its kind; of an ACK also what it acknowledges."""

TO_HOST, FROM_HOST = "to host", "from host"


class Strait:
    """Listens at a socket of its own and carries every line on to the host's. `with Strait(…) as strait`.

    `at(way, kind, act)` has `act()` called once, when the next such frame stands before the passage: it was sent, and
    nobody has received it. Then it is carried on, if there is still somebody at the other side.
    """

    def __init__(self, path: str, host: str) -> None:
        self.path, self.host = path, host
        self.seen: list[Seen] = []
        self.lock = threading.Lock()
        self.traps: list[tuple[Seen, Callable[[], object]]] = []
        self.cuts: set[int] = set()
        """All connections break after so many frames in all."""
        self.lines: set[socket.socket] = set()
        self.threads: list[threading.Thread] = []
        self.server = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> Self:
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        self.server.bind(self.path)
        self.server.listen(64)
        self._run(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self.cut()
        for thread in self.threads:
            thread.join(10)

    def at(self, way: str, kind: str, act: Callable[[], object]) -> None:
        """Have this called when the next such frame stands before the passage."""
        with self.lock:
            self.traps.append(((way, kind), act))

    def cut(self) -> None:
        """Break every connection that is there now."""
        with self.lock:
            lines, self.lines = self.lines, set()
        for line in lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def _run(self, work: Callable[..., None], *words: object) -> None:
        thread = threading.Thread(target=work, args=words, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(self.host)
            except OSError:  # no host there at this moment
                near.close()
                far.close()
                continue
            with self.lock:
                self.lines |= {near, far}
            self._run(self._both, near, far)

    def _both(self, near: socket.socket, far: socket.socket) -> None:
        back = threading.Thread(target=self._carry, args=(far, near, FROM_HOST), daemon=True)
        back.start()
        self._carry(near, far, TO_HOST)
        back.join()
        with self.lock:
            self.lines -= {near, far}
        near.close()
        far.close()

    def _carry(self, source: socket.socket, to: socket.socket, way: str) -> None:
        with suppress(OSError), source.makefile("rb") as lines:
            for line in lines:
                self._look(line, way)
                to.sendall(line)
        for side in (source, to):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def _look(self, line: bytes, way: str) -> None:
        frame = json.loads(line).get("frame")
        if frame is None:
            return
        kind = frame["header"]["msg_type"]
        seen = (way, f"ACK of {frame['body'].get('of')}" if kind == "ACK" else kind)
        with self.lock:
            self.seen.append(seen)
            cut = len(self.seen) in self.cuts
            act = next((act for trap, act in self.traps if trap == seen), None)
            self.traps = [trap for trap in self.traps if trap[1] is not act]
        if act is not None:
            act()
        if cut:
            self.cut()
