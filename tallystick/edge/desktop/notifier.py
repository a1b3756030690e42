"""Hands notices to the system's notification service. Text is plain: what could be read as markup is escaped."""

from __future__ import annotations

import asyncio
import html
import importlib.util
import logging
import sys
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from desktop_notifier import DesktopNotifier

_SECONDS = 5.0
"""How long the system may take."""


def is_installed() -> bool:
    """Whether the library is there; nothing of it is loaded by this."""
    return importlib.util.find_spec("desktop_notifier") is not None


class Desktop:
    """Implements `Notifier`. The library is loaded at the first notice, and only then."""

    def __init__(self) -> None:
        self._system: DesktopNotifier | None = None

    async def show(self, key: str, title: str, text: str) -> str:
        """Hand a notice to the system; empty where it took it, else why it could not."""
        if not is_installed():
            return "desktop-notifier is not installed (pip install 'tallystick[desktop]')"
        from desktop_notifier import DesktopNotifier, Notification

        _quiet()
        taken: list[str] = []
        words = plain(title), _escaped(plain(text))
        notice = Notification(*words, on_dispatched=lambda: taken.append(key), identifier=key)
        try:
            async with asyncio.timeout(_SECONDS):
                self._system = self._system or DesktopNotifier(app_name="Tallystick", app_icon=None)
                await self._system.send_notification(notice)
        except Exception as error:  # noqa: BLE001 - foreign, of as many kinds as there are desktops
            self._system = None
            return f"the desktop could not be reached: {type(error).__name__}"
        if taken:
            return ""
        self._system = None  # the library keeps a connection that has ended
        return "no notification service of a desktop answers here"

    async def clear(self, key: str) -> None:
        """Take one away again; nothing where it is gone already."""
        if self._system is None:
            return
        try:
            async with asyncio.timeout(_SECONDS):
                await self._system.clear(key)
        except Exception:  # noqa: BLE001 - closed by the person, or the desktop ended: it is away either way
            return


def _quiet() -> None:
    """What it could not do is said by what `show` gives back: the library's own words, with a trace, say no more."""
    logging.getLogger("desktop_notifier").setLevel(logging.CRITICAL)


def plain(text: str) -> str:
    """One line without control, bidi and invisible characters."""
    spaced = " ".join(text.split())
    return "".join(c for c in spaced if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn"))


def _escaped(text: str) -> str:
    """Servers of the freedesktop specification may read markup in the text; others show it as it is."""
    return html.escape(text, quote=False) if sys.platform == "linux" else text
