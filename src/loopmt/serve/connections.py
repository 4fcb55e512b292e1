"""Limits on connections: how many may be open, which one is closed for a new one, and how slow each may be."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from loopmt.serve.access import Access, client_key
from loopmt.serve.limits import RequestLimits

_LAST_SECONDS = 2.0  # for clients to read a response when the server stops
_READ_BYTES = 2**14  # per read
_MESSAGE = b'{"error": "too many connections. Try again in a moment."}'
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_MESSAGE), _MESSAGE)
)


class OpenConnections:
    """All connections by client.

    A connection whose request is complete stays open until it is answered. Others wait: they are idle, send slowly or
    do not read their response. When there are too many connections, a new one from a client with fewer replaces the
    oldest waiting one of the client with the most.
    """

    def __init__(self, limits: RequestLimits, access: Access) -> None:
        self.limits = limits
        self._access = access
        self._clients: dict[str, list[BoundedProtocol]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def enter(self, connection: BoundedProtocol) -> bool:
        """Register a connection, aborting another one if necessary. Return False if it must be refused."""
        client = connection.owner = self._client(connection)
        own = self._clients.get(client, [])
        if len(own) >= self.limits.client_connections:
            return False
        if self._count >= self.limits.connections and not self._abort_one(len(own)):
            return False
        self._clients.setdefault(client, []).append(connection)
        self._count += 1
        return True

    def leave(self, connection: BoundedProtocol) -> None:
        own = self._clients.get(connection.owner, [])
        if connection in own:
            own.remove(connection)
            self._count -= 1
        if not own:
            self._clients.pop(connection.owner, None)

    def limit_buffers(self) -> None:
        """Abort connections with the largest unread responses while all unread responses exceed the limit."""
        unread_bytes = {one: one.unread_bytes for own in self._clients.values() for one in own if one.unread_bytes}
        total = sum(unread_bytes.values())
        for connection in sorted(unread_bytes, key=unread_bytes.__getitem__, reverse=True):
            if total <= self.limits.answers:
                return
            total -= unread_bytes[connection]
            self._abort(connection)

    def _client(self, connection: BoundedProtocol) -> str:
        """The client of a connection; each connection of a proxy counts as a client, since it serves many."""
        peer = connection.client[0] if connection.client else ""
        return f"{peer} {id(connection)}" if self._access.is_proxy(peer) else client_key(peer)

    def _abort_one(self, fewer: int) -> bool:
        """Abort a connection of a client that has more than `fewer`. Return whether there was one."""
        for own in sorted(self._clients.values(), key=len, reverse=True):
            if len(own) <= fewer:
                break
            waiting = [one for one in own if one.waiting]
            if waiting:
                self._abort(min(waiting, key=lambda one: one.since))
                return True
        return False

    def _abort(self, connection: BoundedProtocol) -> None:
        connection.transport.abort()
        self.leave(connection)


class BoundedProtocol(H11Protocol):
    """An HTTP connection with time limits for sending the head, for the body (by the guard), and for reading responses.

    Between requests uvicorn waits for the first byte; from then on the head must arrive in time.
    """

    since = 0.0  # the time at which it began to wait
    owner = ""  # the client to which it counts

    def __init__(self, *args: Any, open_connections: OpenConnections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._open = open_connections
        self._reading = _Deadline(self.loop, open_connections.limits.reading)
        self._writing = _Deadline(self.loop, open_connections.limits.writing)

    @property
    def waiting(self) -> bool:
        """Whether the server is not working on a request of this connection."""
        if self.cycle is None or self.cycle.more_body or self.cycle.response_complete or self.unread_bytes:
            return True
        return bool(self.scope["state"].get("queued", True))  # the guard delays it

    @property
    def unread_bytes(self) -> int:
        """Bytes of responses that the client has not read."""
        return self.transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # pause_writing is called at the first unread byte
        transport.max_size = _READ_BYTES  # type: ignore[attr-defined]
        self.since = self.loop.time()
        if self._open.enter(self):
            self._limit_reading()
        else:
            transport.write(_FULL)
            transport.close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._open.leave(self)
        self._reading.clear()
        self._writing.clear()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing.set(self.transport)
        self._open.limit_buffers()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._writing.clear()

    def on_response_complete(self) -> None:
        """Close the connection if the client still sends a body that was answered; it could do so forever."""
        self.since = self.loop.time()
        still_sending = self.conn.their_state is h11.SEND_BODY
        super().on_response_complete()
        if still_sending:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Handle invalid HTTP, also in the middle of a body that the application is waiting for."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        else:
            self.transport.abort()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def shutdown(self) -> None:
        """Answer complete requests; close connections that wait for the client."""
        if self.waiting:
            self.transport.close()
            self.loop.call_later(_LAST_SECONDS, self.transport.abort)
        else:
            super().shutdown()

    def _limit_reading(self) -> None:
        if self.conn.their_state is h11.IDLE:
            self._reading.set(self.transport)
        else:  # the head is complete; the guard limits the body
            self._reading.clear()


class _Deadline:
    """Aborts a connection unless it is cleared in time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def set(self, transport: asyncio.Transport) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, transport.abort)

    def clear(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
