"""What every request passes first: the names it uses, the page it comes from, its token. Refusals leave here."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tallystick.app.diagnostics import Diagnostics
from tallystick.core.errors import Refused
from tallystick.edge.api.errors import unforeseen
from tallystick.edge.api.http.listen import Site
from tallystick.edge.api.http.refusals import HEADERS, ProtocolRefused, refusal, status_of
from tallystick.edge.api.http.tokens import Identity, Tokens, unknown

_NOTED = frozenset({401, 403, 421})
_NOTE_SECONDS = 60.0


class Gate:
    """An application behind the checks; whatever it raises becomes an answer."""

    def __init__(self, app: ASGIApp, site: Site, diagnostics: Diagnostics, head_bytes: int) -> None:
        self._app = app
        self._site = site
        self._head_bytes = head_bytes
        self._diagnostics = diagnostics
        self._noted: dict[int, tuple[float, int]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or one WebSocket from its handshake to its end."""
        out = _Out(send)
        try:
            check_size(scope, self._head_bytes)
            check(Headers(scope=scope), self._site)
            await self._app(scope, receive, out)
        except Refused as refused:
            self._note(status_of(refused), refused)
            await self._refuse(refused, scope, receive, out)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever went wrong inside is ours to record
            await self._refuse(unforeseen(self._diagnostics, "http", error), scope, receive, out)

    async def _refuse(self, refused: Refused, scope: Scope, receive: Receive, out: _Out) -> None:
        if not out.is_started:
            await refusal(refused)(scope, receive, out)

    def _note(self, status: int, refused: Refused) -> None:
        """What looks like an attempt is recorded, once a minute and kind; nothing of what was sent is."""
        if status not in _NOTED:
            return
        now = asyncio.get_running_loop().time()
        since, skipped = self._noted.get(status, (now - _NOTE_SECONDS, 0))
        if now - since < _NOTE_SECONDS:
            self._noted[status] = since, skipped + 1
            return
        self._noted[status] = now, 0
        self._diagnostics.record("http refused", status=status, message=refused.message, more=skipped)


class _Out:
    """Sends, with the headers that every answer has; knows whether an answer has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        self.is_started = True
        await self._send(message)


def check_size(scope: Scope, limit: int) -> None:
    """The head as a whole."""
    headers = sum(len(name) + len(value) for name, value in scope["headers"])
    if headers + len(scope["raw_path"]) + len(scope["query_string"]) > limit:
        raise ProtocolRefused(431)


def check(headers: Headers, site: Site) -> None:
    """Names and origin. A page of another site cannot forge these; a program can, and needs a token all the same."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or hosts[0].lower() not in site.hosts:
        raise ProtocolRefused(421)
    origins = headers.getlist("origin")
    if len(origins) > 1 or any(origin not in site.origins for origin in origins):
        raise ProtocolRefused(403)
    fetched = headers.getlist("sec-fetch-site")
    if any(site_of not in ("none", "same-origin") for site_of in fetched):
        raise ProtocolRefused(403)


def identity_of(headers: Headers, tokens: Tokens) -> Identity:
    """Whom the token of a request stands for. Raises `Refused` `unauthenticated`."""
    given = headers.getlist("authorization")
    scheme, _, secret = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    if scheme.lower() != "bearer":
        raise unknown()
    return tokens.identify(secret.strip())
