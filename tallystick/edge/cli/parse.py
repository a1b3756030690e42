"""From the words after `tally` to a verb and its values. Leftover input is an error, and it says what was meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallystick.edge.cli.spec import GLOBAL_OPTIONS, Argument, Option, Verb

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+|\d+(?:\.\d+)?")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Usage(Exception):
    """The command line cannot be understood. `verb` is the one whose usage helps, if it was reached."""

    def __init__(self, message: str, remedy: str = "", verb: Verb | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.verb = verb


class Parsed(msgspec.Struct, frozen=True):
    """What was typed. Values by the names of options and arguments, in lower case."""

    verb: Verb | None
    values: dict[str, Any]
    json: bool = False
    help: bool = False
    as_name: str = ""
    workspace: str = ""

    def text(self, name: str) -> str:
        """The value, or empty where it was not given."""
        value = self.values.get(name, "")
        return value if isinstance(value, str) else ""

    def many(self, name: str) -> tuple[str, ...]:
        """All values, or none."""
        value = self.values.get(name, ())
        return value if isinstance(value, tuple) else (value,)

    def has(self, name: str) -> bool:
        """Whether it was given, with or without a value."""
        return name in self.values

    def maybe(self, name: str) -> str | None:
        """The value, or None where it was not given."""
        return self.text(name) if name in self.values else None

    def number(self, name: str) -> int | None:
        """The value of an option of kind number."""
        return int(self.text(name)) if name in self.values else None


def seconds_of(text: str) -> float | None:
    """A duration such as `90s`, `1h30m` or `20` in seconds; None where it is none."""
    if _DURATION.fullmatch(text) is None:
        return None
    parts = re.findall(r"([\d.]+)([smhd]?)", text)
    return sum(float(number) * _SECONDS[unit or "s"] for number, unit in parts)


def nearest(word: str, words: Iterable[str]) -> str:
    """`Did you mean …?` where one is near, else nothing."""
    bare = {known.removeprefix("--"): known for known in words}
    close = difflib.get_close_matches(word.lower().removeprefix("--"), list(bare), n=1, cutoff=0.65)
    return f"Did you mean `{bare[close[0]]}`?" if close else ""


def wants_json(argv: Iterable[str]) -> bool:
    """Whether the answer, an error too, is to be JSON: looked at before anything can be wrong."""
    for word in argv:
        if word == "--":
            return False
        if word == "--json":
            return True
    return False


def parse(argv: list[str], verbs: Mapping[str, Verb]) -> Parsed:
    """The verb and its values, or `Usage`."""
    _check_words(argv)
    words, common = _take_common(argv)
    verb, rest = _find_verb(words, verbs)
    asks_help = bool(common.pop("help", False))
    values = {} if verb is None or asks_help else _Reader(verb).read(rest)
    return Parsed(
        verb=verb,
        values=values,
        json=bool(common.get("json")),
        help=asks_help,
        as_name=str(common.get("as", "")),
        workspace=str(common.get("workspace", "")),
    )


def _check_words(argv: list[str]) -> None:
    for word in argv:
        if any("\ud800" <= character <= "\udfff" for character in word):
            raise Usage("An argument is not valid UTF-8.", "Names, texts and paths are UTF-8; rename the file.")
        if "\0" in word:
            raise Usage("An argument contains a NUL character.", "Leave it out.")


def _take_common(argv: list[str]) -> tuple[list[str], dict[str, Any]]:
    """The words without the options of every verb, and those. What follows `--` is left alone."""
    end = argv.index("--") if "--" in argv else len(argv)
    known = {option.name: option for option in GLOBAL_OPTIONS}
    words: list[str] = []
    common: dict[str, Any] = {}
    head = argv[:end]
    while head:
        word = head.pop(0)
        name, given, value = word.removeprefix("--").partition("=")
        option = known.get("help" if word == "-h" else name if word.startswith("--") else "")
        if option is None:
            words.append(word)
        elif option.value:
            common[option.name] = value if given else _next(option, head)
        elif given:
            raise Usage(f"--{option.name} takes no value.", f"Leave out `={value}`.")
        else:
            common[option.name] = True
    return words + argv[end:], common


def _next(option: Option, words: list[str]) -> str:
    if not words:
        raise Usage(f"--{option.name} needs a value: {option.value}.")
    return words.pop(0)


def _find_verb(words: list[str], verbs: Mapping[str, Verb]) -> tuple[Verb | None, list[str]]:
    if not words:
        return None, []
    first, second = words[0], words[1] if len(words) > 1 else ""
    if first == "--version":
        return verbs["version"], words[1:]
    if f"{first} {second}" in verbs:
        return verbs[f"{first} {second}"], words[2:]
    family = [name.split(" ")[1] for name in verbs if name.startswith(f"{first} ")]
    if family and second and not second.startswith("-"):
        known = f"Use one of: {', '.join(f'{first} {name}' for name in family)}."
        raise Usage(f"`tally {first}` has no `{second}`.", nearest(second, family) or known)
    if first in verbs:
        return verbs[first], words[1:]
    if first.startswith("-"):
        options = [f"--{option.name}" for option in GLOBAL_OPTIONS]
        raise Usage(f"There is no option {first} before the verb.", nearest(first, options) or "See `tally help`.")
    singles = [name for name in verbs if not name.startswith("__") and " " not in name]
    raise Usage(f"There is no verb `{first}`.", nearest(first, singles) or "See `tally help`.")


class _Reader:
    """Reads the words after one verb."""

    def __init__(self, verb: Verb) -> None:
        self.verb = verb
        self.values: dict[str, Any] = {}
        self.places: list[str] = []
        self.run: list[str] | None = None
        """The values of the option with many that was read last: further words belong to it."""
        self.runs: list[list[str]] = []

    def read(self, words: list[str]) -> dict[str, Any]:
        """All values."""
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                self._after_dashes(rest)
                break
            if word.startswith("-") and word != "-":
                self._option(word, rest)
            else:
                (self.places if self.run is None else self.run).append(word)
        self._give_back()
        self._place()
        self.values = {name: tuple(v) if isinstance(v, list) else v for name, v in self.values.items()}
        return self.values

    def _after_dashes(self, rest: list[str]) -> None:
        if self.verb.argv:
            self.values["argv"] = tuple(rest)
        else:
            self.places.extend(rest)

    def _option(self, word: str, rest: list[str]) -> None:
        name, given, value = word.removeprefix("--").partition("=")
        option = self.verb.option(name) if word.startswith("--") else None
        if option is None:
            raise self._unknown(word)
        self.run = None
        if option.argv and not given and rest[:1] == ["--"]:
            self._command(option, rest)
        elif not option.value:
            if given:
                raise self._wrong(f"--{name} takes no value.", f"Leave out `={value}`.")
            self.values[name] = True
        else:
            self._value(option, value if given else self._next(option, rest))

    def _command(self, option: Option, rest: list[str]) -> None:
        argv = tuple(rest[1:])
        if not argv:
            raise self._wrong(f"--{option.name} -- needs a command after it.", "")
        self.values[f"{option.name}-argv"] = argv
        rest.clear()

    def _next(self, option: Option, rest: list[str]) -> str:
        if option.optional:
            return rest.pop(0) if rest and seconds_of(rest[0]) is not None else ""
        known = rest and rest[0].startswith("--") and self.verb.option(rest[0][2:].partition("=")[0]) is not None
        if not rest or rest[0] == "--" or known:
            raise self._wrong(f"--{option.name} needs a value: {option.value}.", "")
        return rest.pop(0)

    def _value(self, option: Option, value: str) -> None:
        if not (option.optional and not value):
            self._check(f"--{option.name}", value, option.kind, option.choices)
        if option.many:
            self.run = self.values.setdefault(option.name, [])
            self.run.append(value)
            self.runs.append(self.run)
        elif option.name in self.values:
            raise self._wrong(f"--{option.name} is given twice.", "Give it once.")
        else:
            self.values[option.name] = value

    def _check(self, name: str, value: str, kind: str, choices: tuple[str, ...]) -> None:
        if kind == "number" and not (value.isascii() and value.isdigit() and len(value) < 19):
            raise self._wrong(f"{name} is a whole number, not `{value}`.", "")
        if kind == "duration" and seconds_of(value) is None:
            raise self._wrong(f"{name} is a duration, not `{value}`.", "Write it as 90s, 5m, 2h or 3d.")
        if choices and value not in choices:
            known = f"Use one of: {', '.join(choices)}."
            raise self._wrong(f"{name} cannot be `{value}`.", f"{nearest(value, choices)} {known}".strip())

    def _give_back(self) -> None:
        """`--input A B TITLE`: words that the verb itself needs are the last of those an option with many took."""
        missing = sum(argument.required for argument in self.verb.arguments) - len(self.places)
        for run in reversed(self.runs):
            count = min(max(0, missing), len(run) - 1)
            if count:
                self.places.extend(run[-count:])
                del run[-count:]
                missing -= count

    def _place(self) -> None:
        words = list(self.places)
        for argument in self.verb.arguments:
            if not words:
                if argument.required:
                    raise self._wrong(f"{argument.name} is missing: {_sentence(argument)}", "")
                continue
            taken = words if argument.many else words[:1]
            words = [] if argument.many else words[1:]
            for word in taken:
                self._check(argument.name, word, "text", argument.choices)
            self.values[argument.name.lower()] = tuple(taken) if argument.many else taken[0]
        if words:
            raise self._wrong(f"There is no place for `{words[0]}`.", "Put a text of several words in quotes.")

    def _unknown(self, word: str) -> Usage:
        options = [f"--{option.name}" for option in (*self.verb.options, *GLOBAL_OPTIONS)]
        hint = nearest(word.partition("=")[0], options)
        return self._wrong(
            f"`tally {self.verb.name}` has no option {word}.", hint or "A text that begins so: after --."
        )

    def _wrong(self, message: str, remedy: str) -> Usage:
        return Usage(message, remedy, self.verb)


def _sentence(argument: Argument) -> str:
    return argument.help[:1].lower() + argument.help[1:]
