"""The door of the server, before anything is read: who asks, how often, how much, how slowly; and what leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loopmt.serve.limits import RateLimit, RefusedError, RequestLimits

_PATIENCE = 8  # times the largest request
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class RequestGuard:
    """Passes on requests that are whole and within the limits; every answer carries the headers of safety.

    `names` are those the server answers to: another site's name that points here is no way in. None: any name.
    """

    def __init__(self, app: ASGIApp, limits: RequestLimits, names: Collection[str] | None) -> None:
        self._app = app
        self._limits = limits
        self._names = names
        self._pace = RateLimit(limits.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        try:
            self._check(scope)
            body = await self._body(receive)
        except RefusedError as refusal:
            await refused(refusal)(scope, receive, send)
            return
        if body is not None:
            await self._app(scope, _once(body, receive), send)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if self._names is not None and _name(headers.get("host", "")) not in self._names:
            raise RefusedError(421, "this server does not answer to that name. Use the address that it printed.")
        self._pace.check(scope["client"][0] if scope.get("client") else "")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if (scope["method"], scope["path"]) == ("POST", "/translate") and kind != "application/json":
            raise RefusedError(415, "send JSON, with the header content-type: application/json.")

    async def _body(self, receive: Receive) -> bytes | None:
        """The whole body; None if the client left before it was there."""
        try:
            async with asyncio.timeout(self._limits.reading):
                return await self._read(receive)
        except TimeoutError:
            raise RefusedError(408, f"the request did not arrive within {self._limits.reading:g} seconds.") from None

    async def _read(self, receive: Receive) -> bytes | None:
        """What is too large is read on for a while, unkept: who still sends does not see the answer."""
        body, size, most = bytearray(), 0, self._limits.body
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            size += len(message.get("body", b""))
            if size <= most:
                body += message.get("body", b"")
            if size > _PATIENCE * most or (size > most and not message.get("more_body", False)):
                raise RefusedError(413, f"the request is larger than {most:,} bytes. Send fewer or shorter texts.")
            if not message.get("more_body", False):
                return bytes(body)


def _name(host: str) -> str:
    """Of a host header, without the port: `localhost:8000`, `[::1]:8000`."""
    return (host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]).lower()


def refused(refusal: RefusedError) -> JSONResponse:
    headers = {} if refusal.retry_after is None else {"retry-after": str(refusal.retry_after)}
    if refusal.status in (408, 413):
        headers["connection"] = "close"  # the rest of the request is not read
    return JSONResponse({"error": str(refusal)}, refusal.status, headers)


def _once(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, then whatever comes."""
    told = False

    async def receive_body() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_body


def _with_headers(send: Send) -> Send:
    extra = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]

    async def send_more(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *extra]
        await send(message)

    return send_more
