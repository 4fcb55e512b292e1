"""Connections: how many may be open, which one gives way when there are too many, and how slow each may be."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from loopmt.serve.access import Access, client_key
from loopmt.serve.limits import RequestLimits

_LAST_WORDS = 2.0  # seconds to take an answer once the server stops
_READ_AT_ONCE = 2**14  # bytes
_SENTENCE = b'{"error": "too many connections. Try again in a moment."}'
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_SENTENCE), _SENTENCE)
)


class OpenConnections:
    """Every connection by client.

    A connection whose request is whole keeps its place until it is answered. Any other one, which is idle, sends
    slowly or does not take its answer, gives way to a client that has fewer: the oldest of the client that has most.
    """

    def __init__(self, limits: RequestLimits, access: Access) -> None:
        self.limits = limits
        self._access = access
        self._clients: dict[str, list[BoundedProtocol]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def enter(self, connection: BoundedProtocol) -> bool:
        """Whether there is a place for it, after another gave way if need be."""
        client = connection.owner = self._client(connection)
        own = self._clients.get(client, [])
        if len(own) >= self.limits.client_connections:
            return False
        if self._count >= self.limits.connections and not self._make_place(len(own)):
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

    def relieve(self) -> None:
        """Abort whoever has most of its answer to take, while all answers together are too large."""
        untaken = {one: one.untaken for own in self._clients.values() for one in own if one.untaken}
        total = sum(untaken.values())
        for connection in sorted(untaken, key=untaken.__getitem__, reverse=True):
            if total <= self.limits.answers:
                return
            total -= untaken[connection]
            self._abort(connection)

    def _client(self, connection: BoundedProtocol) -> str:
        """A proxy's connections are of many clients: each counts by itself."""
        peer = connection.client[0] if connection.client else ""
        return f"{peer} {id(connection)}" if self._access.is_proxy(peer) else client_key(peer)

    def _make_place(self, fewer: int) -> bool:
        """Abort a connection of a client that has more than so many."""
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
    """An HTTP connection with a limit on every wait: for a head, for a body (the guard's), and for the client to read.

    Between requests uvicorn itself waits for a first byte; from then on the head must come in time.
    """

    since = 0.0  # when it began to wait for what it waits for
    owner = ""  # the client that its place counts for

    def __init__(self, *args: Any, open_connections: OpenConnections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._open = open_connections
        self._reading = _Deadline(self.loop, open_connections.limits.reading)
        self._writing = _Deadline(self.loop, open_connections.limits.writing)

    @property
    def waiting(self) -> bool:
        """Whether nothing is being done for the client."""
        if self.cycle is None or self.cycle.more_body or self.cycle.response_complete or self.untaken:
            return True
        return bool(self.scope["state"].get("queued", True))  # the guard has not let it begin

    @property
    def untaken(self) -> int:
        """Bytes of answers that the client has not taken."""
        return self.transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # pause_writing tells of the first byte that is not taken
        transport.max_size = _READ_AT_ONCE  # type: ignore[attr-defined]
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
        self._open.relieve()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._writing.clear()

    def on_response_complete(self) -> None:
        """A client that goes on sending a body that was answered already would keep its place for ever."""
        self.since = self.loop.time()
        unread = self.conn.their_state is h11.SEND_BODY
        super().on_response_complete()
        if unread:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP may come in the middle of a body, which somebody waits for."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        else:
            self.transport.abort()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def shutdown(self) -> None:
        """A whole request is still answered; whatever waits for the client ends."""
        if self.waiting:
            self.transport.close()
            self.loop.call_later(_LAST_WORDS, self.transport.abort)
        else:
            super().shutdown()

    def _limit_reading(self) -> None:
        if self.conn.their_state is h11.IDLE:
            self._reading.set(self.transport)
        else:  # the head is there; the guard limits the body
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
