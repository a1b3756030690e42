"""The program's end of each transport of REACH-RPC, frame by frame, and a host inside the test to speak with.

A test says exactly which frame goes when; nothing here answers by itself."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx
import websockets
from websockets.asyncio.client import connect

from tallystick import bootstrap, wire
from tallystick.app.calls import CallerFacts
from tallystick.app.clock import Chance, SystemClock
from tallystick.app.failpoints import Reached, unmoved
from tallystick.app.home import HomeGuard
from tallystick.app.ports import Notifier
from tallystick.assembly import World
from tallystick.config import Settings
from tallystick.core.identity import Prefix, make_id
from tallystick.core.limits import Limits
from tallystick.edge.spoke import Hub
from tallystick.sdk.link import LinkLost, MemoryLink

PATIENCE = 20.0
LONG = 60_000


def new_id(prefix: Prefix = Prefix.MESSAGE) -> str:
    return make_id(prefix, int(SystemClock().now() * 1000), Chance()(10))


class Lost(Exception):
    """The host ended the link."""


class Haven:
    """`async with Haven(path) as haven`: a whole host in this process. `restart` as after an ordered stop."""

    def __init__(
        self,
        home: Path,
        *,
        listen: bool = False,
        callbacks: tuple[str, ...] = (),
        notifier: Notifier | None = None,
        reached: Reached = unmoved,
        **limits: Any,
    ) -> None:
        self.home = home
        self._world = World(notifier=notifier, reached=reached)
        self._settings = Settings(
            home=home,
            limits=Limits(**limits),
            person_verbs="uid",
            listen="127.0.0.1:0" if listen else "",
            callbacks=callbacks,
            desktop=False,
        )
        self._guard = HomeGuard(home)
        self.ends: list[End] = []

    async def __aenter__(self) -> Self:
        self._guard.prepare()
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for end in self.ends:
            await end.close()
        await self.stop()

    async def start(self) -> None:
        self._host = bootstrap.build(self._settings, self._world)
        for service in self._host.services:
            await service.start()
        self.hub = next(service for service in self._host.services if isinstance(service, Hub))

    async def stop(self) -> None:
        for service in reversed(self._host.services):
            await service.stop()
        self._host.diagnostics.close()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    @property
    def desk(self) -> Any:
        return self.hub.desk

    @property
    def url(self) -> str:
        return self._host.address

    @property
    def token(self) -> str:
        return (self.home / "token").read_text().strip()

    @property
    def facts(self) -> CallerFacts:
        return CallerFacts(uid=os.getuid(), pid=os.getpid(), directory=str(self.home))

    async def person(self) -> Any:
        return await self.desk.guest(self.facts)

    async def end(self, kind: str, **given: Any) -> End:
        end = await ENDS[kind](self, **given).open()
        self.ends.append(end)
        return end


class End:
    """One end. `say` sends a frame, `hear` waits for the next one, optionally of a kind."""

    def __init__(self, haven: Haven, **given: Any) -> None:
        self.haven = haven
        self.given = given
        self.came: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.name = ""
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> Self:
        raise NotImplementedError

    async def send(self, frame: Any) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    def read(self, receive: Callable[[], Any]) -> None:
        async def reading() -> None:
            try:
                while True:
                    self.came.put_nowait(await receive())
            except (LinkLost, websockets.ConnectionClosed, Lost, ConnectionError):
                self.came.put_nowait(None)

        self._reading = asyncio.create_task(reading())

    async def say(self, kind: str, body: dict[str, Any] | None = None, *, msg_id: str = "", **header: Any) -> str:
        msg_id = msg_id or new_id()
        head = {"proto_version": 1, "msg_id": msg_id, "msg_type": kind, **header}
        await self.send({"header": head, "body": body or {}})
        return msg_id

    async def hear(self, kind: str = "") -> dict[str, Any]:
        """The next frame; frames of other kinds are an error where one is asked for."""
        async with asyncio.timeout(PATIENCE):
            frame = await self.came.get()
        if frame is None:
            raise Lost
        assert kind in ("", frame["header"]["msg_type"]), frame
        return frame

    # --- what programs usually say ---

    async def anchor(
        self, name: str = "echo-1", store: str = "s1", process: str = "1@1", **body: Any
    ) -> dict[str, Any]:
        """Register, and the body of the ACK."""
        self.name = name
        body.setdefault("capabilities", [{"name": "Echo", **body.pop("offer", {})}])
        given = {"spoke_id": name, "store": store, "incarnation": process, **self.registers(), **body}
        await self.say("ANCHOR", given, source_spoke=name)
        return (await self.hear("ACK"))["body"]

    def registers(self) -> dict[str, Any]:
        return {}

    async def sail(self, payload: Any = None, capability: str = "Echo", **given: Any) -> str:
        """Send a message; its id."""
        of_header = ("dedup_key", "timeout_ms", "msg_id", "reply_to", "traceparent")
        header = {k: given.pop(k) for k in of_header if k in given}
        header.setdefault("timeout_ms", LONG)
        return await self.say("SAIL", {"payload": payload, **given}, target_capability=capability, **header)

    async def take(self) -> dict[str, Any]:
        """A message that was handed over: taken into the queue."""
        sail = await self.hear("SAIL")
        await self.about(sail, "ACK", of="SAIL", fence=None)
        return sail

    async def begin(self) -> dict[str, Any]:
        """The same, and begun with the host's yes."""
        sail = await self.take()
        await self.about(sail, "BEGIN")
        ack = await self.hear("ACK")
        assert (ack["body"]["of"], ack["body"]["delivery"]) == ("BEGIN", sail["body"]["delivery"])
        return sail

    async def fetch(self, sail: dict[str, Any], index: int, offset: int = 0) -> str:
        """Ask for a reference of a delivery; the id of the question."""
        asked = {"delivery": sail["body"]["delivery"], "index": index, "offset": offset}
        return await self.say("FETCH", asked, source_spoke=self.name)

    async def about(self, sail: dict[str, Any], kind: str, **body: Any) -> None:
        """Say something of a delivery."""
        told = {"delivery": sail["body"]["delivery"], "fence": sail["body"]["fence"], **body}
        told = {key: value for key, value in told.items() if value is not None}
        await self.say(kind, told, msg_id=sail["header"]["msg_id"], source_spoke=self.name)


class UnixEnd(End):
    """The socket of this machine."""

    last: Any = None
    """What ended the call."""

    async def open(self) -> Self:
        self.errors: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.reader, self.writer = await asyncio.open_unix_connection(
            wire.socket_path(str(self.haven.home)), limit=wire.LINE_BYTES
        )
        self._line({"hello": {"protocol": [1, 1], "client": "sdk", "version": "0"}})
        assert b"welcome" in await self.reader.readline()
        self._line({"id": 1, "op": "reach", "cwd": str(self.haven.home), "env": {}, **self.given})
        self.read(self._receive)
        return self

    def _line(self, message: Any) -> None:
        self.writer.write(json.dumps(message).encode() + b"\n")

    async def _receive(self) -> Any:
        message = json.loads(await self.reader.readline() or b"{}")
        while message.get("id", 0) is None:  # of a line whose call could not be read: it ends none
            self.errors.put_nowait(message)
            message = json.loads(await self.reader.readline() or b"{}")
        if "frame" not in message:
            self.last = message
            raise Lost
        return message["frame"]

    async def send(self, frame: Any) -> None:
        self._line({"id": 1, "frame": frame})
        await self.writer.drain()

    async def close(self) -> None:
        self.writer.close()
        await super().close()


class SocketEnd(End):
    """A WebSocket."""

    async def open(self) -> Self:
        token = self.given.get("token", self.haven.token)
        self.socket = await connect(
            self.haven.url.replace("http", "ws") + "/reach/v1", additional_headers={"authorization": f"Bearer {token}"}
        )
        self.read(self._receive)
        return self

    async def _receive(self) -> Any:
        return json.loads(await self.socket.recv())

    async def send(self, frame: Any) -> None:
        await self.socket.send(frame if isinstance(frame, str) else json.dumps(frame))

    async def close(self) -> None:
        await super().close()
        await self.socket.close()


class MemoryEnd(End):
    """A link inside this process."""

    async def open(self) -> Self:
        self.link, other = MemoryLink.pair()
        self.visit = asyncio.create_task(self.haven.hub.attach(other, self.haven.facts))
        self.read(self.link.receive)
        return self

    async def send(self, frame: Any) -> None:
        await self.link.send(frame)

    async def close(self) -> None:
        self.link.close()
        await super().close()
        await asyncio.gather(self.visit, return_exceptions=True)


class PostedEnd(End):
    """A spoke with an address of its own: frames are posted to it, and it posts its own."""

    async def open(self) -> Self:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.given.get("port", PORT))
        self.signatures: list[tuple[str, bytes]] = []
        self.status = b"200 OK"
        token = self.given.get("token", self.haven.token)
        self.client = httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE)
        self._posts: set[asyncio.Task[None]] = set()
        return self

    def registers(self) -> dict[str, Any]:
        return {"endpoint": f"http://127.0.0.1:{self.given.get('port', PORT)}/frames"}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
                body = await reader.readexactly(int(fields["content-length"]))
                self.signatures.append((fields["tally-signature"], body))
                if self.status.startswith(b"200"):
                    self.came.put_nowait(json.loads(body))
                writer.write(b"HTTP/1.1 " + self.status + b"\r\ncontent-length: 0\r\nlocation: /\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def send(self, frame: Any) -> None:
        answer = await self.client.post(f"{self.haven.url}/reach/v1/frames", json=frame)
        if answer.status_code == 200:
            self.came.put_nowait(answer.json())
        elif answer.status_code != 202:
            raise AssertionError(answer.text)

    async def close(self) -> None:
        self.server.close()
        await self.client.aclose()
        await super().close()


PORT = 0
ENDS: dict[str, type[End]] = {"unix": UnixEnd, "websocket": SocketEnd, "posted": PostedEnd, "memory": MemoryEnd}
