"""A real terminal for a client's user interface: a tmux server of its own, with its own socket."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest

SECONDS = 120
"""The bound of a wait for something on the screen."""
_PERIOD = 0.1
_AGAIN = 5.0
"""Seconds without any sign of what was pressed or typed, after which it is done once more: a program drops what comes
while it is still drawing. Done twice, none of it does harm."""
_LONG = 30.0
"""The same of a prompt, which would stand there twice."""
_MARKS = "›❯>●"
"""What stands in front of the entry of a list that Enter would take."""


class Terminal:
    """A program in a terminal; a context manager. Skips the test without tmux.

    `patient`: the program takes no Enter shortly after a paste.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        base: Path,
        columns: int = 120,
        rows: int = 40,
        patient: bool = False,
    ) -> None:
        self._tmux = shutil.which("tmux") or ""
        if not self._tmux:
            pytest.skip("NOT TESTED IN A REAL TERMINAL: tmux was not found. Install the package tmux.")
        self._argv, self._cwd, self._env = [*argv], cwd, dict(env)
        self._socket = base / f"tmux-{os.urandom(3).hex()}"
        self._size = (str(columns), str(rows))
        self._nap = threading.Event()
        self._patient = patient

    def __enter__(self) -> Self:
        columns, rows = self._size
        # `exec env` with all variables: the shell that tmux starts would else add its own.
        words = ["env", "-i", *(f"{name}={value}" for name, value in self._env.items()), *self._argv]
        self._do("-f", os.devnull, "new-session", "-d", "-x", columns, "-y", rows, "-c", str(self._cwd), *words)
        self._do("set-option", "-g", "remain-on-exit", "on")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the terminal, and the program as when a person closes the window."""
        subprocess.run(
            [self._tmux, "-S", str(self._socket), "kill-server"], capture_output=True, check=False, env=self._around()
        )

    def _around(self) -> dict[str, str]:
        return {"PATH": self._env["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color", "HOME": self._env["HOME"]}

    def _do(self, *words: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            [self._tmux, "-u", "-S", str(self._socket), *words],
            capture_output=True,
            text=True,
            encoding="utf-8",
            input=stdin,
            env=self._around(),
            check=False,
            timeout=SECONDS,
        )
        if done.returncode:
            raise AssertionError(f"tmux {words}: {done.stderr.strip()}")
        return done.stdout

    def screen(self, history: bool = False) -> str:
        """What it shows; with `history` also what has been scrolled away."""
        return self._do("capture-pane", "-p", "-J", *(["-S", "-"] if history else []))

    def type(self, text: str) -> None:
        """Key by key, as a person types; returns once it stands on the screen."""
        self._insist(lambda: self._do("send-keys", "-l", "--", text), lambda screen: text in screen)

    def paste(self, text: str) -> None:
        """In one piece (bracketed where the program wants it): for scripts and long texts."""
        self._do("load-buffer", "-", stdin=text)
        self._do("paste-buffer", "-p", "-d")

    def say(self, text: str) -> None:
        """Paste a prompt, see it stand there, and send it."""
        end = text.split()[-1][-8:]

        def rows(screen: str) -> list[int]:
            """Where it stands: that changes when it is sent."""
            return [n for n, line in enumerate(screen.splitlines()) if end in line or "[Pasted" in line]

        before = rows(self._insist(lambda: self.paste(text), rows, _LONG))
        if self._patient:
            before = rows(self.still())
        self.insist("Enter", lambda screen: rows(screen) != before)

    def choose(self, words: str) -> None:
        """Go to the entry of a list that has these words, and confirm it."""

        def is_marked(screen: str) -> bool:
            return any(line.strip()[:1] in _MARKS and words in line for line in screen.splitlines())

        if not is_marked(self.screen()):
            self.insist("Down", is_marked)  # a list goes round: one too many costs a few more
        self.insist("Enter", lambda screen: words not in screen)

    def insist(self, key: str, condition: str | Callable[[str], object]) -> str:
        """Press a key, and again while nothing has come of it; the screen once the condition holds."""
        return self._insist(lambda: self.press(key), condition)

    def _insist(
        self, act: Callable[[], object], condition: str | Callable[[str], object], again: float = _AGAIN
    ) -> str:
        for _ in range(int(SECONDS / again)):
            act()
            screen, holds = self._look(condition, again)
            if holds:
                return screen
        raise AssertionError(f"nothing came of it within {SECONDS} s\n{self.screen()}")

    def press(self, *keys: str) -> None:
        """Keys by tmux' names: Enter, Escape, C-c, Up."""
        self._do("send-keys", *keys)

    def alive(self) -> bool:
        """Whether the program still runs."""
        return self._do("display-message", "-p", "#{pane_dead}").strip() == "0"

    def wait(self, condition: str | Callable[[str], object], seconds: float = SECONDS) -> str:
        """The screen, as soon as the text stands on it or the condition holds for it."""
        screen, holds = self._look(condition, seconds)
        assert holds, f"not on the screen within {seconds} s: {condition}\n{screen}"
        return screen

    def _look(self, condition: str | Callable[[str], object], seconds: float) -> tuple[str, bool]:
        """The newest screen, and whether the condition came to hold in that time."""
        holds = condition if callable(condition) else lambda screen: condition in screen
        screen = ""
        for _ in range(int(seconds / _PERIOD)):
            screen = self.screen()
            if holds(screen):
                return screen, True
            self._nap.wait(_PERIOD)
        return screen, False

    def still(self, seconds: float = SECONDS, looks: int = 8) -> str:
        """The screen, once it has been the same for some looks on end. (What shows a clock or a spinner never is.)"""
        last: list[str] = []

        def holds(screen: str) -> bool:
            last.append(screen)
            return bool(screen.strip()) and len(last) > looks and len(set(last[-looks:])) == 1

        return self.wait(holds, seconds)
