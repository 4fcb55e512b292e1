"""The application on a socket: loopback unless told otherwise, and a clean stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator
from types import FrameType

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from loopmt.errors import ConfigError
from loopmt.serve.app import Service, create_app
from loopmt.serve.limits import is_loopback

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_BACKLOG = 1024
_SILENCE = 10.0  # seconds that a connection may take to ask something
_FAREWELL = 10  # seconds that requests under way get to end


class TimeoutProtocol(H11Protocol):
    """A connection whose next request does not arrive, silent or dripping, is closed: it would hold its place for ever.

    Between requests uvicorn itself waits for a first byte; from then on the head must come in time.
    """

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limit()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._relax()

    def _limit(self) -> None:
        if self.conn.their_state is not h11.IDLE:  # the head is there; the door limits the body
            self._relax()
        elif self._patience is None:
            self._patience = self.loop.call_later(_SILENCE, self.transport.close)

    def _relax(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


def listen(host: str, port: int) -> socket.socket:
    """A socket that says it is TCP: only of such ones asyncio sends small answers at once."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, proto=socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {getattr(error, 'strerror', None) or error}. "
            "Choose another --port or --host; port 0 takes any that is free."
        ) from None
    return listening


def address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def make_server(service: Service, host: str) -> uvicorn.Server:
    names = {*_LOOPBACK, host.lower()} if is_loopback(host) else None
    config = uvicorn.Config(
        create_app(service, names),
        http=TimeoutProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_FAREWELL,
    )
    return uvicorn.Server(config)


def run(service: Service, listening: socket.socket, host: str) -> None:
    """Serve until told to stop (Ctrl-C or SIGTERM); what is under way is answered first."""
    with _stopped_by_signal():
        make_server(service, host).run(sockets=[listening])


@contextlib.contextmanager
def _stopped_by_signal() -> Iterator[None]:
    """uvicorn repeats the signal that stopped it; here it ends the block, so that others can clean up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
