"""Usage lines, the overview, the help of a verb, and the reference from which the docs are generated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tallystick.edge.cli.page import Paint, Sheet
from tallystick.edge.cli.spec import GLOBAL_OPTIONS, GROUPS, Argument, Option, Verb
from tallystick.edge.cli.width import pad

EXIT_CODES = {
    0: "done",
    1: "refused or failed",
    2: "the command line or a value in it is wrong",
    3: "held as a draft",
    4: "waiting for a person",
    5: "unverified",
    124: "the wait timed out; the task goes on",
    130: "interrupted; the task goes on",
}
"""What the exit codes of `tally` mean."""


def usage(verb: Verb) -> str:
    """`tally ask ADDRESS TITLE [--body T]…` in one line."""
    words = ["tally", verb.name, *map(_argument, verb.arguments), *map(_option, verb.options)]
    return " ".join([*words, f"-- {verb.argv}"] if verb.argv else words)


def _argument(argument: Argument) -> str:
    name = "|".join(argument.choices) if 0 < len(argument.choices) < 6 else argument.name
    name += "…" if argument.many else ""
    return name if argument.required else f"[{name}]"


def option_form(option: Option) -> str:
    """`--input REF…`, `--wait [D]`, `--json`."""
    value = "|".join(option.choices) or option.value
    value += "…" if option.many else ""
    if not value:
        return f"--{option.name}"
    return f"--{option.name} [{value}]" if option.optional else f"--{option.name} {value}"


def _option(option: Option) -> str:
    form = option_form(option)
    return f"[{form} | --{option.name} -- ARGV…]" if option.argv else f"[{form}]"


def visible(verbs: Mapping[str, Verb]) -> list[Verb]:
    """The verbs that people are shown, in their order."""
    return [verb for name, verb in verbs.items() if name == verb.name and not name.startswith("__")]


def overview(sheet: Sheet, verbs: Mapping[str, Verb]) -> None:
    """What `tally` alone prints."""
    sheet.line("tally: ask any coding agent from any other, see how far it got, get back what you can check.")
    for group in GROUPS:
        sheet.heading(group)
        for name, summary in _families(verb for verb in visible(verbs) if verb.group == group):
            sheet.line(Paint(pad(name, 11), "cyan"), " ", summary, indent=2)
    sheet.heading("With every verb")
    for option in GLOBAL_OPTIONS:
        sheet.line(Paint(pad(option_form(option), 14), "cyan"), " ", option.help, indent=2)
    sheet.blank()
    sheet.line("More: tally help VERB")


def _families(verbs: Iterable[Verb]) -> list[tuple[str, str]]:
    """Names with summaries; a family such as `check add|list` is one."""
    found: dict[str, str] = {}
    for verb in verbs:
        found.setdefault(verb.name.split(" ")[0], verb.summary)
    return list(found.items())


def verb_help(sheet: Sheet, verb: Verb, verbs: Mapping[str, Verb]) -> None:
    """What `tally VERB --help` prints; of a family such as `watch`, also how the others of it are used."""
    sheet.line(Paint("usage", "bold"), " ", usage(verb))
    sheet.blank()
    sheet.line(verb.summary)
    if verb.also:
        sheet.line(f"Also called: {', '.join(verb.also)}.")
    if verb.notes:
        sheet.line(verb.notes)
    if others := _others(verb, verbs):
        sheet.heading("The others")
        for other in others:
            sheet.line(usage(other), indent=2)
    if verb.arguments:
        sheet.heading("Arguments")
        for argument in verb.arguments:
            sheet.line(Paint(pad(argument.name, 22), "cyan"), "  ", argument.help, indent=2)
    sheet.heading("Options")
    for option in (*verb.options, *GLOBAL_OPTIONS):
        sheet.line(Paint(pad(option_form(option), 22), "cyan"), "  ", option.help, indent=2)
    sheet.heading("Example")
    sheet.line(verb.example, indent=2)


def _others(verb: Verb, verbs: Mapping[str, Verb]) -> list[Verb]:
    """The rest of the family, for the one that its name alone means."""
    family = verb.name.split(" ")[0]
    if family not in verb.also:
        return []
    return [other for other in visible(verbs) if other is not verb and other.name.startswith(f"{family} ")]


def reference_of(verbs: Mapping[str, Verb]) -> dict[str, Any]:
    """All verbs, options and exit codes as plain data."""
    return {
        "verbs": [_verb_data(verb) for verb in visible(verbs)],
        "options": [_option_data(option) for option in GLOBAL_OPTIONS],
        "exit_codes": {str(code): meaning for code, meaning in EXIT_CODES.items()},
    }


def _verb_data(verb: Verb) -> dict[str, Any]:
    return {
        "name": verb.name,
        "group": verb.group,
        "summary": verb.summary,
        "usage": usage(verb),
        "also": list(verb.also),
        "notes": verb.notes,
        "arguments": [{"name": a.name, "help": a.help, "required": a.required, "many": a.many} for a in verb.arguments],
        "options": [_option_data(option) for option in verb.options],
        "example": verb.example,
    }


def _option_data(option: Option) -> dict[str, Any]:
    form = option_form(option)
    return {"name": f"--{option.name}", "form": form, "help": option.help, "choices": list(option.choices)}
