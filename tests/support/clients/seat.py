"""A coding client with its own private home, model and working directory; everything of it ends with the test.

    with Model() as model, Seat("claude", model, mcp={"probe": [sys.executable, ECHO]}) as seat:
        done = seat.headless(script({"shell": "echo hello"}, {"text": "It said {{result}}"}))
        assert "hello" in done.out
        with seat.open() as screen:
            screen.say(script({"text": "Hello."}))
            screen.wait("Hello.")

The environment holds nothing of the machine's but a search path. The address of a proxy stands in it for all that is
not loopback: the model's, which refuses and notes it, so nothing goes out.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.support.clients.install import need
from tests.support.clients.pins import CLIENTS
from tests.support.clients.setups import SETUPS, Wishes
from tests.support.clients.terminal import Terminal
from tests.support.model import Model

SECONDS = 180
"""The bound of a client's run, generous for a machine that does much at a time."""
MARK = "TALLY_TEST_SEAT"
"""In the environment of all that a seat started, also of what left its process group."""


@dataclass(frozen=True)
class Done:
    """How a headless run ended."""

    code: int
    out: str
    err: str
    seconds: float


class Seat:
    """A client; a context manager. Skips the test when the client cannot be had."""

    def __init__(
        self,
        name: str,
        model: Model,
        *,
        cwd: Path | None = None,
        mcp: Mapping[str, Sequence[str]] | None = None,
        hooks: Mapping[str, str] | None = None,
        rewake: Sequence[str] = (),
        allow: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.pin = CLIENTS[name]
        self.name, self.model = name, model
        self.folder = need(name)
        # Short: the path of a socket in a home has at most 108 bytes.
        self.base = Path(tempfile.mkdtemp(prefix="seat-"))
        self.home, self.cwd = self.base / "home", cwd or self.base / "work"
        for path in (self.home, self.cwd, self.base / "tmp"):
            path.mkdir(parents=True, exist_ok=True)
        wishes = Wishes(mcp or {}, hooks or {}, allow, frozenset(rewake))
        self.env = {
            **self._surroundings(),
            **SETUPS[name](self.home, self.cwd, model.url, wishes),
            **(env or {}),
        }

    def _surroundings(self) -> dict[str, str]:
        bins = [self.folder / self.pin.bin, Path(shutil.which("node") or "/usr/bin/node").parent]
        path = os.pathsep.join([*map(str, bins), str(Path(sys.executable).parent), "/usr/local/bin:/usr/bin:/bin"])
        xdg = {"CONFIG": ".config", "CACHE": ".cache", "DATA": ".local/share", "STATE": ".local/state"}
        return {
            "HOME": str(self.home),
            "PATH": path,
            "TMPDIR": str(self.base / "tmp"),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/sh",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            "HTTPS_PROXY": self.model.url,
            "HTTP_PROXY": self.model.url,
            MARK: str(self.base),
            **{f"XDG_{word}_HOME": str(self.home / place) for word, place in xdg.items()},
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        shutil.rmtree(self.base, ignore_errors=True)

    # --- running it ---------------------------------------------------------------------------------------------------

    def argv(self, *words: str) -> list[str]:
        """The program with these words."""
        return [str(self.folder / self.pin.bin / self.pin.program), *words]

    def start(self, *words: str, **options: object) -> subprocess.Popen[str]:
        """The program in a process group of its own, with pipes; `options` are Popen's."""
        around = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(
            self.argv(*words), cwd=self.cwd, env=self.env, text=True, start_new_session=True, **around
        )

    def run(self, *words: str, stdin: str | None = None, seconds: float = SECONDS) -> Done:
        """The program to its end."""
        begun = time.monotonic()
        child = self.start(*words, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
        try:
            out, err = child.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
            raise AssertionError(
                f"{self.name} did not end in {seconds} s:\n{out}\n{err}\n{self.model.told()}"
            ) from None
        return Done(child.returncode, out, err, time.monotonic() - begun)

    def headless(self, prompt: str, *more: str, seconds: float = SECONDS) -> Done:
        """One turn without a terminal; `more` are further options of the client."""
        given = prompt if self.name in _BY_INPUT else None
        return self.run(*self._words(prompt, *more), stdin=given, seconds=seconds)

    def begin(self, prompt: str, *more: str) -> subprocess.Popen[str]:
        """The same, under way; what it says goes nowhere."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        child = self.start(*self._words(prompt, *more), **quiet)
        if self.name in _BY_INPUT:
            child.stdin.write(prompt)
        child.stdin.close()
        return child

    def _words(self, prompt: str, *more: str) -> list[str]:
        words = [*HEADLESS[self.name], *more]
        if self.name in _BY_INPUT:
            return words
        return [*words, *(["-p"] if self.name == "gemini" else []), prompt]

    def terminal(self, *words: str, columns: int = 120, rows: int = 40) -> Terminal:
        """Its real user interface, in a terminal of its own."""
        return Terminal(
            self.argv(*words),
            cwd=self.cwd,
            env=self.env,
            base=self.base,
            columns=columns,
            rows=rows,
            patient=self.name == "gemini",
        )

    @contextmanager
    def open(self, *words: str, trust: bool = True) -> Iterator[Terminal]:
        """The same, once a person could type. Codex asks about new hooks first: `trust` says what a person answers."""
        with self.terminal(*words) as screen:
            shown = screen.wait(lambda text: READY[self.name] in text or _ASKED in text)
            if _ASKED in shown and READY[self.name] not in shown:
                if trust:
                    screen.choose("Trust all and continue")
                else:
                    screen.insist("Escape", lambda text: _ASKED not in text)
                screen.wait(READY[self.name])
            yield screen

    # --- ending it ----------------------------------------------------------------------------------------------------

    def processes(self) -> list[int]:
        """All living processes that this seat started, whoever is their parent now."""
        mark, found = f"{MARK}={self.base}".encode(), []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (place / "environ").read_bytes().split(b"\0") and int(place.name) != os.getpid():
                    found.append(int(place.name))
            except OSError:
                continue
        return found

    def end(self) -> None:
        """Kill all of them."""
        while found := self.processes():
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue


READY = {
    "codex": "fake-model",
    "claude": "for agents",
    "gemini": "Type your message",
    "opencode": "Ask anything",
    "pi": "fake-model",
}
"""What a client shows when it can be typed to."""
_ASKED = "Hooks need review"
HEADLESS = {
    "codex": ("exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"),
    "claude": ("-p", "--output-format", "stream-json", "--verbose"),
    "gemini": ("--approval-mode", "yolo", "-o", "json"),
    "opencode": ("run", "--format", "json"),
    "pi": ("--mode", "json", "-p"),
}

"""The words for a turn without a terminal whose output a program can read."""
_BY_INPUT = ("opencode",)
"""The prompt is given by the standard input: as a word it would be quoted."""
