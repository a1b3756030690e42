"""Where concrete classes are named: settings become a host. And the verbs about a host's own life."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tallystick import __version__, wire
from tallystick.app.diagnostics import Diagnostics
from tallystick.app.home import HomeGuard
from tallystick.app.lock import HomeLock
from tallystick.config import Settings, is_address, load
from tallystick.core.errors import ErrorCode, Refused, conflict, denied, invalid

if TYPE_CHECKING:
    from tallystick.app.calls import Call, Handler
    from tallystick.app.host import Host
    from tallystick.assembly import World

_NEWEST = 50
"""How many diagnostics are shown."""
PATIENCE = 20.0
"""Seconds that a start in the background waits for a host that is stopping, and a stop for the host's end."""

LISTEN = "127.0.0.1:8765"
"""Where `tally up --listen` listens unless told."""

_COLLECT_AFTER = (20_000, 20, 50)
"""The garbage collector's thresholds. A host keeps a lot and makes hardly any cycles: by default the collector would
look through all of it again and again."""

_SWITCH_SECONDS = 0.0005
"""How long the event loop may keep the interpreter from the writer, and the writer from it. By default it is ten times
that: more than a commit takes."""

_LISTENING = {"--listen": "listen", "--tls-cert": "tls_cert", "--tls-key": "tls_key"}


def build(settings: Settings, world: World | None = None) -> Host:
    """The host of a home, its parts named and joined. The home's lock must be held. `world` is for tests."""
    from tallystick.app.host import Host
    from tallystick.assembly import World, assemble

    limits = settings.limits
    diagnostics = Diagnostics(
        settings.home / "log" / "host.jsonl", files=limits.diagnostics_files, size=limits.diagnostics_bytes
    )
    host = Host(settings.home, [], diagnostics=diagnostics)
    life = lifecycle(host, started_at=time.time())
    listens = partial(setattr, host, "address")
    host.services += assemble(settings, diagnostics, life, host.request_stop, listens, world or World())
    return host


def lifecycle(host: Host, *, started_at: float) -> dict[str, Handler]:
    """The operations about the host itself: `status` and `down`."""

    async def status(_: Call) -> dict[str, Any]:
        return {
            "running": True,
            "pid": host.pid,
            "version": __version__,
            "home": str(host.home),
            "uptime_seconds": round(time.time() - started_at, 3),
            "address": host.address,
        }

    async def down(call: Call) -> dict[str, Any]:
        if call.facts.listener or call.facts.environment.get("TALLY_SESSION"):
            raise denied("A session may not stop the host.", "Ask the person to run `tally down`.")
        host.request_stop("down")
        return {"stopping": True, "pid": host.pid}

    return {"status": status, "down": down}


# --- the verbs --------------------------------------------------------------------------------------------------


def main(argv: list[str]) -> int:
    """`python -m tallystick VERB`: what works without a running host. The exit code."""
    verb, words = (argv[0], argv[1:]) if argv else ("", [])
    try:
        if "--help" in words and verb in USAGE:
            _say(USAGE[verb])
            return 0
        if verb == "up":
            return up(words)
        if verb in VERBS:
            return VERBS[verb](words)
        raise invalid(f"`tally {verb}` needs a running host.", "Start one with `tally up`.")
    except Refused as refused:
        return complain(refused)
    except wire.WireError as error:
        return complain(_as_refused(error))


def complain(refused: Refused) -> int:
    """Print a refusal; the exit code (2 for a wrong use)."""
    sys.stderr.write(wire.printable(f"tally: {refused.message}\n  → {refused.remedy}\n"))
    return 2 if refused.code is ErrorCode.INVALID else 1


def up(words: list[str]) -> int:
    """Run a host in the foreground, or behind whoever starts one in the background, announced on a descriptor."""
    given = _options(_with_address(words), {"--replace": 0, "--background-ready-fd": 1, **dict.fromkeys(_LISTENING, 1)})
    if "--background-ready-fd" in given:
        return _up_behind(int(given["--background-ready-fd"]))
    changed = _listening(given)
    guard = HomeGuard(Path(wire.home()))
    guard.prepare()
    if "--replace" in given:
        stop_running(guard.lock)
    try:
        guard.lock.take()
    except Refused as refused:
        raise _beside_another(refused, guard.home, changed) from None
    return _serve(guard, lambda host: _say(_serves(host)), changed)


def _with_address(words: list[str]) -> list[str]:
    """The words of `up`, with the usual address where `--listen` stands alone."""
    spelt: list[str] = []
    for word, after in zip(words, [*words[1:], "--"], strict=False):
        spelt += [word, LISTEN] if word == "--listen" and after.startswith("--") else [word]
    return spelt


def _listening(given: dict[str, str]) -> dict[str, str]:
    """The settings that the command line changes."""
    changed = {field: given[option] for option, field in _LISTENING.items() if option in given}
    if not is_address(changed.get("listen", "")):
        raise invalid(f"{changed['listen']!r} is not ADDRESS:PORT.", f"Write it like {LISTEN}.")
    return {field: value if field == "listen" else str(Path(value).absolute()) for field, value in changed.items()}


def _beside_another(refused: Refused, home: Path, changed: dict[str, str]) -> Refused:
    """Why no host was started where one is. It was asked to listen: whether that one does is said, and how it would."""
    if "listen" not in changed or refused.code is not ErrorCode.CONFLICT:
        return refused
    try:
        address = _running().get("address", "")
    except wire.WireError:
        return refused
    listens, again = (f"at {address}", "Use that one, or stop it") if address else ("nowhere", "Stop it")
    return conflict(
        f"{refused.message} It listens {listens}, and a host that runs does not begin to listen elsewhere.",
        f"{again} with `tally down` and do this again. For a host that listens whoever starts it, put `listen` into "
        f"{home}/config.toml first.",
    )


def _running() -> dict[str, Any]:
    """What the host says of itself. Raises `WireError` where none answers."""
    found: dict[str, Any] = wire.connect(start=False, seconds=wire.SHAKE_SECONDS).call("status")
    return found


def _serves(host: Host) -> str:
    also = f" and listens at {host.address}" if host.address else ""
    return f"Tallystick {__version__} serves {host.home} (process {host.pid}){also}."


def _up_behind(descriptor: int) -> int:
    """The host in the background. Until it serves, all it says goes to its starter, and then to a log."""
    announce = os.dup(descriptor)
    if os.fork():
        os._exit(0)  # the starter waits for this one; the host is nobody's child and no session's leader
    try:
        guard = HomeGuard(Path(wire.home()))
        guard.prepare()
        if guard.lock.take_within(PATIENCE, unless=is_served):
            return _serve(guard, lambda _host: _announce(announce, guard.home))
        os.write(announce, b'{"ready":{}}\n')  # another starter was faster
    except Refused as refused:
        fields = {"code": refused.code.value, "message": refused.message, "remedy": refused.remedy}
        os.write(announce, wire.encode({"refused": fields}).encode() + b"\n")
        return 1
    return 0


def _announce(descriptor: int, home: Path) -> None:
    log = os.open(home / "log" / "start.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    os.dup2(log, 2)
    os.close(log)
    os.write(descriptor, b'{"ready":{}}\n')
    os.close(descriptor)


def _serve(guard: HomeGuard, ready: Callable[[Host], None], changed: dict[str, str] | None = None) -> int:
    try:
        gc.set_threshold(*_COLLECT_AFTER)
        sys.setswitchinterval(_SWITCH_SECONDS)
        run = _runner()
        host = build(replace(load(guard.home), **(changed or {})))
        run(host.run(partial(ready, host)))
    except (Refused, KeyboardInterrupt):
        raise
    except wire.WireError as error:
        raise _as_refused(error) from None
    except Exception as error:  # noqa: BLE001 - the boundary: the detail is recorded, the caller gets a number
        reference = Diagnostics(guard.home / "log" / "host.jsonl").failure("start", error)
        raise Refused(
            ErrorCode.INTERNAL,
            f"The host failed; the reference is {reference}.",
            f"Find it in {guard.home / 'log' / 'host.jsonl'}.",
        ) from None
    finally:
        guard.lock.release()
    return 0


def _runner() -> Callable[..., Any]:
    try:
        import uvloop
    except ImportError:
        import asyncio

        return asyncio.run
    return uvloop.run


def is_served() -> bool:
    """Whether a host answers for this home."""
    try:
        wire.connect(start=False).close()
    except wire.WireError:
        return False
    return True


def down(words: list[str]) -> int:
    """Stop the running host in order, and wait for its end."""
    _options(words, {})
    home = Path(wire.home())
    stopped = stop_running(HomeLock(home))
    _say(f"The host (process {stopped}) has stopped." if stopped else f"No host runs for {home}.")
    return 0


def stop_running(lock: HomeLock) -> int:
    """Ask the host that holds the lock to stop, and wait; its process id, 0 where there was none."""
    if wire.is_session():
        raise denied("A session may not stop or replace the host.", "Ask the person to do it.")
    holder = lock.holder()
    if holder is None:
        return 0
    try:
        wire.connect(start=False, seconds=PATIENCE).call("down", env=wire.caller_environment())
    except wire.Unreachable:
        pass  # it is about to stop, or not there yet
    except wire.WireError as error:
        if error.code not in ("unsupported", "unavailable"):
            raise
        _ask_by_signal()
    lock.wait_free(PATIENCE)
    return holder.pid


def _ask_by_signal() -> None:
    """For a host that speaks another protocol. The kernel says which process listens; a number in a file may be stale,
    or belong to another container."""
    sock = wire.dial(wire.socket_path(wire.home()))
    if sock is not None:
        pid = wire.peer(sock)[1]
        sock.close()
        if pid > 1:
            os.kill(pid, signal.SIGTERM)


def status(words: list[str]) -> int:
    """Show the host, if there is one; never starts it. Exit code 1 where none runs."""
    given = _options(words, {"--json": 0, "--diagnostics": 0})
    as_json = "--json" in given
    if "--diagnostics" in given:
        return diagnostics(as_json=as_json)
    try:
        found = _running()
    except wire.Unreachable as error:
        if error.code == "denied":
            raise
        found = {"running": False, "home": wire.home()}
    if as_json:
        _say(wire.encode(found))
    elif found["running"]:
        _say(
            f"host     {found['version']}, process {found['pid']}\nhome     {found['home']}\n"
            f"uptime   {int(found['uptime_seconds'])} s\naddress  {found.get('address') or 'none: it does not listen'}"
        )
    else:
        _say(f"No host runs for {found['home']}. Start one with `tally up`.")
    return 0 if found["running"] else 1


def diagnostics(*, as_json: bool) -> int:
    """Print the newest diagnostics, oldest of them first; they are there whether or not a host runs."""
    for record in Diagnostics(Path(wire.home()) / "log" / "host.jsonl").newest(_NEWEST):
        if as_json:
            _say(wire.encode(record))
            continue
        at = datetime.fromtimestamp(float(record.pop("at", 0.0)), UTC).isoformat(timespec="seconds")
        rest = "  ".join(f"{name}={value}" for name, value in record.items() if name not in ("kind", "trace"))
        _say(wire.printable(f"{at}  {record.get('kind', '?')}  {rest}"))
        for line in str(record.get("trace", "")).splitlines():
            _say(wire.printable(f"    {line}"))
    return 0


def version(words: list[str]) -> int:
    """Print the version."""
    _options(words, {})
    _say(f"tally {__version__}")
    return 0


def demonstrate(words: list[str]) -> int:
    """Show the main job in a temporary home; the exit code says whether everything was as promised."""
    _options(words, {})
    from tallystick import demo

    return demo.main()


def demonstrate_more(words: list[str]) -> int:
    """`tally demo reach`: spokes at work, in a temporary home; the exit code as of `try`."""
    if words != ["reach"]:
        said = " ".join(words) or "nothing"
        raise invalid(f"There is no demonstration of {said!r}.", "Type: tally demo reach (or tally try).")
    from tallystick import demo_reach

    return demo_reach.main()


def _alone(verb: str) -> Callable[[list[str]], int]:
    """A verb that looks at the home itself; what it needs is loaded only when it is used."""

    def run(words: list[str]) -> int:
        from tallystick import alone

        code: int = getattr(alone, verb)(words)
        return code

    return run


VERBS: dict[str, Callable[[list[str]], int]] = {
    "down": down,
    "status": status,
    "doctor": _alone("doctor"),
    "log": _alone("log"),
    "try": demonstrate,
    "demo": demonstrate_more,
    "--version": version,
}
"""What works without a host, besides `up`."""

USAGE: dict[str, str] = {
    "up": "usage tally up [--replace] [--listen [ADDRESS:PORT]] [--tls-cert FILE] [--tls-key FILE]\n\n"
    "Run the host in the foreground (other verbs start it by themselves).\n"
    "--replace stops the one that runs, of whatever version, and takes its place.\n"
    f"--listen also serves HTTP: the host API, and MCP at /mcp; at {LISTEN} unless an address is given.\n"
    "--tls-cert and --tls-key (PEM) are for an address that other machines reach.",
    "down": "usage tally down\n\nStop the host in order; nothing is lost.",
    "status": "usage tally status [--json] [--diagnostics]\n\nWhether the host runs, with its pid; never starts one.\n"
    "--diagnostics shows the newest diagnostics of the host instead.",
    "try": "usage tally try\n\nShow the main job on a real repository, in a temporary place. It needs git, takes some\n"
    "seconds, touches nothing of yours, and exits with 1 where something is not as promised.",
    "demo": "usage tally demo reach\n\nShow three spokes in three processes that make a report together, a failure,\n"
    "and what puts it right, in a temporary place. It touches nothing of yours, and exits with 1 where something is\n"
    "not as promised.",
}
"""What `--help` says of the verbs that are never asked of a host."""


def _options(words: list[str], known: dict[str, int]) -> dict[str, str]:
    """Long options, some with one value. Anything else is refused."""
    given: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word not in known or (known[word] and not rest):
            allowed = ", ".join(known) or "none"
            raise invalid(f"{word!r} is not understood here, or lacks its value.", f"Options are: {allowed}.")
        given[word] = rest.pop(0) if known[word] else ""
    return given


def _say(text: str) -> None:
    os.write(1, text.encode("utf-8", "backslashreplace") + b"\n")


def _as_refused(error: wire.WireError) -> Refused:
    return Refused(ErrorCode(error.code), error.message, error.remedy)
