"""Completion of shells: the scripts, and what fits at the end of a line. Silent about everything that goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tallystick.core.errors import Refused
from tallystick.core.identity import short
from tallystick.edge.cli.escape import escape
from tallystick.edge.cli.parse import Usage
from tallystick.edge.cli.run import Run
from tallystick.edge.cli.spec import GLOBAL_OPTIONS, Option, Verb

_BASH = r"""# bash completion of tally; in ~/.bashrc: eval "$(tally completion bash)"
_tally() {
    local line=${COMP_LINE:0:COMP_POINT} words current cut IFS=$' \t\n'
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[${#words[@]}-1]}
    IFS=$'\n'
    COMPREPLY=($(tally __complete -- "${words[@]:1}" 2>/dev/null))
    cut=${current%"${current##*[@:=]}"}  # readline replaces only what follows these
    [[ $cut ]] && COMPREPLY=("${COMPREPLY[@]#"$cut"}")
    return 0
}
complete -o default -F _tally tally
"""

_ZSH = r"""#compdef tally
# zsh completion of tally; in ~/.zshrc, after compinit: eval "$(tally completion zsh)"
_tally() {
    local -a found
    found=(${(f)"$(tally __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#found )); then compadd -- $found; else _files; fi
}
compdef _tally tally
"""

_FISH = r"""# fish completion of tally; in config.fish: tally completion fish | source
function __tally_complete
    set -l words (commandline -opc) (commandline -ct)
    tally __complete -- $words[2..-1] 2>/dev/null
end
complete -c tally -a '(__tally_complete)'
"""

SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""The script of each shell."""


async def complete(run: Run) -> int:
    """`tally __complete -- WORDS…`: what fits in the place of the last word, one in each line."""
    try:
        found = await candidates(run, list(run.parsed.many("argv")))
    except (Refused, Usage):
        return 0
    if found:
        await run.call.out("".join(f"{escape(word)}\n" for word in found))
    return 0


async def candidates(run: Run, words: list[str]) -> list[str]:
    """What begins like the last word."""
    *before, last = words or [""]
    if "--" in before:
        return []
    option = _open_option(before, run.verbs)
    if option is not None and not last.startswith("--"):
        found = list(option.choices) or await _names(run, option.completes, last)
    elif last.startswith("-"):
        found = [f"--{o.name}" for o in (*_options(before, run.verbs), *GLOBAL_OPTIONS)]
    else:
        found = await _words(run, _plain(before, run.verbs), last)
    return sorted({word for word in found if word.startswith(last) and " " not in word})


def _verb(words: list[str], verbs: Mapping[str, Verb]) -> tuple[Verb | None, int]:
    """The verb that words without options lead to, and how many of them are its name."""
    for size in (2, 1):
        name = " ".join(words[:size])
        if len(words) >= size and name in verbs:
            return verbs[name], size
    return None, 0


def _options(words: list[str], verbs: Mapping[str, Verb]) -> tuple[Option, ...]:
    verb, _ = _verb([word for word in words if not word.startswith("-")], verbs)
    return verb.options if verb else ()


def _open_option(words: list[str], verbs: Mapping[str, Verb]) -> Option | None:
    """The option that still needs its value."""
    if not words or not words[-1].startswith("--"):
        return None
    known = (*_options(words, verbs), *GLOBAL_OPTIONS)
    return next((o for o in known if f"--{o.name}" == words[-1] and o.value and not o.optional), None)


def _plain(words: list[str], verbs: Mapping[str, Verb]) -> list[str]:
    """The words that are neither options nor their values."""
    out, skip = [], False
    for index, word in enumerate(words):
        if skip or word.startswith("-"):
            skip = not skip and _open_option(words[: index + 1], verbs) is not None
        else:
            out.append(word)
    return out


async def _words(run: Run, plain: list[str], last: str) -> list[str]:
    verb, size = _verb(plain, run.verbs)
    families = [name.split(" ")[1] for name in run.verbs if plain and name.startswith(f"{plain[0]} ")]
    if not plain:
        return [name for name in run.verbs if " " not in name and not name.startswith("__")]
    if families and len(plain) == 1:
        return families
    if verb is None or not verb.arguments:
        return []
    index = len(plain) - size
    if index >= len(verb.arguments) and not verb.arguments[-1].many:
        return []
    argument = verb.arguments[min(index, len(verb.arguments) - 1)]
    return list(argument.choices) or await _names(run, argument.completes, last)


async def _names(run: Run, kind: str, last: str) -> list[str]:
    if not kind:
        return []
    names = await run.desk.names(await run.guest(), kind)
    if kind == "agent" and last.startswith("@"):
        return [f"@{name.removeprefix('@')}" for name in names]
    if kind in ("task", "permission", "session"):
        return [name if last and name.startswith(last) else short(name) for name in names]
    return [name.removeprefix("@") for name in names]
