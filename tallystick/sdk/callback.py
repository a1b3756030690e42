"""The link to a host that posts: frames come in at an address of the spoke's own, and are posted to the host.

For spokes that live behind a web server and cannot keep a connection. The spoke mounts `spoke.app` where its `endpoint`
points; what the host posts there is signed with a secret that it gave in its answer to ANCHOR.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import http.client
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import msgspec

from tallystick.sdk.address import Address, query
from tallystick.sdk.errors import ReachError
from tallystick.sdk.frames import Frame
from tallystick.sdk.link import NOT_HEARD, Link, LinkLost
from tallystick.sdk.websocket import refused_by

SIGNATURE = b"tally-signature"
"""Header of every post of the host: `t=SECONDS,v1=HEX`, the HMAC-SHA256 over `SECONDS.` and the body."""

WINDOW_SECONDS = 300
"""A signature older, or further ahead, than this is refused; within it each is taken once."""

_SIGNED = re.compile(r"t=([0-9]{1,12}),v1=([0-9a-f]{64})")
"""One spelling for each, so that one which was seen is known again."""

_PATH = "/reach/v1/frames"
_BODY_BYTES = 2 * 1024 * 1024
_POST_SECONDS = 40.0

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class CallbackDoor:
    """Where the host posts to: an ASGI application, and the dial that makes links of it."""

    def __init__(
        self, address: Address, endpoint: str, spoke_id: str, workspace: str, now: Callable[[], float] = time.time
    ) -> None:
        self._address, self._endpoint, self._spoke_id = address, endpoint, spoke_id
        self._path = f"{_PATH}{query('', workspace)}"
        self._now = now
        self._link: CallbackLink | None = None
        self._seen: dict[str, float] = {}

    async def dial(self, may_start: bool) -> Link:  # noqa: ARG002 - nobody starts a host over the network
        """See `Dial`. Nothing is connected: ANCHOR is the first post."""
        self._link = CallbackLink(self._address, self._path, self._endpoint, self._spoke_id)
        return self._link

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One post of the host: 202 where it is taken, 401 for a wrong, old or repeated signature."""
        if scope["type"] != "http":
            return
        status = await self._take(scope, receive)
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def _take(self, scope: Scope, receive: Receive) -> int:
        if scope["method"] != "POST":
            return 405
        body = await _body(receive)
        if body is None:
            return 413
        link = self._link
        if link is None or not self._is_signed(dict(scope["headers"]).get(SIGNATURE, b"").decode("latin-1"), body):
            return 401
        try:
            link.put(_decode(body))
        except msgspec.MsgspecError:
            return 400
        return 202

    def _is_signed(self, signature: str, body: bytes) -> bool:
        """Whether the host of this link signed it, now, and for the first time."""
        secret = self._link.secret if self._link else ""
        found = _SIGNED.fullmatch(signature)
        now = self._now()
        if not secret or not found or signature in self._seen:
            return False
        seconds, digest = found.groups()
        if abs(now - int(seconds)) > WINDOW_SECONDS:
            return False
        wanted = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(wanted, digest):
            return False
        self._seen = {old: at for old, at in self._seen.items() if now - at <= 2 * WINDOW_SECONDS}
        self._seen[signature] = now
        return True


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None where it is too long."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _BODY_BYTES:
            return None
        if message["type"] != "http.request" or not message.get("more_body"):
            return bytes(body)


class CallbackLink:
    """Implements `Link`: each frame is a post, in order; what answers it comes back in the response."""

    def __init__(self, address: Address, path: str, endpoint: str, spoke_id: str) -> None:
        self.secret = ""
        """What the host signs with; known once it answered ANCHOR."""
        self._address, self._path, self._endpoint, self._spoke_id = address, path, endpoint, spoke_id
        self._frames: asyncio.Queue[Frame | LinkLost | ReachError] = asyncio.Queue()
        self._posts: asyncio.Queue[Frame] = asyncio.Queue(100)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tallystick post")
        self._connection: http.client.HTTPConnection | None = None
        self._is_lost = False
        self._posting = asyncio.create_task(self._post_all(), name="tallystick posts")

    async def send(self, frame: Frame) -> None:
        """See `Link`."""
        if self._is_lost:
            raise LinkLost
        header = {**frame["header"], "source_spoke": self._spoke_id}
        body = frame["body"]
        if header["msg_type"] == "ANCHOR":
            body = {**body, "endpoint": self._endpoint}
        await self._posts.put({"header": header, "body": body})

    async def receive(self) -> Frame:
        """See `Link`."""
        if self._is_lost and self._frames.empty():
            raise LinkLost
        found = await self._frames.get()
        if isinstance(found, Exception):
            raise found
        return found

    def put(self, frame: Frame) -> None:
        """A frame that the host posted."""
        self._frames.put_nowait(frame)

    def close(self) -> None:
        """See `Link`."""
        if not self._is_lost:
            self._is_lost = True
            self._posting.cancel()
            self._frames.put_nowait(LinkLost())
            self._thread.submit(self._disconnect)
            self._thread.shutdown(wait=False)

    async def _post_all(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            frame = await self._posts.get()
            try:
                status, body = await loop.run_in_executor(self._thread, self._post, _encode(frame))
                answer = self._answer(status, body)
            except (LinkLost, ReachError) as error:
                self._frames.put_nowait(error)
                return
            if answer is not None:
                self._frames.put_nowait(answer)

    def _answer(self, status: int, body: bytes) -> Frame | None:
        if status == http.client.ACCEPTED:
            return None
        if status != http.client.OK:
            raise refused_by(status, body, self._address)
        try:
            frame = _decode(body)
        except msgspec.MsgspecError:
            raise LinkLost("The host answered with what is no frame.") from None
        told = frame.get("body")
        told = told if isinstance(told, dict) else {}
        if told.get("of") == "ANCHOR":
            self.secret = str(told.get("secret", ""))
        elif told.get("code") == "unsupported":
            raise LinkLost("The host was started again and does not know this spoke yet.")
        return frame

    # --- in the thread ---

    def _post(self, body: bytes) -> tuple[int, bytes]:
        """One post; a connection that the host has closed meanwhile is opened anew, once."""
        for is_last in (False, True):
            try:
                return self._posted(body)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
                self._disconnect()
                if is_last:
                    raise LinkLost(str(error)) from None
            except (OSError, http.client.HTTPException) as error:
                self._disconnect()
                raise LinkLost(str(error) or type(error).__name__, remedy=NOT_HEARD) from None
        raise AssertionError("unreachable")

    def _posted(self, body: bytes) -> tuple[int, bytes]:
        connection = self._connection
        if connection is None:
            place = (self._address.name, self._address.port)
            context = self._address.context()
            if context is not None:
                connection = http.client.HTTPSConnection(*place, timeout=_POST_SECONDS, context=context)
            else:
                connection = http.client.HTTPConnection(*place, timeout=_POST_SECONDS)
            self._connection = connection
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._address.token}"}
        connection.request("POST", self._path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
