"""The pipes between the host and a job that it speaks with."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Final

LINE_BYTES: Final = 64 * 1024 * 1024
"""The longest line of a job: a client may send a whole file in one."""


class Lines:
    """Three pipes: what the job reads, what it writes, and a line on which nothing is ever said. The host holds the
    writing end of that one, so that its keeper sees the host end, however it ends."""

    def __init__(self) -> None:
        read, self._write = os.pipe()
        self._read, write = os.pipe()
        life, self._life = os.pipe()
        self.numbers = {"in": read, "out": write, "life": life}
        """The job's ends, as its keeper gets them."""

    def give_up(self) -> None:
        """The keeper has its ends, or never will: the host keeps its own alone."""
        for number in self.numbers.values():
            with contextlib.suppress(OSError):
                os.close(number)

    async def streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The host's ends as streams, which close them."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LINE_BYTES)
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._take("_read"), "rb", buffering=0)
        )
        transport, protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(self._take("_write"), "wb", buffering=0)
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def _take(self, name: str) -> int:
        number: int = getattr(self, name)
        setattr(self, name, -1)
        return number

    def close(self) -> None:
        """Close what nobody took over; the job's keeper ends it."""
        for name in ("_read", "_write", "_life"):
            number = self._take(name)
            if number >= 0:
                os.close(number)
