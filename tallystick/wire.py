"""How a program of this machine reaches the host: find the home, connect, shake hands, start the host if absent.

Shared by the `tally` command, the hook, the MCP stdio server and the SDK, each of which pays for every import here
at every start. So: standard library only, C modules rather than their Python wrappers (`json`, `socket` and `typing`
each cost half an interpreter start), and what only the start of a host needs is imported there. Besides `config` this
is the only file that reads TALLY_* and finds the home.
"""

from __future__ import annotations

import _socket
import os
import sys
import time

from tallystick import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROTOCOL = (1, 1)
"""The lowest and highest version of the line protocol that this code speaks."""

LINE_BYTES = 2 * 1024 * 1024
"""The longest line a client may send, its newline included."""

ANSWER_BYTES = 64 * 1024 * 1024
"""The longest line a client accepts from the host."""

SOCKET_BYTES = 100
"""A longer socket path moves to a short directory: the kernel's limit is 108 bytes on Linux, 104 on macOS."""

HOST_ENVIRONMENT = ("PATH", "HOME", "LANG", "TMPDIR", "TALLY_HOME", "DBUS_SESSION_BUS_ADDRESS")
"""What a host started in the background inherits, with XDG_*: nothing else of its starter's environment. The bus is
where a desktop takes notices."""

CALLER_ENVIRONMENT = (
    *("PATH", "HOME", "VIRTUAL_ENV", "TERM", "LANG", "NO_COLOR", "COLUMNS", "XDG_CONFIG_HOME"),
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCODE_CONFIG_DIR", "PI_CODING_AGENT_DIR"),
)
"""What the host is told of a caller's environment, with LC_* and TALLY_*; the last: where coding clients keep files."""

START_SECONDS = 30.0
"""How long a client waits for a host that it started."""

SHAKE_SECONDS = 10.0
"""How long a client waits for the host's side of the handshake."""


class WireError(Exception):
    """The host refused, or could not be reached. `code` is one of the closed list of error codes."""

    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.code = code
        self.message = message
        self.remedy = remedy


class Unreachable(WireError):
    """There is no host to talk to, and none was started."""


# --- where things are -------------------------------------------------------------------------------------------


def home() -> str:
    """TALLY_HOME, else this platform's place for a user's data. Absolute; it need not exist."""
    given = os.environ.get("TALLY_HOME")
    if given:
        return os.path.abspath(os.path.expanduser(given))
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/tallystick")
    data = os.environ.get("XDG_DATA_HOME", "")
    return os.path.join(data if os.path.isabs(data) else os.path.expanduser("~/.local/share"), "tallystick")


def hint_path(home: str, name: str) -> str:
    """The hint file of a coding client: a count of what its agents have not seen. Missing or unreadable means: look."""
    return f"{home}/hints/{name}"


def is_session() -> bool:
    """Whether this process runs in a session that a host made."""
    return bool(os.environ.get("TALLY_SESSION"))


def socket_path(home: str) -> str:
    """The host's control socket, always short enough to be bound.

    Where the home is too deep the host puts the socket elsewhere and writes down where, because the variables that
    decide it differ between a desktop and a cron job."""
    path = f"{home}/run/host.sock"
    if len(os.fsencode(path)) <= SOCKET_BYTES:
        return path
    try:
        with open(f"{home}/run/socket", encoding="utf-8", errors="surrogateescape") as file:
            return file.read(4096).strip() or short_socket_path(home)
    except OSError:
        return short_socket_path(home)


def short_socket_path(home: str) -> str:
    """Where the socket of a home goes whose own path is too long: a private directory named by a digest of it."""
    import hashlib

    digest = hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()[:12]
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    places = [f"{runtime}/tallystick-{digest}"] if os.path.isabs(runtime) and os.path.isdir(runtime) else []
    temporary = [os.environ.get("TMPDIR", ""), "/tmp"]  # noqa: S108 - owner and mode are checked before use
    name = f"tallystick-{os.getuid()}-{digest}"
    places += [f"{place.rstrip('/')}/{name}" for place in temporary if os.path.isabs(place) and os.path.isdir(place)]
    for place in places:
        if len(os.fsencode(place)) + len("/host.sock") <= SOCKET_BYTES:
            return f"{place}/host.sock"
    raise WireError(
        "invalid",
        f"The home {home} is too deep for a socket, and so is every temporary directory.",
        "Set TALLY_HOME to a shorter path.",
    )


def check_private(directory: str) -> None:
    """Refuse a directory that is not this user's alone: whoever owns it could answer in the host's place."""
    status = os.lstat(directory)
    is_ours = status.st_mode & 0o170000 == 0o040000 and status.st_uid == os.getuid() and not status.st_mode & 0o077
    if not is_ours:
        raise WireError(
            "denied",
            f"The directory {directory} is not a directory of yours alone (owner {status.st_uid},"
            f" mode {status.st_mode & 0o7777:04o}), so it cannot hold the host's socket.",
            "Set TALLY_HOME to a shorter path in a directory of your own.",
        )


def caller_environment() -> dict[str, str]:
    """The fixed part of this process's environment that the host is told."""
    told = {
        name: value
        for name, value in os.environ.items()
        if name in CALLER_ENVIRONMENT or name.startswith(("LC_", "TALLY_"))
    }
    return {readable(name): readable(value) for name, value in told.items()}


def directory() -> str:
    """The working directory; empty where it was removed under this process."""
    try:
        return readable(os.getcwd())
    except OSError:
        return ""


def readable(text: str) -> str:
    """Text from the system without the lone surrogates that stand for undecodable bytes: those become escapes."""
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def printable(text: str) -> str:
    """Text whose control, bidi and other invisible characters became escapes; new lines stay."""
    if text.isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


# --- JSON without the json package ------------------------------------------------------------------------------

try:
    from _json import encode_basestring as _quote_unicode
    from _json import encode_basestring_ascii as _quote
    from _json import make_scanner as _make_scanner

    class _Reading:
        """What the C scanner asks of a decoder: the defaults of the json package."""

        strict = True
        object_hook = None
        object_pairs_hook = None
        array_hook = None
        parse_float = float
        parse_int = int
        parse_constant = float
        memo: dict[str, str] = {}  # noqa: RUF012 - looked at by older scanners only

    _scan = _make_scanner(_Reading())  # type: ignore[arg-type]
    _scan("[{}]", 0)
except (ImportError, AttributeError, TypeError):  # another Python: pay for the package
    from json import JSONDecoder
    from json import dumps as _quote
    from json.encoder import encode_basestring as _quote_unicode

    _scan = JSONDecoder().scan_once  # type: ignore[attr-defined]


def encode(value: Any) -> str:
    """JSON text of plain values, in ASCII."""
    if isinstance(value, str):
        return str(_quote(value))
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quote(str(key))}:{encode(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(encode, value)) + "]"
    if value is None or value is True or value is False:
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, (int, float)) and value - value == 0:  # not NaN, not infinite
        return repr(value)
    raise WireError(
        "invalid", f"A value of type {type(value).__name__} cannot be sent to the host.", "Send plain JSON."
    )


def quoted(text: str) -> str:
    """A text as JSON whose characters stay what they are, for large ones."""
    return str(_quote_unicode(text))


def decode(line: bytes) -> dict[str, Any]:
    """One line of the host. It is trusted: duplicates and the like are for the host's own door to refuse."""
    try:
        text = line.decode("utf-8")
        value, end = _scan(text, 0)
    except (ValueError, StopIteration, RecursionError, SystemError):  # the last where the scanner misses its package
        value, end, text = None, 0, ""
    if isinstance(value, dict) and not text[end:].strip():
        return value
    raise WireError("internal", "The host sent a line that is no JSON object.", "Look at `tally status`.")


# --- one connection ---------------------------------------------------------------------------------------------


class Connection:
    """A connection whose handshake is done. Not for several threads at once."""

    def __init__(self, sock: _socket.socket) -> None:
        self.sock = sock
        self.welcome: dict[str, Any] = {}
        """What the host said of itself: protocol, host (its version), pid."""
        self._lines: list[bytes] = []
        self._parts: list[bytes] = []
        self._held = 0
        self._last = 0

    def fileno(self) -> int:
        """The descriptor, for whoever waits on several things."""
        return self.sock.fileno()

    def close(self) -> None:
        """Leave. The host lets running calls know."""
        self.sock.close()

    def timeout(self, seconds: float | None) -> None:
        """How long each later send or receive may block; None for ever. Past it: `WireError` `unavailable`."""
        self.sock.settimeout(seconds)

    def send(self, message: dict[str, Any]) -> None:
        """Send one line."""
        line = encode(message).encode("ascii") + b"\n"
        if len(line) > LINE_BYTES:
            raise WireError(
                "invalid",
                f"The request is {len(line)} bytes long; the host takes at most {LINE_BYTES}.",
                "Send less at once, or refer to a file or commit.",
            )
        try:
            self.sock.sendall(line)
        except OSError as error:
            raise _lost(error) from None

    def receive(self) -> dict[str, Any]:
        """The next line; waits for it."""
        while not self._lines:
            try:
                data = self.sock.recv(262144)
            except OSError as error:
                raise _lost(error) from None
            if not data or self._held > ANSWER_BYTES:
                raise _lost(None)
            self._parts.append(data)
            self._held += len(data)
            if b"\n" in data:
                *self._lines, rest = b"".join(self._parts).split(b"\n")
                self._parts, self._held = [rest], len(rest)
        return decode(self._lines.pop(0))

    def call(self, op: str, /, **fields: Any) -> Any:
        """One request whose result is all that is wanted. Raises `WireError` for a refusal."""
        self._last += 1
        self.send({"id": self._last, "op": op, **fields})
        while True:
            answer = self.receive()
            if "error" in answer and answer.get("id") in (self._last, None):
                raise refusal(answer["error"])
            if answer.get("id") == self._last and "result" in answer:
                return answer["result"]
            if answer.get("id") == self._last and "ask" in answer:
                self.send({"id": self._last, "reply": None})
            elif answer.get("id") == self._last and "want" in answer:
                self.send({"id": self._last, **({"eof": True} if answer["want"] == "stdin" else {"flushed": True})})


def refusal(error: Any) -> WireError:
    """The host's error object as an exception."""
    fields = error if isinstance(error, dict) else {}
    return WireError(
        str(fields.get("code", "internal")), str(fields.get("message", "Refused.")), str(fields.get("remedy", ""))
    )


def _lost(error: OSError | None) -> WireError:
    if isinstance(error, TimeoutError):
        return WireError("unavailable", "The host did not answer in time.", "Try again, or look at `tally status`.")
    return WireError(
        "unavailable",
        "The connection to the host was lost before it answered; whether it did what was asked is not known.",
        "Look with `tally status` and `tally board`, then repeat the command if it is not there.",
    )


def connect(*, start: bool = True, path: str = "", client: str = "tally", seconds: float | None = None) -> Connection:
    """Connect to the host and shake hands; start one in the background where there is none and `start` allows it.

    `path` names another socket (else TALLY_SOCKET, as in a session that the host made, else the control socket of
    `home()`). `seconds` bounds each later wait. Raises `Unreachable` or `WireError`."""
    path = path or os.environ.get("TALLY_SOCKET", "")
    place = home()
    may_start = start and not path and not is_session()
    sock = dial(path or socket_path(place))
    until = time.monotonic() + START_SECONDS
    while sock is None and may_start and time.monotonic() < until:
        start_host(place)
        # A host that stops between its readiness and our connect: the next round starts another.
        sock = dial(socket_path(place))
    if sock is None:
        raise _absent(place, start)
    connection = Connection(sock)
    try:
        _shake(connection, client)
        connection.timeout(seconds)
    except BaseException:
        connection.close()
        raise
    return connection


def _absent(place: str, start: bool) -> Unreachable:
    if start and is_session():
        return Unreachable(
            "unavailable",
            "No host can be reached from this session, and a session never starts one.",
            "Use the tally tools of your client (`tally mcp`), or ask the person to run `tally up`.",
        )
    return Unreachable("unavailable", f"No host runs for {place}.", "Start one with `tally up`.")


def dial(path: str) -> _socket.socket | None:
    """Without a handshake: a connected socket whose other end is ours; None where nobody listens."""
    try:
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        sock.connect(path)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        return None
    except PermissionError:
        raise Unreachable(
            "denied",
            f"This process may not connect to the host's socket {path}: it seems to run in a client's sandbox.",
            "Use the tally tools of your client instead: the MCP server `tally mcp` does the same.",
        ) from None
    except OSError as error:
        raise Unreachable(
            "unavailable", f"The host's socket {path} cannot be used: {error.strerror or error}.", "Run `tally doctor`."
        ) from None
    if peer(sock)[0] not in (os.getuid(), -1):
        sock.close()
        raise WireError("denied", f"The process that listens at {path} is another user's.", "Set TALLY_HOME to yours.")
    return sock


def peer(sock: _socket.socket) -> tuple[int, int]:
    """User and process id of the other end as the kernel knows them; -1 where it does not say."""
    if sys.platform == "darwin":
        credentials = sock.getsockopt(0, 1, 76)  # LOCAL_PEERCRED: struct xucred {version, uid, …}
        return int.from_bytes(credentials[4:8], sys.byteorder), sock.getsockopt(0, 2)  # LOCAL_PEERPID
    if hasattr(_socket, "SO_PEERCRED"):
        credentials = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)  # struct ucred {pid, uid, gid}
        return int.from_bytes(credentials[4:8], sys.byteorder), int.from_bytes(credentials[:4], sys.byteorder)
    return -1, -1


def _shake(connection: Connection, client: str) -> None:
    connection.timeout(SHAKE_SECONDS)
    connection.send({"hello": {"protocol": list(PROTOCOL), "client": client, "version": __version__}})
    answer = connection.receive()
    if "welcome" not in answer:
        raise refusal(answer.get("refused") or answer.get("error"))
    connection.welcome = answer["welcome"]


# --- starting a host --------------------------------------------------------------------------------------------


def command(*arguments: str) -> list[str]:
    """How this installation's own program is run: isolated, UTF-8 whatever the locale."""
    main = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
    return [sys.executable or "python3", "-I", "-X", "utf8", main, *arguments]


def start_host(home: str) -> None:
    """Start a host for a home in the background, detached, and wait until it (or the one that won) serves.

    Raises `WireError` with what the host said where it could not start."""
    import subprocess

    kept = {k: v for k, v in os.environ.items() if k in HOST_ENVIRONMENT or k.startswith("XDG_")}
    ours, theirs = _socket.socketpair()
    try:
        child = subprocess.Popen(
            command("up", "--background-ready-fd", "2"),
            env={**kept, "TALLY_HOME": home},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=theirs.fileno(),
            cwd="/",
            start_new_session=True,
        )
        theirs.close()
        _await_ready(ours)
        child.wait(START_SECONDS)  # it leaves the host behind and ends at once
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unreachable(
            "unavailable", f"The host could not be started: {error}.", "Run `tally up` to see why."
        ) from None
    finally:
        ours.close()


def _await_ready(sock: _socket.socket) -> None:
    """Everything that the starting host says, up to the line that it is ready or refuses, or to its end."""
    sock.settimeout(START_SECONDS)
    said = b""
    while True:
        data = sock.recv(65536)
        said += data
        for line in said.split(b"\n")[:-1]:
            if line.startswith(b'{"ready"'):
                return
            if line.startswith(b'{"refused"'):
                raise refusal(decode(line)["refused"])
        if not data:
            last = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise Unreachable(
                "unavailable", f"The host ended while it started: {last or 'no message'}", "Run `tally up` to see why."
            )
