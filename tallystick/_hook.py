"""What a client's hook starts when something is unseen, or somebody may be named: hands the host what the client
said, and prints what the host answers.

Run by absolute path with `-I -S`; imports `wire` alone. Takes less than 2 seconds, and fails open: the client goes on.
The event `wait` is another thing: it stays beside the client until the host has a reason to wake it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import sys

SECONDS = 1.8
"""The longest a hook may take, the start of Python left out."""
INPUT_BYTES = 256 * 1024
"""Of what a client says, more is left unread: it is only looked at."""
BESIDE_SECONDS = 15
"""How often one that waits looks whether its client is still there."""


def main(client: str = "", event: str = "stop", parent: str = "") -> int:
    """Ask the host and print its answer. 0 unless the host says otherwise to one that waits. `parent`: who the script
    saw as its parent; by now it may be gone."""
    try:
        limit(event, int(parent) if parent.isdecimal() else os.getppid())
        said = ask(client, event)
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        write(1, str(said.get("out", "")))
        write(2, str(said.get("err", "")))
        return 2 if event == "wait" and said.get("exit") == 2 else 0
    except Exception as error:  # noqa: BLE001 - it fails open, whatever happened
        if event != "wait":
            write(2, "tallystick: " + (" ".join(str(error).split()) or type(error).__name__) + "\n")
    return 0


def limit(event: str, parent: int) -> None:
    """Give up in time; one that waits looks now and at times whether whoever started it is gone."""

    def look(*_: object) -> None:
        if os.getppid() != parent:
            os._exit(0)

    if event == "wait":
        look()
    _signal.signal(_signal.SIGALRM, look if event == "wait" else _late)
    seconds = BESIDE_SECONDS if event == "wait" else SECONDS
    _signal.setitimer(_signal.ITIMER_REAL, seconds, seconds)


def ask(client: str, event: str) -> dict[str, object]:
    """The host's answer. Never starts a host: whoever stopped it would not expect a hook to bring it back."""
    sys.path.append(__file__.rpartition("/")[0].rpartition("/")[0])
    from tallystick import wire

    args = {"event": event, "raw": given().decode("utf-8", "replace")}
    fields = {"client": client, "cwd": wire.directory(), "env": wire.caller_environment(), "args": args}
    while True:
        try:
            connection = wire.connect(start=False, client="hook", seconds=None if event == "wait" else SECONDS)
            result = connection.call("hook", **fields)
        except wire.WireError as error:
            if event != "wait" or error.code != "unavailable" or os.getppid() == 1:
                raise  # (a process without a parent of its own would stay for ever)
            _signal.pause()  # a host that is started anew finds it waiting again: at the next look, or the one after
        else:
            return result if isinstance(result, dict) else {}


def given() -> bytes:
    """What the client said: first what the shell already read of it, then the rest."""
    parts: list[bytes] = []
    size = 0
    for descriptor in (3, 0):
        try:
            while size < INPUT_BYTES and (part := os.read(descriptor, INPUT_BYTES - size)):
                parts.append(part)
                size += len(part)
        except OSError:
            continue
    return b"".join(parts)


def write(descriptor: int, text: str) -> None:
    """Write text as UTF-8, whatever the locale."""
    data = text.encode("utf-8", "backslashreplace")
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        return


class Late(Exception):
    """Time is up. No `OSError`: whoever reads or sends must not take it for one of theirs."""


def _late(*_: object) -> None:
    raise Late(f"there was no answer within {SECONDS:g} s")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
