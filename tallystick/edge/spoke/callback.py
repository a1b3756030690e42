"""Spokes that are posted to: they give an address with ANCHOR, and post their own frames to `/reach/v1/frames`.

What answers a frame comes back in the response to it; everything else is posted to the address, signed with a secret
that only this host and the spoke know. The address is looked at each time before anything goes there.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tallystick.app.calls import CallerFacts
from tallystick.core.errors import Refused, unsupported
from tallystick.edge.spoke.guard import Guard

if TYPE_CHECKING:
    import httpx

SIGNATURE: Final = "Tally-Signature"
"""Header of every post of the host: `t=SECONDS,v1=HEX`, the HMAC-SHA256 over `SECONDS.` and the body."""

POST_SECONDS: Final = 10.0
"""How long one post may take in all, however slowly its answer drips in."""
SHARE: Final = 20
"""Posts to one spoke at a time: one that is slow leaves the connections of the host to others."""
ANSWER_SECONDS: Final = 30.0
"""How long a response to a posted frame waits for the answer."""

_encode = msgspec.json.Encoder().encode


def sign(secret: str, seconds: int, body: bytes) -> str:
    """The value of the header `Tally-Signature`."""
    digest = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"


class Poster:
    """Posts to addresses that the guard lets through. `httpx` is imported with the first."""

    def __init__(self, guard: Guard, now: Callable[[], float]) -> None:
        self.guard = guard
        self._now = now
        self._client: httpx.AsyncClient | None = None

    def check_installed(self) -> None:
        """Refuse where nothing can be posted here."""
        self._ready()

    def _ready(self) -> httpx.AsyncClient:
        if self._client is None:
            try:
                import httpx
            except ImportError:
                raise unsupported(
                    "This host cannot post to spokes.", "pip install 'tallystick[callback]', then start the host again."
                ) from None
            # No connection is used twice: it is known by its address alone, and two names can lead to one address.
            limits = httpx.Limits(max_connections=200, max_keepalive_connections=0)
            self._client = httpx.AsyncClient(
                timeout=POST_SECONDS, follow_redirects=False, trust_env=False, limits=limits
            )
        return self._client

    async def post(self, url: str, secret: str, frame: Any) -> None:
        """Post one frame. Raises `ConnectionError` where it did not arrive, whatever the reason."""
        client = self._ready()
        import httpx

        body = _encode(frame)
        try:
            target = await self.guard.target(url)
            headers = {
                "host": target.host,
                "content-type": "application/json",
                SIGNATURE: sign(secret, int(self._now()), body),
            }
            extensions = {"sni_hostname": target.name}
            request = client.stream("POST", target.url, content=body, headers=headers, extensions=extensions)
            async with asyncio.timeout(POST_SECONDS), request as response:
                if not 200 <= response.status_code < 300:
                    raise ConnectionError(f"The spoke answered {response.status_code}.")
        except Refused as refused:
            raise ConnectionError(refused.message) from None
        except (httpx.HTTPError, TimeoutError) as error:
            raise ConnectionError(f"The spoke could not be posted to: {type(error).__name__}.") from None

    async def close(self) -> None:
        """Post nothing more."""
        if self._client is not None:
            await self._client.aclose()


class CallbackLine:
    """Implements `Line`: answers go back in the response to what was posted, all else is posted."""

    def __init__(self, facts: CallerFacts, poster: Poster, url: str) -> None:
        self.facts = facts
        self.secret = secrets.token_urlsafe(32)
        self.url = url
        self._poster = poster
        self._take: Callable[[Any], None] = lambda _frame: None
        self._asked: dict[tuple[str, str, str], asyncio.Future[Any]] = {}
        self.listens = asyncio.Event()
        self.left = asyncio.Event()
        """Set once its visit is over."""
        self._gone = asyncio.Event()
        self._share = asyncio.Semaphore(SHARE)

    def listen(self, take: Callable[[Any], None]) -> None:
        """See `Line`."""
        self._take = take
        self.listens.set()

    def hold(self, is_held: bool) -> None:
        """Each post waits for its own answer."""

    async def frame(self, frame: Any) -> None:
        """See `Line`."""
        if self._gone.is_set():
            raise ConnectionError("The spoke left.")
        body = frame.body
        key = (getattr(body, "of", ""), frame.header.msg_id, getattr(body, "delivery", ""))
        asked = self._asked.get(key) or self._asked.get((*key[:2], ""))
        if asked is not None and not asked.done():
            asked.set_result(frame)
            return
        async with self._share:
            await self._poster.post(self.url, self.secret, frame)

    async def interrupted(self) -> None:
        """See `Line`."""
        await self._gone.wait()

    def leave(self) -> None:
        """Another process of the spoke took its place, or the host stops."""
        self._gone.set()

    async def ask(self, message: dict[str, Any]) -> Any:
        """Take a posted frame; what answers it, or None where nothing does or it takes too long."""
        header, body = message.get("header"), message.get("body")
        kind = str(header.get("msg_type")) if isinstance(header, dict) else ""
        if kind in _UNANSWERED or (isinstance(body, dict) and body.get("of")):
            self._take(message)
            return None
        msg_id = header.get("msg_id", "") if isinstance(header, dict) else ""
        delivery = body.get("delivery", "") if isinstance(body, dict) else ""
        key = (kind, str(msg_id), str(delivery))
        answer = self._asked[key] = asyncio.get_running_loop().create_future()
        try:
            self._take(message)
            async with asyncio.timeout(ANSWER_SECONDS):
                return await answer
        except TimeoutError:
            return None
        finally:
            self._asked.pop(key, None)


_UNANSWERED: Final = frozenset({"ACK", "PROGRESS"})
