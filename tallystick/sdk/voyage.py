"""One message that a client has sent: what the host said of it, until all its parts have an outcome."""

from __future__ import annotations

import asyncio
from typing import Any

from tallystick.sdk.errors import ReachError, from_body
from tallystick.sdk.frames import Frame, Heard
from tallystick.sdk.result import ReachResult
from tallystick.sdk.schema import Schema


class Voyage:
    """Keeps what is relayed of one message. The frame stays, to be sent again on the next link."""

    def __init__(self, frame: Frame, checks: Schema) -> None:
        self.frame = frame
        self.msg_id: str = frame["header"]["msg_id"]
        self.target: str = frame["header"]["target_capability"]
        self.is_to_all = frame["body"].get("to") == "all"
        self.task_id = self.trace_id = self.link = self.promise = ""
        self.duplicate = False
        self.progress = ""
        """The last note of how far it is."""
        self.sent_on = 0
        """The number of the link on which it was sent last."""
        self.sends = 0
        """How often it was sent: what the host knows after the second time may be the first."""
        self.link_told = asyncio.Event()
        self.refusal: ReachError | None = None
        """Why the host does not tell its link; the message itself goes on."""
        self._checks = checks
        self._tasks: tuple[str, ...] = ()
        self._parts: dict[str, ReachResult | ReachError] = {}
        self.acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.outcome: asyncio.Future[ReachResult] = asyncio.get_running_loop().create_future()

    def hear(self, heard: Heard) -> None:
        """A frame about this message."""
        if heard.kind == "ACK":
            self._acknowledge(heard.body)
        elif heard.kind == "PROGRESS":
            self.progress = str(heard.body.get("text", ""))
        elif heard.kind == "BEGIN":
            self.link = "REACHED"
        elif heard.kind == "RESULT":
            self._part(heard.body, self._result(heard.body))
        elif heard.kind == "FAIL" and not self.acknowledged.done() and not heard.body.get("task_id"):
            self.trace_id = heard.header.trace_id  # in which the host has the refusal on record
            self.fail(from_body(heard.body, **self.about))  # `of` is missing where the host could not read so far
        elif heard.kind == "FAIL" and heard.body.get("of") == "SAIL":
            self.refusal = from_body(heard.body, **self.about)
            self.link_told.set()
        elif heard.kind == "FAIL" and not heard.body.get("of"):
            self._part(heard.body, from_body(heard.body, **self.about))

    def fail(self, error: ReachError) -> None:
        """It ends here."""
        for waiting in (self.acknowledged, self.outcome):
            if not waiting.done():
                waiting.set_exception(error)
                waiting.exception()  # who waited may be gone

    @property
    def about(self) -> dict[str, str]:
        """What an error tells of it."""
        return {"msg_id": self.msg_id, "task_id": self.task_id, "trace_id": self.trace_id, "link": self.link}

    def _acknowledge(self, body: dict[str, Any]) -> None:
        if body.get("of") != "SAIL":
            return
        for name in ("task_id", "trace_id", "link", "promise"):
            setattr(self, name, str(body.get(name) or getattr(self, name)))
        if not self.acknowledged.done():  # whatever is answered later is of what this caller sent itself
            own = self.sends > 1 and not self.frame["header"].get("dedup_key")
            self.duplicate = bool(body.get("duplicate", False)) and not own
        self._tasks = tuple(body.get("tasks") or (self.task_id,))
        if not self.acknowledged.done():
            self.acknowledged.set_result(None)
        self.link_told.set()
        self._settle()

    def _result(self, body: dict[str, Any]) -> ReachResult | ReachError:
        try:
            payload = self._checks.check_result(body.get("payload"), f"capability {self.target}")
        except ReachError as error:
            return error
        return ReachResult(
            payload=payload,
            msg_id=self.msg_id,
            task_id=str(body.get("task_id", self.task_id)),
            trace_id=self.trace_id,
            duplicate=self.duplicate,
            spoke=str(body.get("spoke", "")),
        )

    def _part(self, body: dict[str, Any], part: ReachResult | ReachError) -> None:
        self._parts.setdefault(str(body.get("task_id") or self.task_id), part)
        self._settle()

    def _settle(self) -> None:
        if self.outcome.done() or not self.acknowledged.done() or any(task not in self._parts for task in self._tasks):
            return
        parts = tuple(self._parts[task] for task in self._tasks)
        if not self.is_to_all:
            first = parts[0]
            self._end(first)
        elif all(isinstance(part, ReachError) for part in parts):
            self._end(parts[0])
        else:
            self._end(self._whole(parts))

    def _whole(self, parts: tuple[ReachResult | ReachError, ...]) -> ReachResult:
        payloads = [part.payload if isinstance(part, ReachResult) else None for part in parts]
        return ReachResult(payloads, self.msg_id, self.task_id, self.trace_id, self.duplicate, parts=parts)

    def _end(self, part: ReachResult | ReachError) -> None:
        if isinstance(part, ReachError):
            self.fail(part)
        else:
            self.outcome.set_result(part)
