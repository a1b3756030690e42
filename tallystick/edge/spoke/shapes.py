"""The host's side of checking shapes: one process beside it (see `judge`), started with the first schema."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

import msgspec

import tallystick
from tallystick.core.errors import invalid, unsupported
from tallystick.edge.spoke.judge import SECONDS, Question, Verdict
from tallystick.edge.spoke.schemas import REMEDY, is_installed

_RUN: Final = "import sys; sys.path.insert(0, sys.argv[1]); from tallystick.edge.spoke.judge import main; main()"
_PATIENCE: Final = 60.0
"""Seconds until a process that says nothing, and uses no processor either, is given up."""
_ANSWER_BYTES: Final = 64 * 1024
SUSPENDED_SECONDS: Final = 30.0
"""How long a schema is not applied again that took too long: so that it does not take the time of others."""
_LATE: Final = f"the schema cannot be applied within {SECONDS:.0f} s"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Verdict).decode


class ShapeJudge:
    """Implements `app.shapes.Shapes`. A service: it ends the process that it started."""

    def __init__(self) -> None:
        self._child: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By schema: one question of each waits for the process at a time, so that no schema holds up the others."""
        self._suspended: dict[str, float] = {}
        """By schema: until when, on the time of the loop."""

    async def start(self) -> None:
        """Nothing to begin: most hosts never see a schema."""

    async def stop(self) -> None:
        """End the process, if there is one."""
        await self._end()

    async def check(self, schemas: tuple[str, ...]) -> None:
        """Refuse what cannot be checked with: `unsupported` without the library, `invalid` for no schema."""
        given = [schema for schema in schemas if schema]
        if given and not is_installed():
            raise unsupported("This host cannot check payloads against a JSON schema.", REMEDY)
        for schema in given:
            verdict = await self._ask(Question(schema))
            if verdict.wrong:
                raise invalid(verdict.wrong, verdict.remedy or "Simplify the schema.")

    async def wrong(self, payload: bytes, schema: str) -> str:
        """See `Shapes`."""
        if not schema:
            return ""
        return (await self._ask(Question(schema, payload.decode()))).wrong

    async def _ask(self, question: Question) -> Verdict:
        """One question at a time, and the schemas by turns; a process that dies of one is not asked it again."""
        turn = self._turns.setdefault(question.schema, asyncio.Lock())
        async with turn, self._turn:
            if self._is_suspended(question.schema):
                return Verdict(_LATE)
            try:
                async with asyncio.timeout(_PATIENCE):
                    child = await self._started()
                    assert child.stdin is not None  # noqa: S101 - both are pipes
                    assert child.stdout is not None  # noqa: S101
                    child.stdin.write(_encode(question) + b"\n")
                    await child.stdin.drain()
                    return _decode(await child.stdout.readuntil())
            except (TimeoutError, OSError, asyncio.IncompleteReadError, msgspec.DecodeError):
                await self._end()
                if not is_installed():
                    return Verdict(f"this host cannot check it: {REMEDY}")
                self._suspended[question.schema] = asyncio.get_running_loop().time() + SUSPENDED_SECONDS
                return Verdict(_LATE)
            except asyncio.CancelledError:
                await self._end()  # its answer would be taken for that of the next question
                raise

    def _is_suspended(self, schema: str) -> bool:
        now = asyncio.get_running_loop().time()
        self._suspended = {known: until for known, until in self._suspended.items() if until > now}
        return schema in self._suspended

    async def _started(self) -> asyncio.subprocess.Process:
        if self._child is None or self._child.returncode is not None:
            self._child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-c", _RUN, str(Path(tallystick.__file__).parent.parent)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=_ANSWER_BYTES,
                start_new_session=True,  # who interrupts the host does not mean it
            )
        return self._child

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
