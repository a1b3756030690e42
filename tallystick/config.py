"""The settings of a host: environment and `config.toml`, read once, frozen. A wrong one is refused, never ignored."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from tallystick import wire
from tallystick.core.errors import Refused, invalid
from tallystick.core.limits import Limits

PersonVerbs = Literal["terminal", "page", "uid"]
"""What shows that a person acts: a terminal, the page, or the user id alone (scripts and tests of a person)."""


_URL = re.compile(r"https?://[^/@#\s]+/?\Z")

LARGEST = 1e10
"""No limit is larger (300 years; 10 GB), nor infinite, nor no number: times are reckoned from them."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set."""

    home: Path
    limits: Limits = Limits()
    person_verbs: PersonVerbs = "terminal"
    listen: str = ""
    """ADDRESS:PORT of the page and the protocols over HTTP; empty: none."""
    tls_cert: str = ""
    tls_key: str = ""
    """PEM files; with them HTTP is TLS. Needed for an address that other machines can reach."""
    callbacks: tuple[str, ...] = ()
    """Addresses, as `http://127.0.0.1:9000`, where spokes may be posted to although not public or not https."""
    desktop: bool = True
    """Notices on this desktop, where the extra `tallystick[desktop]` is installed."""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `config.toml` may hold."""

    limits: dict[str, Any] = {}
    person_verbs: Any = "terminal"
    listen: Any = ""
    tls_cert: Any = ""
    tls_key: Any = ""
    callbacks: Any = ()
    desktop: Any = True


def load(home: Path | None = None) -> Settings:
    """Read the settings of a home (else of TALLY_HOME, else of the platform's place). Raises `Refused` `invalid`."""
    home = home or Path(wire.home())
    file = home / "config.toml"
    given = _read(file)
    _refuse_unknown(given, _File, "", file)
    limits = given.get("limits", {})
    if not isinstance(limits, dict):
        raise _wrong(file, "limits", "must be a table")
    _refuse_unknown(limits, Limits, "limits.", file)
    verbs = given.get("person_verbs", "terminal")
    if verbs not in get_args(PersonVerbs):
        raise _wrong(file, "person_verbs", "must be one of " + ", ".join(get_args(PersonVerbs)))
    listen = given.get("listen", "")
    if not isinstance(listen, str) or not is_address(listen):
        raise _wrong(file, "listen", "must be ADDRESS:PORT, for example 127.0.0.1:8765, or empty")
    desktop = given.get("desktop", True)
    if not isinstance(desktop, bool):
        raise _wrong(file, "desktop", "must be true or false")
    callbacks = given.get("callbacks", [])
    if not isinstance(callbacks, list) or not all(isinstance(url, str) and _URL.match(url) for url in callbacks):
        raise _wrong(file, "callbacks", 'must be a list of addresses, for example ["http://127.0.0.1:9000"]')
    cert, key = (_path(given, name, file) for name in ("tls_cert", "tls_key"))
    return Settings(
        home=home,
        limits=_limits(limits, file),
        person_verbs=verbs,
        listen=listen,
        tls_cert=cert,
        tls_key=key,
        callbacks=tuple(callbacks),
        desktop=desktop,
    )


def _path(given: dict[str, Any], key: str, file: Path) -> str:
    """The path of a file, from the home if it is relative."""
    value = given.get(key, "")
    if not isinstance(value, str):
        raise _wrong(file, key, "must be the path of a file")
    return str(file.parent / value) if value else ""


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise invalid(f"{file} is no TOML in UTF-8: {error}.", "Correct that line.") from None
    except OSError as error:
        raise invalid(f"{file} cannot be read: {error.strerror}.", "Make it a readable file.") from None


def _refuse_unknown(given: dict[str, Any], kind: type[msgspec.Struct], prefix: str, file: Path) -> None:
    for key in given:
        if key not in kind.__struct_fields__:
            names = ", ".join(kind.__struct_fields__)
            raise invalid(f"{file} sets {prefix}{key}, which is no setting.", f"Known are: {names}.")


def _limits(given: dict[str, Any], file: Path) -> Limits:
    for key, value in given.items():
        for number in value if isinstance(value, list) else (value,):
            if isinstance(number, int | float) and not number < LARGEST:
                raise _wrong(file, f"limits.{key}", "is too large")
        try:
            msgspec.convert({key: value}, Limits)
        except msgspec.ValidationError as error:
            raise _wrong(file, f"limits.{key}", f"is {value!r}: {_reason(error)}") from None
    return msgspec.convert(given, Limits)


def _reason(error: msgspec.ValidationError) -> str:
    return str(error).partition(" - at ")[0]


def _wrong(file: Path, key: str, what: str) -> Refused:
    return invalid(f"The setting {key} in {file} {what}.", "Correct it: docs/reference/settings.md has them all.")


def is_address(listen: str) -> bool:
    """Whether it is ADDRESS:PORT, or empty."""
    address, separator, port = listen.rpartition(":")
    return not listen or bool(address and separator and port.isdecimal() and port.isascii() and int(port) < 65536)
