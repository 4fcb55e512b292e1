"""Middleware that checks requests (client, rate, size, speed) and adds security headers to responses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loopmt.serve.access import Access
from loopmt.serve.limits import FairShare, RateLimit, RefusedError, RequestLimits
from loopmt.serve.turns import Turns

_READ_FACTOR = 8  # times the largest valid size, after which an oversized request is refused
_DRAIN_SECONDS, _DRAIN_BYTES = 1.0, 2**18  # of a refused request
_UNCOUNTED = 2**14  # bytes of a body that are not counted, since every connection buffers as many
_PUBLIC = {"/", "/page.css", "/page.js", "/watch.js", "/docs", "/openapi.json", "/health"}  # need no token
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class RequestGuard:
    """Passes on complete requests within the limits, and adds security headers to every response.

    It sets `client` and `known` (whether the client may see what the token protects) in the request's state.
    """

    def __init__(self, app: ASGIApp, limits: RequestLimits, access: Access) -> None:
        self._app = app
        self._limits = limits
        self._access = access
        self._pace = RateLimit(limits.rate)
        self._bodies = FairShare(limits.bodies)
        self._turns = Turns()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        try:
            await self._answer(scope, exchange)
        except asyncio.CancelledError:  # the server stops after its grace period
            if not exchange.started:
                await refused(RefusedError(503, "the server is stopping.", 10), True)(scope, receive, exchange.send)

    async def _answer(self, scope: Scope, exchange: _Exchange) -> None:
        try:
            await self._pass_on(scope, exchange)
        except RefusedError as refusal:
            await exchange.drain()
            await refused(refusal, close=not exchange.complete)(scope, exchange.receive, exchange.send)

    async def _pass_on(self, scope: Scope, exchange: _Exchange) -> None:
        headers = Headers(scope=scope)
        client = self._access.client(scope["client"][0] if scope.get("client") else "", headers)
        await self._turn(scope, client)
        self._check(scope, headers, client)
        with self._reserved(client) as reservation:
            body = await self._body(exchange.receive, reservation)
            if body is not None:
                await _unless_disconnected(self._app, scope, body, exchange)

    async def _turn(self, scope: Scope, client: str) -> None:
        """Wait for a turn; a queued connection may be aborted for a client with fewer connections."""
        state = scope.setdefault("state", {})
        state["queued"] = True
        await self._turns.wait(client)
        state["queued"] = False

    def _check(self, scope: Scope, headers: Headers, client: str) -> None:
        self._access.check(headers)
        self._pace.check(client)
        if "transfer-encoding" in headers:  # parsing one-byte chunks costs forty times as much as sending them
            raise RefusedError(411, "send the body without chunks, with the header content-length: BYTES.")
        known = self._access.authorized(headers)
        if not known and scope["path"] not in _PUBLIC:
            raise RefusedError(401, "a token is needed. Send the header authorization: Bearer TOKEN.")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if (scope["method"], scope["path"]) == ("POST", "/translate") and kind != "application/json":
            raise RefusedError(415, "send JSON, with the header content-type: application/json.")
        scope["state"].update(client=client, known=known)

    @contextlib.contextmanager
    def _reserved(self, client: str) -> Iterator[_Reservation]:
        """Reserve memory for a body until its request is answered."""
        reservation = _Reservation(self._bodies, client)
        try:
            yield reservation
        finally:
            self._bodies.give_back(client, reservation.size)

    async def _body(self, receive: Receive, reservation: _Reservation) -> bytes | None:
        """The complete body; None if the client disconnected before."""
        try:
            async with asyncio.timeout(self._limits.reading):
                return await self._read(receive, reservation)
        except TimeoutError:
            raise RefusedError(408, f"the request did not arrive within {self._limits.reading:g} seconds.") from None

    async def _read(self, receive: Receive, reservation: _Reservation) -> bytes | None:
        """Read the body. Drain oversized bodies so that the client can read the 413."""
        body, size, most = bytearray(), 0, self._limits.body
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            size += len(message.get("body", b""))
            if size <= most:
                reservation.grow(size - _UNCOUNTED)
                body += message.get("body", b"")
            if size > _READ_FACTOR * most or (size > most and not message.get("more_body", False)):
                raise RefusedError(413, f"the request is larger than {most:,} bytes. Send fewer or shorter texts.")
            if not message.get("more_body", False):
                return bytes(body)


class _Exchange:
    """A request and its response: their progress, and the headers of every response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.complete = False  # the request was read
        self.started = False  # the response was begun
        self._scope = scope
        self._receive = receive
        self._send = send

    async def receive(self) -> Message:
        message = await self._receive()
        self.complete = self.complete or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            extra = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            message["headers"] = [*message.get("headers", []), *extra]
        await self._send(message)

    async def drain(self) -> None:
        """Read the rest of a refused request for a moment, so that the client can read the response."""
        # Reading would request the body (expect), or is costly (chunks).
        if {"expect", "transfer-encoding"} & set(Headers(scope=self._scope)):
            return
        size = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while not self.complete and size <= _DRAIN_BYTES:
                    size += len((await self.receive()).get("body", b""))


class _Reservation:
    """The memory that one request has reserved for its body."""

    def __init__(self, share: FairShare, client: str) -> None:
        self.size = 0
        self._share = share
        self._client = client

    def grow(self, size: int) -> None:
        if size <= self.size:
            return
        if not self._share.take(self._client, size - self.size):
            raise RefusedError(503, "too many large requests at the moment. Try again.", 1)
        self.size = size


def refused(refusal: RefusedError, close: bool = False) -> JSONResponse:
    headers = {} if refusal.retry_after is None else {"retry-after": str(refusal.retry_after)}
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    if close:
        headers["connection"] = "close"
    return JSONResponse({"error": str(refusal)}, refusal.status, headers)


async def _unless_disconnected(app: ASGIApp, scope: Scope, body: bytes, exchange: _Exchange) -> None:
    """Run the application until it is done or the client disconnects."""
    answering = asyncio.ensure_future(app(scope, _once(body), exchange.send))
    leaving = asyncio.ensure_future(exchange.receive())
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            answering.result()
    finally:
        leaving.cancel()
        if not answering.done():
            answering.cancel()
            await asyncio.wait({answering})


def _once(body: bytes) -> Receive:
    """A receive function for a body that was read already; `_unless_disconnected` detects disconnects."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_body() -> Message:
        if messages:
            return messages.pop()
        await asyncio.Event().wait()
        raise AssertionError("the event is never set")

    return receive_body
