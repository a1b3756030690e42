"""A client: a program that reaches for capabilities."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, TypeAlias, overload

from tallystick.sdk.capability import Capability, target_of
from tallystick.sdk.context import ContextSlice, slice_of
from tallystick.sdk.current import IN_HAND
from tallystick.sdk.dialling import dial_for
from tallystick.sdk.errors import ReachError, ReachTimeout, invalid
from tallystick.sdk.frames import Frame, frame
from tallystick.sdk.handlers import Handler
from tallystick.sdk.harbour import Harbour
from tallystick.sdk.ids import new_id
from tallystick.sdk.link import Dial
from tallystick.sdk.payload import plain
from tallystick.sdk.place import anchor_name
from tallystick.sdk.result import ReachHandle, ReachResult
from tallystick.sdk.schema import Schema
from tallystick.sdk.spoke import Spoke
from tallystick.sdk.tracing import sailing, traceparent
from tallystick.sdk.voyage import Voyage

Context: TypeAlias = ContextSlice | Mapping[str, Any] | None

_WORD_SECONDS = 0.2
"""The host ends a message at its deadline and says why: while there is a link, that word may take this long to come."""

_LONGEST_MS = 7 * 86_400_000
_LONGEST_STALL_MS = 2**53 - 1
_KEY_CHARACTERS = 200
"""These three are bounds of the frames. What a person may set is for the host to refuse."""
_ANYTHING = Schema()


class ReachClient:
    """Sends messages to capabilities.

    - `hub_url`, `token`: as for `Spoke`.
    - `sender`: as whom: the alias of an agent. Default: the agent that the environment names (TALLY_AGENT), else the
      person; in a handler the spoke whose message is in hand. It belongs to the name of a dedup key, so a program that
      is started again finds what it sent before.
    - `workspace`, `link`: as for `Spoke`.

    One client serves a whole program; it connects when it is first used. `await client.close()`, or `async with`, ends
    its connection; messages on their way are not affected.
    """

    def __init__(
        self,
        hub_url: str | None = None,
        token: str | None = None,
        sender: str | None = None,
        *,
        workspace: str = "",
        link: Dial | None = None,
    ) -> None:
        self._hub_url, self._token, self._sender, self._workspace, self._link = hub_url, token, sender, workspace, link
        self._harbours: dict[str, Harbour] = {}
        if link is None:
            dial_for(hub_url, token)  # what is wrong with the address is said now

    @overload
    async def sail(
        self,
        target_capability: str | Capability,
        payload: Any,
        timeout_ms: int = ...,
        dedup_key: str | None = ...,
        context: Context = ...,
        to: Literal["one", "all"] = ...,
        retry: Literal["retreat", "none"] = ...,
        wait: Literal[True] = ...,
        **more: Any,
    ) -> ReachResult: ...

    @overload
    async def sail(
        self,
        target_capability: str | Capability,
        payload: Any,
        timeout_ms: int = ...,
        dedup_key: str | None = ...,
        context: Context = ...,
        to: Literal["one", "all"] = ...,
        retry: Literal["retreat", "none"] = ...,
        *,
        wait: Literal[False],
        **more: Any,
    ) -> ReachHandle: ...

    async def sail(
        self,
        target_capability: str | Capability,
        payload: Any,
        timeout_ms: int = 30_000,
        dedup_key: str | None = None,
        context: Context = None,
        to: Literal["one", "all"] = "one",
        retry: Literal["retreat", "none"] = "retreat",
        wait: bool = True,
        **more: Any,
    ) -> ReachResult | ReachHandle:
        """Send a message to a capability and wait for its outcome.

        - `target_capability`: `Name`, `Name@1.2` for a compatible version (1.2 up to below 2), or a `Capability`; its
          schema is then checked here, and the result is an instance of its Struct.
        - `payload`: plain JSON values (a tuple becomes a list) or a `msgspec.Struct`, at most 256 KiB as JSON. What
          JSON does not have (NaN, bytes, a set, a datetime, a key that is no text) is refused with its place.
        - `timeout_ms`: how long to wait, and the deadline of the work: 15,000 for plain work, 30,000 where the handler
          calls outside, more with `wait=False`.
        - `dedup_key`: names what is asked for, from the business (`report-2024-12-15`), never from the clock. The same
          key and payload again gets the first outcome, also while it is under way; another payload is a `conflict`.
          Without a key, sending twice is asking twice.
        - `context`: a `ContextSlice`, or a dict with its fields; at most 8 KiB. Its references are looked up by the
          host, from this program's working directory where it runs on the host's machine.
        - `to`: `one` of the holders, by weight and load, or `all`.
        - `retry`: `retreat` tries again, 2 4 8 16 32 s apart, what provably did not begin; `none` never.
        - `wait`: False returns a `ReachHandle` as soon as the host has the message on its disk.
        - `more`: `domain`, `parent` (a task; default: the one in hand), `title`, `on_failure` (who is told: `@name` or
          `cap:NAME`), `review_by` (`@name`), `reply_to` (a capability that the result is sent on to: `NAME`),
          `stall_after_ms` (how long it may run without progress until it is shown as suspected),
          `ack_timeout_ms` (how long each spoke may take to say that it has the message before it goes to another; 5 s,
          or a third of `timeout_ms` where that is less).

        Raises `ReachNoRoute`, `ReachOffline`, `ReachTimeout`, `ReachUnverified`, or `ReachRefused` with the code
        `failed` where the handler raised, `invalid`, `conflict`, `denied`, `unavailable` and so on.
        """
        told = {"dedup_key": dedup_key, "context": context, "to": to, "retry": retry, **more}
        sent, checks = self._frame(target_capability, payload, timeout_ms, told)
        with sailing(sent["header"]["target_capability"], msg_id=sent["header"]["msg_id"]):
            return await self._sail(sent, checks, wait=wait)

    async def _sail(self, sent: Frame, checks: Schema, *, wait: bool) -> ReachResult | ReachHandle:
        header = sent["header"]
        span = traceparent()
        if span:
            header["traceparent"] = span
        seconds = header["timeout_ms"] / 1000
        voyage = Voyage(sent, checks)
        harbour = self._harbour()
        until = asyncio.get_running_loop().time() + seconds
        await self._patiently(harbour.launch(voyage), voyage, seconds)
        if wait:
            return await self._at_the_deadline(harbour, voyage, until, seconds)

        async def result(given: float | None) -> ReachResult:
            if given is None:
                return await self._at_the_deadline(harbour, voyage, until, seconds)
            await asyncio.wait({voyage.outcome}, timeout=given)
            return _outcome(voyage, given)

        return ReachHandle(
            voyage.msg_id, voyage.task_id, voyage.trace_id, voyage.promise, lambda: harbour.state(voyage), result
        )

    async def dispatch(
        self, requests: Sequence[Mapping[str, Any]], timeout_ms: int = 30_000
    ) -> list[ReachResult | ReachError]:
        """Send several messages at once and wait for all of them, at most `timeout_ms`. The host takes 64 that are open
        together, or what `dispatch_parts` is set to; one beyond ends with `ReachRefused` `denied`.

        Each request is a dict of the arguments of `sail`; its own `timeout_ms` may be shorter, and `wait` stands for
        True (False is refused as that part's outcome). What comes back is in the order of the requests: a
        `ReachResult` for each that has one, else the `ReachError` that it ended with. All parts together count as one
        child of the task in hand. Raises `ReachRefused` `invalid` only for requests that are no list of dicts, or
        none."""
        if not isinstance(requests, Sequence) or not all(isinstance(one, Mapping) for one in requests):
            raise invalid("The requests are no list of dicts.", "Give each as the arguments of `sail`.")
        if not requests:
            raise invalid("A dispatch has one part at least.", "Do not dispatch where there is nothing.")
        _check_ms("timeout_ms", timeout_ms)
        group = new_id("grp")
        return list(await asyncio.gather(*(self._one(request, timeout_ms, group) for request in requests)))

    async def _one(self, request: Mapping[str, Any], timeout_ms: int, group: str) -> ReachResult | ReachError:
        told = dict(request)
        own = told.pop("timeout_ms", timeout_ms)
        if own is not None and type(own) is int:
            own = min(own, timeout_ms)
        told.setdefault("target_capability", None)
        told.setdefault("payload", None)
        if told.pop("wait", True) is not True:
            return invalid("A dispatch waits for all its parts.", "Use `sail(…, wait=False)` for a handle.")
        try:
            found: ReachResult = await self.sail(**told, timeout_ms=own, group=group)
        except ReachError as error:
            return error
        return found

    async def anchor(self, target_capability: str | Capability, handler: Handler) -> Spoke:
        """Register for a capability for good, and handle its messages from now on, as a `Spoke` would.

        The registration stands while this program is away: messages wait for it then (at most 1,000, seven days) and
        come when it calls this again. It is named by the sender and the capability, so one program at a time may hold
        it. Returns the started spoke, for `drain` and `stop`."""
        offered = target_capability
        if not isinstance(offered, Capability):
            name, _, version = target_of(offered).partition("@")
            offered = Capability(name, version if "." in version else f"{version or 1}.0")
        offered = replace(offered, standing=True)
        spoke = Spoke(
            anchor_name(self._sender, offered.name),
            [offered],
            {offered.name: handler},
            self._hub_url,
            self._token,
            workspace=self._workspace,
            link=self._link,
        )
        await spoke.start()
        return spoke

    async def retreat(self, msg_id: str) -> str:
        """Take a message away from its holder. Where the handler did not begin it is scheduled again, here or
        elsewhere; where it did, this is refused (`conflict`) unless the capability is idempotent. It does not call the
        message off: a person, or who asked, does that by `tally cancel TASK`. Returns the state of the link, and
        raises `ReachTimeout` where there is no answer; see `ReachHandle.state`."""
        answer = await self._harbour().ask(frame("RETREAT", {}, msg_id=msg_id))
        return str(answer.body.get("link", ""))

    async def settle(self, trace_id: str) -> None:
        """Declare a trace finished; its links become SUNSET. Raises `ReachRefused` `conflict`, naming what is open,
        or `ReachTimeout` where there is no answer within 15 s."""
        await self._harbour().ask(frame("SETTLE", {}, trace_id=trace_id))

    async def close(self) -> None:
        """End the connection. Messages on their way go on; who waits for one here gets `ReachRefused` `unavailable`."""
        harbours, self._harbours = self._harbours, {}
        for harbour in harbours.values():
            harbour.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- inside ---

    def _harbour(self) -> Harbour:
        """The connection as the present sender. One of another loop, or from before a fork, is left alone."""
        hand = IN_HAND.get()
        sender = self._sender or (hand.spoke_id if hand else "")
        found = self._harbours.get(sender)
        if found is None or not found.is_of(asyncio.get_running_loop(), os.getpid()):
            dial = self._link or dial_for(self._hub_url, self._token, sender=sender, workspace=self._workspace)
            found = self._harbours[sender] = Harbour(dial)
        return found

    def _frame(
        self, target: str | Capability, payload: Any, timeout_ms: int, told: Mapping[str, Any]
    ) -> tuple[Frame, Schema]:
        """The SAIL, checked as far as this side can."""
        name = target_of(target)
        _check_ms("timeout_ms", timeout_ms)
        checks = target.checks if isinstance(target, Capability) else _ANYTHING
        found = plain(payload, f"payload for capability {name}")
        checks.check_payload(found, f"capability {name}")
        body: dict[str, Any] = {"payload": found}
        for key in _BODY:
            if told.get(key):
                body[key] = _text(told[key], key)
        for key, (usual, *others) in _CHOICES.items():
            if told[key] not in (usual, *others):
                raise invalid(f"{key}={told[key]!r} is not known.", f"Use {usual!r} or {others[0]!r}.")
            if told[key] != usual:
                body[key] = told[key]
        for key, longest in _TIMES.items():
            if told.get(key) is not None:
                body[key] = _check_ms(key, told[key], longest)
        context = slice_of(told["context"])
        if context:
            body["context"] = context
        hand = IN_HAND.get()
        if hand:
            body.setdefault("parent", hand.task_id)
        unknown = told.keys() - _KNOWN
        if unknown:
            raise invalid(f"{min(unknown)!r} is no part of a request.", "Use the arguments of `sail`.")
        header = {key: _text(told[key], key) for key in _HEADER if told.get(key)}
        trace = hand.trace_id if hand else ""
        return frame("SAIL", body, target_capability=name, timeout_ms=timeout_ms, trace_id=trace, **header), checks

    async def _patiently(self, doing: Any, voyage: Voyage, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await doing
        except TimeoutError:
            raise _late(voyage, seconds) from None

    async def _at_the_deadline(self, harbour: Harbour, voyage: Voyage, until: float, seconds: float) -> ReachResult:
        """Wait until then. The host says why there is no outcome; where it cannot, this side does, at once."""
        left = max(0.0, until - asyncio.get_running_loop().time())
        await asyncio.wait({voyage.outcome}, timeout=left)
        if not voyage.outcome.done() and harbour.is_up:
            await asyncio.wait({voyage.outcome}, timeout=_WORD_SECONDS)
        return _outcome(voyage, seconds)


def _outcome(voyage: Voyage, seconds: float) -> ReachResult:
    """What came of it in the seconds that the caller gave."""
    if not voyage.outcome.done():
        raise _late(voyage, seconds)
    return voyage.outcome.result()


_BODY = ("domain", "parent", "group", "title", "on_failure", "review_by")
_HEADER = ("dedup_key", "reply_to")
_TIMES = {"stall_after_ms": _LONGEST_STALL_MS, "ack_timeout_ms": _LONGEST_MS}
_CHOICES = {"to": ("one", "all"), "retry": ("retreat", "none")}
_KNOWN = frozenset({*_BODY, *_CHOICES, *_HEADER, *_TIMES, "context"})


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or len(value) > _KEY_CHARACTERS:
        raise invalid(f"{name}={str(value)[:60]!r} is no text of at most {_KEY_CHARACTERS} characters.", "Shorten it.")
    if any("\ud800" <= one <= "\udfff" for one in value):
        raise invalid(f"{name}={value[:60]!r} cannot be written as UTF-8.", "Give text without lone surrogates.")
    return value


def _check_ms(name: str, given: Any, most: int = _LONGEST_MS) -> int:
    if type(given) is not int or not 1 <= given <= most:
        raise invalid(f"{name}={given!r} is not from 1 to {most}.", "Give milliseconds.")
    return given


def _late(voyage: Voyage, seconds: float) -> ReachTimeout:
    waited = f"{round(seconds, 2) or seconds:g} s"
    where = f"its link is {voyage.link}" if voyage.link else "the host has not acknowledged it"
    return ReachTimeout(
        "timeout",
        f"There is no outcome of message {voyage.msg_id} to {voyage.target} after {waited}; {where}.",
        f"Look with `tally trace {voyage.trace_id}`; the same dedup_key finds what comes of it."
        if voyage.trace_id
        else "Look at `tally status`.",
        **voyage.about,
    )
