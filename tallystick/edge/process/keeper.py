"""The parent of one job: starts it, bounds it, writes down how it ended. Run as `python -I -S keeper.py JOB_DIR`.

A process of its own, so that a job keeps its limits when the host is killed, and so that all its descendants, however
they detach, come back to one parent. May live here: standard library only, no import of this project.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36
CHUNK: Final = 65536
SWEEP_SECONDS: Final = 0.05
"""How often survivors are looked for again once they are being killed."""
LONGEST_WAIT: Final = 3600.0
"""A selector takes no time-out beyond 24 days, and a job may have 30."""
OPEN_FILES: Final = (4096, 65536)
"""Soft and hard limit of descriptors: a huge soft limit makes programs that close them all hang."""
LINUX: Final = sys.platform.startswith("linux")


class Process(NamedTuple):
    """One line of the process table. `start` together with `pid` names a process for as long as the machine is up."""

    pid: int
    parent: int
    group: int
    session: int
    start: str
    zombie: bool


def look_up(pid: int) -> Process | None:
    """The process that has this pid now, or None."""
    if not LINUX:
        return _ps_look_up(pid)
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode("ascii", "replace")
    except OSError:
        return None
    # The name in parentheses may hold anything, parentheses and blanks included: count from the last one.
    field = text[text.rindex(")") + 2 :].split()
    return Process(pid, int(field[1]), int(field[2]), int(field[3]), field[19], field[0] in "ZX")


def _ps_look_up(pid: int) -> Process | None:
    """Where there is no /proc: the start time is only good to the second, and the session is taken to be the group."""
    shown = subprocess.run(
        ["/bin/ps", "-o", "ppid=,pgid=,stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split(maxsplit=3)
    if len(shown) != 4:
        return None
    return Process(pid, int(shown[0]), int(shown[1]), int(shown[1]), shown[3].strip(), shown[2].startswith("Z"))


def _pids() -> list[int]:
    if LINUX:
        return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]  # noqa: PTH208
    shown = subprocess.run(["/bin/ps", "-axo", "pid="], capture_output=True, text=True, check=False).stdout
    return [int(word) for word in shown.split()]


def processes() -> list[Process]:
    """The process table, without the dead that nobody has collected yet."""
    return [found for pid in _pids() if (found := look_up(pid)) is not None and not found.zombie]


def descendants(root: int) -> list[Process]:
    """All living processes below `root`, at any depth."""
    children: dict[int, list[Process]] = {}
    for process in processes():
        children.setdefault(process.parent, []).append(process)
    below: list[Process] = []
    waiting = [root]
    while waiting:
        found = children.get(waiting.pop(), [])
        below += found
        waiting += [process.pid for process in found]
    return below


def write_json(path: Path, value: dict[str, Any], *, lasting: bool = False) -> None:
    """Write it whole or not at all; `lasting` also through a power cut."""
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        if lasting:
            os.fsync(file.fileno())
    new.replace(path)
    if lasting:
        directory = os.open(path.parent, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)


class Sink:
    """One output stream: counts and hashes all of it, keeps the first `limit` bytes."""

    def __init__(self, path: Path, limit: int) -> None:
        self.pipe, self.child = os.pipe()
        os.set_blocking(self.pipe, False)
        self._file = path.open("wb", buffering=0)
        self._left = limit
        self._hash = hashlib.sha256()
        self._size = 0
        self._truncated = False

    def take(self) -> bool:
        """Read once; False at the end of the stream. Raises BlockingIOError when there is nothing now."""
        data = os.read(self.pipe, CHUNK)
        self._hash.update(data)
        self._size += len(data)
        self._keep(data)
        return bool(data)

    def _keep(self, data: bytes) -> None:
        try:
            kept = self._file.write(data[: self._left])
        except OSError:  # a full disk must not end the job: what is missing shows as truncated
            kept = 0
        if kept < len(data):
            self._truncated, self._left = True, 0
        else:
            self._left -= kept

    def close(self) -> dict[str, Any]:
        """Take what is still in the pipe, make the file last, and say what the stream held."""
        with contextlib.suppress(BlockingIOError):
            while self.take():
                pass
        os.fsync(self._file.fileno())
        self._file.close()
        return {"sha256": self._hash.hexdigest(), "size": self._size, "truncated": self._truncated}


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _bound_child() -> None:
    """Runs in the child before exec. The death signal holds for the case that this keeper is killed."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = OPEN_FILES[1] if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES[0], highest), highest))
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if LINUX:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Keeper:
    """Runs the job of one directory to its end. `spec.json` says what to run; `keeper.json`, `result.json` come out."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        spec = directory / "spec.json"
        self._spec: dict[str, Any] = json.loads(spec.read_text(encoding="utf-8"))
        self._input = (directory / "stdin").read_bytes()
        self._sandboxed = bool(self._spec["sandboxed"])
        self._selector = selectors.DefaultSelector()
        self._pipes: dict[str, int] = self._spec.get("pipes", {})
        """Of a job that the host speaks with: its standard input and output, and a line that ends with the host."""
        limit, log = self._spec["output_bytes"], self._spec.get("log")
        self._sinks = {"stderr": Sink(Path(log) if log else directory / "stderr", limit)}
        if not self._pipes:
            self._sinks["stdout"] = Sink(directory / "stdout", limit)
        self._main = 0
        self._status: int | None = None
        self._report = 0
        self._canceled = self._timed_out = False
        self._asked = False
        self._at_gate = bool(self._spec.get("gated"))
        self._deadline = 0.0
        self._kill_at: float | None = None
        # The environment may hold secrets: on disk for no longer than it takes to hand it over.
        spec.unlink()
        (directory / "stdin").unlink()

    def run(self) -> None:
        """Start, wait, end, write the result."""
        self._listen()
        self._note()
        started_at = time.time()
        if not self._is_let_go():
            self._finish(started_at, not_started="It was ended before it began")
            return
        started_at = time.time()
        try:
            self._start()
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._finish(started_at, not_started=_reason(error, self._spec["argv"]))
            return
        try:
            self._note()
            self._wait()
            self._finish(started_at)
        finally:  # whatever went wrong here, nothing may go on without its limits
            while self._others_left():
                self._signal(signal.SIGKILL)
                time.sleep(SWEEP_SECONDS)

    def _is_let_go(self) -> bool:
        """Whether the command may begin: at once, or when a host says so. One that dies leaves that to the next."""
        self._deadline = time.monotonic() + self._spec["seconds"]
        while self._at_gate and not self._asked and time.monotonic() < self._deadline:
            for key, _ in self._selector.select(self._patience()):
                key.data()
        self._canceled = self._at_gate and self._asked
        return not self._at_gate

    def _wait(self) -> None:
        self._deadline = time.monotonic() + self._spec["seconds"]
        while not self._is_over():
            for key, _ in self._selector.select(self._patience()):
                key.data()
            self._advance()

    def _listen(self) -> None:
        wake, woken = os.pipe()
        for end in (wake, woken):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._ask)
        signal.signal(signal.SIGUSR1, self._let_go)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._selector.register(wake, selectors.EVENT_READ, lambda: os.read(wake, 4096))
        if self._pipes:
            self._selector.register(self._pipes["life"], selectors.EVENT_READ, self._host_gone)
        if LINUX:
            _prctl(PR_SET_CHILD_SUBREAPER, 1)

    def _ask(self, *_: object) -> None:
        self._asked = True

    def _let_go(self, *_: object) -> None:
        self._at_gate = False

    def _host_gone(self) -> None:
        """The host is no more, or wants nothing of the job any more: what nobody speaks with ends."""
        self._selector.unregister(self._pipes["life"])
        self._asked = True

    def _note(self) -> None:
        """Who keeps the job and which process it is, for a later host. Written before anything is started."""
        me, main = look_up(os.getpid()), look_up(self._main) if self._main else None
        write_json(
            self._directory / "keeper.json",
            {
                "pid": os.getpid(),
                "start": me.start if me else "",
                "main": self._main,
                "main_start": main.start if main else "",
                "started_at": time.time(),
            },
        )

    def _start(self) -> None:
        argv: list[str] = list(self._spec["argv"])
        passed: list[int] = []
        if self._sandboxed:
            argv, passed = self._wrapped(argv)
        read, write = (self._pipes["in"], -1) if self._pipes else os.pipe()
        out = self._pipes["out"] if self._pipes else self._sinks["stdout"].child
        child = subprocess.Popen(
            argv,
            cwd=None if self._sandboxed else self._spec["directory"],
            env=self._spec["environment"],
            stdin=read,
            stdout=out,
            stderr=self._sinks["stderr"].child,
            start_new_session=True,
            pass_fds=passed,
            preexec_fn=_bound_child,
        )
        self._main = child.pid
        child.returncode = 0  # collected by `_reap`, together with those who were adopted
        for descriptor in (read, *passed, *([out] if self._pipes else [])):
            os.close(descriptor)
        for sink in self._sinks.values():
            os.close(sink.child)
            self._watch(sink)
        if not self._pipes:
            self._feed(write)

    def _wrapped(self, argv: list[str]) -> tuple[list[str], list[int]]:
        """The command line of bubblewrap, with the descriptors it is to read the filter from and report to."""
        self._report, report = os.pipe()
        passed, options = [report], ["--json-status-fd", str(report)]
        if self._spec["filter"]:
            program = os.open(self._directory / "filter.bpf", os.O_RDONLY)
            passed.append(program)
            options += ["--seccomp", str(program)]
        return [*self._spec["sandbox"], *options, "--", *argv], passed

    def _watch(self, sink: Sink) -> None:
        def take() -> None:
            with contextlib.suppress(BlockingIOError):
                if not sink.take():
                    self._selector.unregister(sink.pipe)

        self._selector.register(sink.pipe, selectors.EVENT_READ, take)

    def _feed(self, pipe: int) -> None:
        os.set_blocking(pipe, False)
        left = memoryview(self._input)

        def feed() -> None:
            nonlocal left
            try:
                left = left[os.write(pipe, left[:CHUNK]) :]
            except BlockingIOError:
                return
            except OSError:  # the command does not want it
                left = left[:0]
            if not left:
                self._selector.unregister(pipe)
                os.close(pipe)

        if left:
            self._selector.register(pipe, selectors.EVENT_WRITE, feed)
        else:
            os.close(pipe)

    # --- the end --------------------------------------------------------------------------------------------------

    def _patience(self) -> float:
        if self._kill_at is None:
            return min(LONGEST_WAIT, max(0.0, self._deadline - time.monotonic()))
        return max(SWEEP_SECONDS, self._kill_at - time.monotonic())

    def _is_over(self) -> bool:
        return self._status is not None and not self._others_left()

    def _advance(self) -> None:
        """What time, a request, or the end of the command asks for now."""
        alive = not self._reap()
        if self._kill_at is None:
            if alive and self._asked:
                self._canceled = True
            elif alive and time.monotonic() >= self._deadline:
                self._timed_out = True
            elif alive or not self._others_left():
                return
            self._kill_at = time.monotonic() + self._spec["grace_seconds"]
            self._signal(signal.SIGTERM)
        elif time.monotonic() >= self._kill_at:
            self._signal(signal.SIGKILL)

    def _reap(self) -> bool:
        """Collect the dead; True once the command itself is among them."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == self._main:
                    self._status = status
                if pid == 0:
                    break
        return self._status is not None

    def _others_left(self) -> bool:
        """Whether anything of the job still lives, once the command is gone.

        Linux gives every orphan below a subreaper to it: no child means no descendant."""
        self._reap()
        try:
            if LINUX:
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            else:
                os.killpg(self._main, 0)
        except (ChildProcessError, ProcessLookupError, PermissionError):
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        """Send it once to every process group of the tree: the groups are all made inside it.

        The outer bubblewrap comes last: it would take the whole sandbox with it before anybody could tidy up."""
        below = descendants(os.getpid())
        inner = [process for process in below if not (self._sandboxed and process.pid == self._main)]
        groups = {process.group for process in inner or below}
        if not LINUX:
            groups.add(self._main)
        for group in groups - {0, 1, os.getpgid(0)}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)

    def _finish(self, started_at: float, not_started: str = "") -> None:
        result: dict[str, Any] = {"exit_code": None, "signal": None}
        if not not_started:
            not_started = self._judge(result)
        for name, sink in self._sinks.items():
            if not self._main:
                os.close(sink.child)
            result[name] = sink.close()
        result.setdefault("stdout", {"sha256": hashlib.sha256(b"").hexdigest(), "size": 0, "truncated": False})
        write_json(
            self._directory / "result.json",
            result
            | {
                "started_at": started_at,
                "ended_at": time.time(),
                "timed_out": self._timed_out,
                "canceled": self._canceled,
                "not_started": not_started,
            },
            lasting=True,
        )

    def _judge(self, result: dict[str, Any]) -> str:
        """Fill in how the command ended; the reason if bubblewrap never got as far as starting it."""
        code = os.waitstatus_to_exitcode(self._status or 0)
        if not self._sandboxed or code < 0:
            result["exit_code" if code >= 0 else "signal"] = abs(code)
            return ""
        # A few lines, far below what a pipe holds, and complete: all who could write are gone.
        os.set_blocking(self._report, False)
        told = [json.loads(line) for line in os.read(self._report, CHUNK).splitlines() if line.strip()]
        inside = next((note["exit-code"] for note in told if "exit-code" in note), None)
        if inside is None:
            return "The sandbox could not start the command"
        # Bubblewrap tells an end by signal N as exit code 128 + N and in no other way.
        ended = inside - 128
        result["signal" if ended in signal.valid_signals() else "exit_code"] = (
            ended if ended in signal.valid_signals() else inside
        )
        return ""


def _reason(error: Exception, argv: list[str]) -> str:
    if isinstance(error, OSError):
        what = error.filename or argv[0]
        return f"Cannot start {what!r}: {error.strerror or error}"
    return f"Cannot start {argv[0]!r}: {error}"


def main() -> None:
    """Keep the job of the directory named on the command line.

    Standard input is the job's lock: it is held for as long as this process lives, so that a later host can tell."""
    os.umask(0o077)
    os.chdir("/")
    Keeper(Path(sys.argv[1])).run()


if __name__ == "__main__":
    main()
