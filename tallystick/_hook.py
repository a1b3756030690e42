"""What a client's hook starts when its hint file says that something is unseen: prints what the host has to say.

Run by absolute path with `-I -S`; imports `wire` alone. Takes at most two seconds, and fails open: the client goes on.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import sys

SECONDS = 2.0
"""The longest a hook may take."""


def main(client: str) -> int:
    """Ask the host for the text of a client's unseen items and print it. Always 0."""
    try:
        _signal.signal(_signal.SIGALRM, _late)
        _signal.setitimer(_signal.ITIMER_REAL, SECONDS)
        text = ask(client)
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()
    except Exception as error:  # noqa: BLE001 - it fails open, whatever happened
        line = " ".join(str(error).split()) or type(error).__name__
        sys.stderr.buffer.write(f"tallystick: {line}\n".encode("utf-8", "backslashreplace"))
    return 0


def ask(client: str) -> str:
    """The host's text. Never starts a host: whoever stopped it would not expect a hook to bring it back."""
    sys.path.append(__file__.rpartition("/")[0].rpartition("/")[0])
    from tallystick import wire

    connection = wire.connect(start=False, client="hook", seconds=SECONDS)
    fields = {"client": client, "cwd": wire.directory(), "env": wire.caller_environment()}
    result = connection.call("inbox_hint", **fields)
    return str(result["text"]) if isinstance(result, dict) and result.get("text") else ""


def _late(*_: object) -> None:
    raise TimeoutError(f"the host did not answer within {SECONDS:g} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
