"""`tally try`: the main job on a real git repository, visibly, in a temporary place that is removed afterwards.

A client like any other: it types the commands a person would type, shows them with what they print, and compares what
came of them with what the product promises. It ends with an error where a promise was not kept. May import the
standard library and `wire` alone.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tallystick import wire

SECONDS = 60.0
"""The longest any one command may take."""

FACTS = ("accepted", "persisted", "claimed", "admitted", "recorded", "working", "submitted")

CONFIG = """\
# Some verbs are for a person alone, who shows it by a terminal. This demonstration is a script that plays the person,
# so here the user id is enough. Leave this out of your own config.toml.
person_verbs = "uid"
"""

FAULTY = 'def greet(name):\n    return "Hello " + name\n'
MENDED = 'def greet(name):\n    return "Hello, " + name + "!"\n'
TEST = """\
import unittest

from greeting import greet


class Greeting(unittest.TestCase):
    def test_a_greeting_has_a_comma_and_an_exclamation_mark(self):
        self.assertEqual(greet("Ada"), "Hello, Ada!")
"""
SHOUTING = 'def greet(name):\n    return "HELLO, " + name + "!"\n'


class Broken(Exception):
    """Something was not as promised."""


def main() -> int:
    """Play it; 0 where everything was as promised."""
    if shutil.which("git") is None:
        return fail("`tally try` needs git, and there is none on PATH.", "Install git, then try again.")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    stage = Stage(Screen())
    try:
        play(stage)
    except Broken as error:
        return fail(f"Not as promised: {error}", "This is a fault of Tallystick: report it with the lines above.")
    except KeyboardInterrupt:
        return 130
    finally:
        stage.close()
    return 0


def fail(message: str, remedy: str) -> int:
    """Say what was not as promised, and the next step; the exit code."""
    sys.stderr.write(f"tally: {message}\n  → {remedy}\n")
    return 1


# --- what is played -----------------------------------------------------------------------------------------------


def play(stage: Stage) -> None:
    """The whole of it, in the order in which a newcomer would meet it."""
    screen, began = stage.screen, time.monotonic()
    screen.note("Tallystick in a minute: a request proven step by step, then one that is only claimed to be done.")
    screen.note("Home and repository are temporary; nothing of yours is touched.")
    prepare(stage)
    honest(stage)
    boastful(stage)
    ending(stage)
    screen.line()
    screen.note(f"All as promised, in {time.monotonic() - began:.0f} seconds. Your own agents next: docs/quickstart.md")


def prepare(stage: Stage) -> None:
    """A repository, two agents and a check."""
    stage.screen.heading("1. A repository with a fault and the test that shows it; two agents; a check")
    stage.git("init", "--quiet")
    stage.write("greeting.py", FAULTY)
    stage.write("test_greeting.py", TEST)
    stage.git("add", ".")
    stage.git("commit", "--quiet", "-m", "A greeting, and a test that it fails", by="you")
    stage.tally("join", "checker", "--strengths", "small fixes")
    stage.tally("join", "boaster", "--strengths", "says so itself")
    stage.tally(*"check add tests --protect test_greeting.py -- python3 -m unittest".split())


def honest(stage: Stage) -> None:
    """The main job: asked, followed, done, checked."""
    screen = stage.screen
    screen.heading("2. A request, and its seven facts, each with the one who saw it")
    asked = ("ask", "@checker", "Greet with a comma and an exclamation mark", "--expect", "change")
    task = stage.tally(*asked, "--done-when", "tests").first_word
    with Follower(stage, task) as follower:
        follower.until("persisted")
        screen.note("@checker, in another window, takes it, does it, and hands it in:")
        stage.tally("--as", "checker", "take", task)
        follower.until("working", "recorded")
        screen.note('It edits greeting.py:  return "Hello, " + name + "!"')
        stage.write("greeting.py", MENDED)
        stage.git("commit", "--quiet", "-am", "Comma and exclamation mark", by="checker")
        words = ("submit", task, "--commit", "HEAD", "--text", "Mended the greeting.")
        done = stage.tally("--as", "checker", *words, meanwhile=lambda: follower.until("submitted"))
    stage.promise("the host says that the result stands", "The result stands: done" in done.out)
    screen.heading("3. The evidence: the host itself ran the check, at that commit, in a clean worktree")
    evidence(stage, task)


def evidence(stage: Stage, task: str) -> None:
    """What the record says of it, and that it says enough."""
    stage.tally("show", task, sections=("Facts", "Result", "Check"))
    shown = stage.shown(task)
    stage.promise("seven facts are on record", [fact["fact"] for fact in shown["facts"]] == list(FACTS))
    stage.promise("each fact has a witness", all(fact["witness"] for fact in shown["facts"]))
    stage.promise("it is completed/verified", (shown["state"], shown["reason"]) == ("completed", "verified"))
    run, commit = shown["checks"][-1], stage.git("rev-parse", "HEAD", quiet=True).out.strip()
    stage.promise("the check ran at the commit that was handed in", run["commit"] == commit == shown["commit"])
    stage.promise("the check passed and ran a test", run["outcome"] == "passed" and run["tests"].startswith("1 "))
    stage.promise("output and references have digests", len(run["stdout_sha256"]) == 64 and shown["references"])


def boastful(stage: Stage) -> None:
    """Who claims without having done is refused; who bends the test is refuted."""
    screen = stage.screen
    screen.heading('4. An agent that says "done" and has done nothing')
    ask = ("ask", "@boaster", "Greet in capitals", "--expect", "change", "--done-when", "tests")
    task = stage.tally(*ask).first_word
    stage.tally("--as", "boaster", "take", task, quiet=True)
    refused = stage.tally("--as", "boaster", "submit", task, "--commit", "HEAD", "--text", "Done!", code=1)
    stage.promise("a claim without a change is refused, and why", "changes nothing since its base" in refused.err)
    screen.note("Then it writes something else and bends the test to it.")
    screen.note("The test is protected: the host runs it as it was when the task was asked.")
    stage.write("greeting.py", SHOUTING)
    stage.write("test_greeting.py", TEST.replace('"Hello, Ada!"', '"HELLO, Ada!"'))
    stage.git("commit", "--quiet", "-am", "Capitals, and the test says so too", by="boaster")
    words = ("submit", task, "--commit", "HEAD", "--text", "Done, tests are green!")
    stage.tally("--as", "boaster", *words, code=1)
    shown = stage.shown(task)
    run = shown["checks"][-1]
    stage.promise("a bent test is refuted", (shown["state"], run["outcome"]) == ("working", "failed"))
    stage.promise("the bent test is named", run["protected_changed"] == ["test_greeting.py"])


def ending(stage: Stage) -> None:
    """The board, and the chain of the log."""
    stage.screen.heading("5. The board, and the log behind all of it")
    stage.tally("board", "--all")
    tasks = json.loads(stage.tally("board", "--all", "--json", quiet=True).out)["tasks"]
    stage.promise("the board shows both tasks", sorted(task["label"] for task in tasks) == ["done", "working"])
    stage.tally("log", "verify")


# --- how it is played ---------------------------------------------------------------------------------------------


class Screen:
    """What is shown. Colour only on a terminal."""

    def __init__(self) -> None:
        self.terminal = sys.stdout.isatty()
        self.colours = self.terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self.lock = threading.Lock()

    def paint(self, text: str, code: str) -> str:
        """Text in a colour, where there are colours."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours else text

    def line(self, text: str = "") -> None:
        """One line, as UTF-8 whatever the locale."""
        with self.lock:
            sys.stdout.flush()
            os.write(1, (text + "\n").encode("utf-8", "backslashreplace"))

    def heading(self, text: str) -> None:
        """What comes next."""
        self.line()
        self.line(self.paint(text, "1"))

    def note(self, text: str) -> None:
        """A word of explanation."""
        self.line(self.paint(f"# {text}", "2"))

    def command(self, words: tuple[str, ...]) -> None:
        """A command as a person types it."""
        self.line("$ " + self.paint(" ".join(map(_quoted, words)), "36"))

    def fact(self, fact: dict[str, Any]) -> None:
        """One fact with its witness."""
        mark = self.paint("✓ " + fact["fact"].ljust(10), "32")
        self.line(f"  {mark} by {_short(fact['witness']).ljust(22)} {fact['evidence']}".rstrip())
        if self.terminal:
            time.sleep(0.2)


def _quoted(word: str) -> str:
    safe = word and all(c.isalnum() or c in "@#_-./:=" for c in word)
    return word if safe else shlex.quote(word) if '"' in word or "$" in word else f'"{word}"'


def _short(text: str) -> str:
    """Words, with ids as the product shows them: the type and the last six characters."""
    words = text.split()
    return " ".join(word[:4] + word[-6:].lower() if word[3:4] == "_" and len(word) == 30 else word for word in words)


class Output:
    """What a command answered."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def first_word(self) -> str:
        """The id that a receipt begins with."""
        return self.out.split(maxsplit=1)[0] if self.out.strip() else ""


class Stage:
    """A temporary home and repository, and the commands run there."""

    def __init__(self, screen: Screen, prefix: str = "tally-try-", repository: str = "greeter") -> None:
        self.screen = screen
        self.place = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
        self.home, self.repository = self.place / "home", self.place / repository
        self.home.mkdir(mode=0o700)
        self.repository.mkdir()
        (self.home / "config.toml").write_text(CONFIG, encoding="utf-8")
        (self.home / "config.toml").chmod(0o600)
        self.environment = self._environment()

    def _environment(self) -> dict[str, str]:
        """Nothing of the user's settings, except where programs are found."""
        kept = ("LANG", "LC_ALL", "LC_CTYPE", "TERM", "NO_COLOR", "TMPDIR", "SYSTEMROOT")
        own = {name: os.environ[name] for name in kept if name in os.environ}
        # The check says `python3`: that is the Python of this very installation.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        git = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "0"}
        return {**own, **git, "PATH": path, "HOME": str(self.place), "TALLY_HOME": str(self.home)}

    def write(self, name: str, text: str) -> None:
        """A file of the repository."""
        (self.repository / name).write_text(text, encoding="utf-8")

    def git(self, *words: str, by: str = "", quiet: bool = False) -> Output:
        """A git command in the repository, by somebody."""
        who = {f"GIT_{role}_{what}": f"{by}{end}" for role in ("AUTHOR", "COMMITTER") for what, end in _IDENTITY}
        output = self._run(("git", *words), ["git", *words], who if by else {}, quiet=quiet)
        self.promise(f"`git {shlex.join(words)}` works: {output.err.strip()}", output.code == 0)
        return output

    def tally(
        self,
        *words: str,
        code: int = 0,
        quiet: bool = False,
        sections: tuple[str, ...] = (),
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Output:
        """A `tally` command in the repository. Of its output only some sections are shown, where they are named."""
        output = self._run(("tally", *words), tally_command(*words), {}, quiet=quiet, meanwhile=meanwhile)
        if not quiet or output.code != code:
            for line in _only(output.out, sections) + output.err.splitlines():
                self.screen.line(f"  {line}".rstrip())
        self.promise(f"`tally {shlex.join(words)}` ends with exit code {code}, not {output.code}", output.code == code)
        return output

    def shown(self, task: str) -> dict[str, Any]:
        """All that is known of a task."""
        found: dict[str, Any] = json.loads(self.tally("show", task, "--json", quiet=True).out)
        return found

    def _run(
        self,
        typed: tuple[str, ...],
        argv: list[str],
        more: dict[str, str],
        *,
        quiet: bool,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Output:
        if not quiet:
            self.screen.command(typed)
        with subprocess.Popen(
            argv,
            cwd=self.repository,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as child:
            try:
                meanwhile()
                out, err = child.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                raise Broken(f"`{shlex.join(typed)}` took longer than {SECONDS:.0f} seconds.") from None
            finally:
                child.kill()
        return Output(child.returncode, _text(out), _text(err))

    def promise(self, what: str, kept: object) -> None:
        """Compare with what is promised."""
        if not kept:
            raise Broken(f"{what}.")

    def close(self) -> None:
        """Stop the host and remove everything."""
        subprocess.run(tally_command("down"), env=self.environment, capture_output=True, timeout=SECONDS, check=False)
        shutil.rmtree(self.place, ignore_errors=True)


_IDENTITY = (("NAME", ""), ("EMAIL", "@example.org"))


def tally_command(*words: str) -> list[str]:
    """`tally` of this very installation."""
    return program("from tallystick._tally import main", *words)


def program(found: str, *words: str) -> list[str]:
    """A `main` of this very installation, as a command; `found` is the statement that imports it."""
    root = str(Path(wire.__file__).resolve().parent.parent)
    start = f"import sys; sys.path.insert(0, {root!r}); {found}; sys.exit(main())"
    return [sys.executable, "-I", "-X", "utf8", "-c", start, *words]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _only(text: str, sections: tuple[str, ...]) -> list[str]:
    """The lines of some sections of a page, with `…` where others were left out; all where none are named."""
    if not sections:
        return text.splitlines()
    found: list[str] = []
    for block in text.split("\n\n"):
        if block.startswith(sections):
            found += block.splitlines()
        elif found[-1:] != ["…"]:
            found.append("…")
    return found


class Follower:
    """`tally show --follow` in another window: shows each fact when it appears."""

    def __init__(self, stage: Stage, task: str) -> None:
        self.stage, self.seen = stage, set[str]()
        self.facts: list[dict[str, Any]] = []
        self.changed = threading.Condition()
        stage.screen.command(("tally", "show", "--follow", task))
        self.process = subprocess.Popen(
            tally_command("show", "--follow", task, "--json"),
            cwd=stage.repository,
            env=stage.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(SECONDS)
        self.thread.join(SECONDS)

    def _read(self) -> None:
        for line in self.process.stdout or ():
            with self.changed:
                self.facts = json.loads(line)["facts"]
                self.changed.notify_all()

    def until(self, *names: str) -> None:
        """Wait for these facts, and show what is new."""
        with self.changed:
            kept = self.changed.wait_for(lambda: {*names} <= {fact["fact"] for fact in self.facts}, SECONDS)
            new = [fact for fact in self.facts if fact["fact"] not in self.seen]
        self.stage.promise(f"{' and '.join(names)} appear within {SECONDS:.0f} seconds", kept)
        self.seen |= {fact["fact"] for fact in new}
        for fact in new:
            self.stage.screen.fact(fact)
