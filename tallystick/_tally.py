"""The `tally` command: sends what it was given to the host and prints what comes back.

It is started for every single command, so it holds no logic of the product and imports `wire` alone (`tally mcp`, the
server that coding clients start, is `_mcp`).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import sys

from tallystick import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OWN = ("up", "down", "try", "demo")
"""Verbs about a host's own life, and demonstrations with a host of their own: never asked of the host itself."""

QUIET = ("status", "--version")
"""Verbs that never start a host."""

ALONE = (*QUIET, "doctor", "log")
"""Verbs that work without a host, where none can be started."""


class Tally:
    """One command being run."""

    def __init__(self, connection: wire.Connection) -> None:
        self.connection = connection
        self.interrupts = 0
        self.sending = False
        self.reading = False

    def run(self, argv: list[str]) -> int:
        """Send the command, serve the host until it answers; the exit code."""
        _signal.signal(_signal.SIGINT, self.interrupt)
        self.send(op="cli", argv=argv, cwd=wire.directory(), env=wire.caller_environment(), tty=terminal())
        while True:
            message = self.connection.receive()
            if message.get("id") not in (1, None):
                continue
            if "result" in message:
                return message["result"] if isinstance(message["result"], int) else 0
            if "error" in message:
                return complain(wire.refusal(message["error"]))
            self.serve(message)

    def serve(self, message: dict[str, Any]) -> None:
        """What the host wants of this terminal while the command runs."""
        if "out" in message:
            write(1, message["out"])
        elif "err" in message:
            write(2, message["err"])
        elif "ask" in message:
            write(2, message["ask"])
            line = self.read(65536)
            self.send(reply=line.decode("utf-8", "replace").rstrip("\r\n") if line else None)
        elif message.get("want") == "stdin":
            self.send_stdin(int(message.get("limit", 1024 * 1024)))
        elif message.get("want") == "flush":
            self.send(flushed=True)  # every write above went straight to the descriptor

    def send_stdin(self, limit: int) -> None:
        """Standard input to its end, but never much more than the host would take."""
        import binascii

        sent = 0
        while sent <= limit and (chunk := self.read(65536)):
            self.send(stdin=binascii.b2a_base64(chunk, newline=False).decode("ascii"))
            sent += len(chunk)
        self.send(eof=True)

    def read(self, size: int) -> bytes:
        """Read standard input; an interrupt ends it, because the host is asked and not the terminal."""
        try:
            self.reading = True
            return b"" if self.interrupts else os.read(0, size)
        except (KeyboardInterrupt, OSError):
            return b""
        finally:
            self.reading = False

    def send(self, **fields: Any) -> None:
        """Send one line of this call; an interrupt in the middle of it is sent after it."""
        before = self.interrupts
        self.sending = True
        self.connection.send({"id": 1, **fields})
        self.sending = False
        if self.interrupts > before:
            self.connection.send({"id": 1, "interrupt": True})

    def interrupt(self, *_: object) -> None:
        """The first SIGINT tells the host, which ends the command in order; the second just ends this process."""
        self.interrupts += 1
        if self.interrupts > 1:
            os._exit(130)
        if not self.sending:
            self.connection.send({"id": 1, "interrupt": True})
        if self.reading:
            raise KeyboardInterrupt


def terminal() -> dict[str, Any]:
    """What the standard streams are."""
    stdin, stdout, stderr = (is_terminal(number) for number in (0, 1, 2))
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() else os.get_terminal_size(1).columns if stdout else 80
    return {"stdin": stdin, "stdout": stdout, "stderr": stderr, "columns": width or 80}


def is_terminal(number: int) -> bool:
    """Whether a descriptor is open and a terminal."""
    try:
        return os.isatty(number)
    except OSError:
        return False


def write(number: int, text: str) -> None:
    """Write text as UTF-8 whatever the locale. Nobody reads standard error any more: go on without it."""
    data = text.encode("utf-8", "backslashreplace")
    try:
        while data:
            data = data[os.write(number, data) :]
    except OSError:
        if number == 1:
            raise


def complain(error: wire.WireError) -> int:
    """Print a refusal and its remedy; the exit code."""
    write(2, wire.printable(f"tally: {error.message}\n" + (f"  → {error.remedy}\n" if error.remedy else "")))
    return 1


def run_alone(argv: list[str]) -> int:
    """Become the program itself."""
    line = wire.command(*argv)
    os.execv(line[0], line)  # noqa: S606 - no shell is the point
    return 127


def main() -> int:
    """The entry point of `tally`."""
    try:
        argv = [os.fsencode(word).decode("utf-8") for word in sys.argv[1:]]
        verb = argv[0] if argv else ""
        if verb == "mcp" and "--help" not in argv:
            from tallystick import _mcp

            return _mcp.main(argv[1:])
        if verb in OWN or (verb == "status" and "--diagnostics" in argv):
            return run_alone(argv)
        return Tally(wire.connect(start=verb not in QUIET)).run(argv)
    except UnicodeDecodeError:
        write(2, "tally: An argument is not valid UTF-8.\n  → Names, texts and paths are UTF-8; rename the file.\n")
        return 2
    except wire.WireError as error:
        return run_alone(argv) if verb in ALONE else complain(error)
    except BrokenPipeError:
        return 141  # as if SIGPIPE had ended it: silently
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        write(2, f"tally: The output could not be written: {error.strerror}.\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
