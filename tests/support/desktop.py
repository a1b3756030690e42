"""A desktop's notification service of our own on a private bus: the real protocol, with nobody looking."""

import asyncio
import subprocess
import threading

from dbus_fast.aio import MessageBus
from dbus_fast.service import ServiceInterface, dbus_method, dbus_signal


class Notifications(ServiceInterface):
    """org.freedesktop.Notifications, as far as a notifier uses it."""

    def __init__(self, desk):
        super().__init__("org.freedesktop.Notifications")
        self.desk = desk

    @dbus_method()
    def Notify(
        self,
        app: "s",  # noqa: F821
        old: "u",  # noqa: F821
        icon: "s",  # noqa: F821
        title: "s",  # noqa: F821
        text: "s",  # noqa: F821
        acts: "as",  # noqa: F722
        hints: "a{sv}",  # noqa: F722
        time: "i",  # noqa: F821
    ) -> "u":  # noqa: F821
        self.desk.shown.append((title, text))
        return len(self.desk.shown)

    @dbus_method()
    def CloseNotification(self, number: "u"):  # noqa: F821
        self.desk.closed.append(self.desk.shown[number - 1])

    @dbus_method()
    def GetServerInformation(self) -> "ssss":  # noqa: F821
        return ["tests", "tests", "1", "1.2"]

    @dbus_method()
    def GetCapabilities(self) -> "as":  # noqa: F722
        return ["body", "body-markup"]

    @dbus_signal()
    def NotificationClosed(self, number, reason) -> "uu":  # noqa: F821
        return [number, reason]

    @dbus_signal()
    def ActionInvoked(self, number, action) -> "us":  # noqa: F821
        return [number, action]


class DesktopService:
    """`with DesktopService() as desk`: `address` of its bus, what was `shown` and `closed` as (title, text)."""

    def __init__(self):
        self.shown, self.closed = [], []
        self.bus = subprocess.Popen(
            ["dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address"],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = self.bus.stdout.readline().strip()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        asyncio.run_coroutine_threadsafe(self._serve(), self.loop).result(30)
        return self

    async def _serve(self):
        self.connection = await MessageBus(bus_address=self.address).connect()
        self.connection.export("/org/freedesktop/Notifications", Notifications(self))
        await self.connection.request_name("org.freedesktop.Notifications")

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.connection.disconnect)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(30)
        self.bus.kill()
        self.bus.communicate()
