"""A spoke: a program that offers capabilities."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tallystick.sdk.address import address_of
from tallystick.sdk.capability import Capability
from tallystick.sdk.current import IN_HAND
from tallystick.sdk.dialling import dial_for
from tallystick.sdk.ending import Ending
from tallystick.sdk.errors import ReachRefused, invalid
from tallystick.sdk.handlers import Handler
from tallystick.sdk.link import Dial
from tallystick.sdk.outbox import ACK_SECONDS
from tallystick.sdk.place import store_path
from tallystick.sdk.running import Plan, Running
from tallystick.sdk.store import SpokeStore

if TYPE_CHECKING:
    from tallystick.sdk.callback import CallbackDoor

log = logging.getLogger("tallystick.sdk")

_SPOKE_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


class Spoke:
    """Offers capabilities to whoever may reach them, and runs their handlers, each message once.

    - `spoke_id`: its name at the host: 1 to 63 of a-z, 0-9 and '-'. One process at a time runs under it.
    - `capabilities`: what it offers, 1 to 64.
    - `handler_map`: for each capability by name a coroutine function, or a plain function, which then runs in a
      thread. It gets a `ReachMessage`; what it returns (plain JSON values or a `msgspec.Struct`, at most 256 KiB) is
      the result. What it raises becomes a FAIL with its type and message; the stack trace stays here, in the log
      `tallystick.sdk`.
    - `hub_url`: `https://HOST[:PORT]` or `http://127.0.0.1:PORT` of a host that listens; None: the host of this
      machine by its socket, started if there is none. Its certificate is checked by the authorities of this machine,
      or those in the file that the environment variable SSL_CERT_FILE names.
    - `token`: the spoke's token for `hub_url`; for a loopback address that of this user is found by itself.
    - `store`: the file in which it keeps what it began and what came of it. Default: `SPOKE_ID.db` in this platform's
      directory for the state of programs (on Linux `$XDG_STATE_HOME/tallystick/spokes`, else
      `~/.local/state/tallystick/spokes`), in a folder for the host it belongs to; not in `TALLY_HOME`, which is the
      host's alone. The directory of one that is named here is made where it is not there, and the log says so. A file
      belongs to one spoke of one host, and is opened by one process at a time.
    - `workspace`: where it offers them; default: that of the working directory, else `default`. With `hub_url` the one
      that its token opens, else `default`.
    - `endpoint`: the spoke's own `https://…` address, for a program behind a web server that keeps no connection: the
      host posts to it, and the program mounts `spoke.app` (ASGI) there. Needs `hub_url`. What is posted is taken only
      with the host's signature, not older than five minutes, and once.
    - `link`: opens links in place of `hub_url`, for a host in the same process and for tests.

    Raises `ReachRefused` `invalid` for values outside these bounds.
    """

    def __init__(
        self,
        spoke_id: str,
        capabilities: Sequence[Capability],
        handler_map: Mapping[str, Handler],
        hub_url: str | None = None,
        token: str | None = None,
        store: str | os.PathLike[str] | None = None,
        *,
        workspace: str = "",
        endpoint: str = "",
        link: Dial | None = None,
    ) -> None:
        if not isinstance(spoke_id, str) or not _SPOKE_ID.fullmatch(spoke_id):
            raise invalid(
                f"{spoke_id!r} is no spoke_id.", "Use 1 to 63 of a-z, 0-9 and '-', beginning with a letter or digit."
            )
        self.spoke_id = spoke_id
        self.app: CallbackDoor | None = None
        """With an `endpoint`: the ASGI application to mount there."""
        dial = link
        if endpoint:
            self.app = _door(hub_url, token, endpoint, spoke_id, workspace)
            dial = self.app.dial
        self._plan = Plan(
            spoke_id=spoke_id,
            offers=_paired(tuple(capabilities), handler_map),
            workspace=workspace,
            dial=dial or dial_for(hub_url, token, workspace=workspace),
        )
        self._path = store_path(spoke_id, hub_url) if store is None else Path(store)
        if store is not None and not self._path.parent.is_dir():
            log.warning("The directory %s is made for the store of spoke %s", self._path.parent, spoke_id)
        self._running: Running | None = None

    async def start(self) -> None:
        """Open the store, reach the host, offer the capabilities; returns once the host knows of them.

        Afterwards the spoke works by itself until `stop` or the end of the loop, and comes back by itself when the
        connection is lost. Raises `ReachRefused`: `conflict` where this spoke runs already, `unavailable` where no host
        answers, `denied`, `unauthenticated`, `invalid`, or what is wrong with the store."""
        _needs_loop()
        if self._running is not None:
            raise ReachRefused("conflict", f"Spoke {self.spoke_id} is started already.", "Stop it first.")
        store = SpokeStore(self._path)
        await store.open()
        running = self._running = Running(self._plan, store)
        try:
            await running.channel.open()
        except BaseException:
            self._running = None
            await running.end()
            raise
        running.beating = asyncio.create_task(running.beat(), name=f"heartbeat of {self.spoke_id}")

    async def run(self) -> None:
        """`start`, unless it is started, and work until the program is told to end, by SIGTERM or Ctrl-C; then `drain`
        and `stop`, and return. A second signal cuts the drain short. Raises as `start` does, and `ReachRefused`
        `unsupported` outside of the main thread."""
        if self._running is None:
            await self.start()
        try:
            with Ending() as ending:
                await ending.told()
                log.info("Spoke %s was told to end: it finishes what it has", self.spoke_id)
                await self._drain_until(ending)
        finally:
            await self.stop()

    async def _drain_until(self, ending: Ending) -> None:
        drain, again = asyncio.create_task(self.drain()), asyncio.create_task(ending.told())
        await asyncio.wait({drain, again}, return_when=asyncio.FIRST_COMPLETED)
        again.cancel()
        if drain.done():
            drain.result()
        else:
            drain.cancel()

    async def drain(self) -> None:
        """Take nothing new, finish what is here, and return when the host has every outcome. Then `stop`. Raises
        `ReachRefused` `conflict` in a handler of this spoke, which would wait for itself."""
        running = self._started()
        hand = IN_HAND.get()
        if hand is not None and hand.spoke_id == self.spoke_id:
            raise ReachRefused(
                "conflict",
                f"A handler of spoke {self.spoke_id} cannot drain it: it would wait for its own end.",
                "Tell the program from here (an asyncio.Event), and drain there.",
            )
        running.works.is_draining = True
        await running.say_drain()
        await running.works.finished()
        await running.outbox.flushed()

    async def stop(self) -> None:
        """End now: what waits goes back to the host, running coroutines are cancelled and reported as `canceled`. A
        handler in a thread cannot be stopped: its message stays *unverified*. Outcomes that the host does not take
        within five seconds are told at the next start. May be called twice."""
        running, self._running = self._running, None
        if running is None:
            return
        running.works.is_draining = True
        if running.channel.is_up:
            await running.say_drain()  # so the host knows that it goes, and does not wait for it
        await running.works.stop()
        try:
            async with asyncio.timeout(ACK_SECONDS):
                await running.works.finished()
                await running.outbox.flushed()
        except TimeoutError:
            log.warning("Spoke %s stopped with outcomes that the host has not acknowledged", self.spoke_id)
        await running.end()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _started(self) -> Running:
        if self._running is None:
            raise ReachRefused(
                "conflict", f"Spoke {self.spoke_id} is not started.", "Call `await spoke.start()` first."
            )
        return self._running


def _paired(
    capabilities: Sequence[Capability], handlers: Mapping[str, Handler]
) -> tuple[tuple[Capability, Handler], ...]:
    """Each capability with its handler. Raises `ReachRefused` `invalid` where they do not fit together."""
    names = [one.name if isinstance(one, Capability) else repr(one) for one in capabilities]
    if not 1 <= len(names) <= 64 or len(set(names)) < len(names):
        raise invalid(
            "A spoke offers 1 to 64 capabilities, each name once.", f"Given were: {', '.join(names) or 'none'}."
        )
    for one in capabilities:
        if not isinstance(one, Capability):
            raise invalid(f"{one!r} is no Capability.", 'Write Capability("Name").')
    for name in set(names) ^ set(handlers):
        missing = "has no handler" if name in names else "is not among the capabilities"
        raise invalid(f"{name!r} {missing}.", "Give handler_map exactly one handler for each capability.")
    for name, handler in handlers.items():
        if not callable(handler):
            raise invalid(f"The handler of {name!r} cannot be called.", "Give a function of one ReachMessage.")
    return tuple((one, handlers[one.name]) for one in capabilities)


def _door(hub_url: str | None, token: str | None, endpoint: str, spoke_id: str, workspace: str) -> CallbackDoor:
    """Where the host posts to. Loaded when a spoke has an endpoint."""
    from tallystick.sdk.callback import CallbackDoor

    if hub_url is None:
        raise invalid("A spoke with an endpoint needs a hub_url to post to.", "Give the address of the host.")
    return CallbackDoor(address_of(hub_url, token), endpoint, spoke_id, workspace)


def _needs_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise ReachRefused(
            "unsupported", "There is no running asyncio loop here.", "Run it inside `asyncio.run(main())`."
        ) from None
