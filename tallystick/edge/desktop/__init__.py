"""Notices on the desktop of the person whose host this is, through the library desktop-notifier (an extra)."""

from tallystick.edge.desktop.notifier import Desktop, is_installed

__all__ = ["Desktop", "is_installed"]
