"""The link to a host that listens: a WebSocket at `/reach/v1`, one frame per text message."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException

from tallystick import wire
from tallystick.sdk.address import Address, query
from tallystick.sdk.errors import ReachError, ReachRefused, reach_error
from tallystick.sdk.frames import Frame
from tallystick.sdk.link import NOT_HEARD, Dial, Link, LinkLost

_PATH = "/reach/v1"
_LEAVES = 1000
_RESTART = 1012
_OPEN_SECONDS = 10.0
_CLOSE_SECONDS = 1.0

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def websocket_dial(address: Address, sender: str = "", workspace: str = "") -> Dial:
    """Opens WebSockets to a host."""

    async def dial(may_start: bool) -> Link:  # noqa: ARG001 - nobody starts a host over the network
        try:
            return WebSocketLink(await _opened(address, sender, workspace))
        except InvalidStatus as error:
            raise _refusal(error, address) from None
        except ssl.SSLCertVerificationError as error:
            raise ReachRefused(
                "denied",
                f"The certificate of {address.origin} is not trusted: {error.verify_message}.",
                "Name the file of its authority in SSL_CERT_FILE.",
            ) from None
        except (OSError, TimeoutError, InvalidHandshake, EOFError) as error:
            raise LinkLost(f"{address.origin}: {error or type(error).__name__}", remedy=NOT_HEARD) from None

    return dial


async def _opened(address: Address, sender: str, workspace: str) -> ClientConnection:
    return await connect(
        f"{address.socket}{_PATH}{query(sender, workspace)}",
        additional_headers={"Authorization": f"Bearer {address.token}"},
        ssl=address.context(),
        proxy=None,
        max_size=wire.ANSWER_BYTES,
        open_timeout=_OPEN_SECONDS,
        close_timeout=_CLOSE_SECONDS,
        compression=None,
    )


class WebSocketLink:
    """Implements `Link`."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._is_closed = False

    async def send(self, frame: Frame) -> None:
        """See `Link`."""
        try:
            await self._socket.send(_encode(frame).decode())
        except ConnectionClosed as error:
            raise LinkLost(str(error)) from None

    async def receive(self) -> Frame:
        """See `Link`."""
        try:
            return _decode(await self._socket.recv())
        except ConnectionClosed as error:
            code = error.rcvd.code if error.rcvd else 0
            raise LinkLost(str(error), is_stopped=code == _RESTART) from None
        except msgspec.MsgspecError:
            raise LinkLost("The host sent a message that is no JSON object.") from None

    def close(self) -> None:
        """See `Link`. Without a task: a loop that is ending would leave one behind. A host that does not read the
        goodbye in time is left all the same."""
        if self._is_closed:
            return
        self._is_closed = True
        socket = self._socket
        with suppress(WebSocketException):  # it was closed from the other side
            socket.protocol.send_close(_LEAVES)
            socket.transport.write(b"".join(socket.protocol.data_to_send()))
        socket.transport.close()
        socket.loop.call_later(_CLOSE_SECONDS, socket.transport.abort)


def _refusal(error: InvalidStatus, address: Address) -> ReachError | LinkLost:
    """What the host said instead of opening the socket."""
    return refused_by(error.response.status_code, error.response.body or b"", address)


def refused_by(status: int, body: bytes | bytearray, address: Address) -> ReachError | LinkLost:
    """The refusal in an HTTP answer of the host; what may be otherwise in a moment is a lost link."""
    if status >= 500:
        return LinkLost(f"{address.origin} answered {status}.")
    try:
        told = _decode(body).get("error")
    except msgspec.MsgspecError:
        told = None
    if isinstance(told, dict):
        found = wire.refusal(told)
        return reach_error(found.code, found.message, found.remedy)
    return ReachRefused(
        "unsupported", f"{address.origin} answered {status}: it is no host that takes spokes.", "Check the address."
    )
