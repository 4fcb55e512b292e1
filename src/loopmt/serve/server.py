"""The application on a socket: loopback unless told otherwise, and a clean stop."""

from __future__ import annotations

import contextlib
import functools
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType

import uvicorn

from loopmt.errors import ConfigError
from loopmt.serve.access import Access
from loopmt.serve.app import Service, create_app
from loopmt.serve.connections import BoundedProtocol, OpenConnections
from loopmt.serve.log import limit_log

_BACKLOG = 256  # connections that wait to be accepted, and that are accepted at once
_SPARE_FILES = 128  # open files besides connections
_FEWEST = 16  # connections, below which it makes no sense to serve
_KERNEL_BUFFER = 2**17  # bytes that the kernel keeps for a connection, in and out
_SWITCH = 0.001  # seconds after which the event loop leaves Python's lock to the translators, and they to it
_FAREWELL = 6  # seconds that requests under way get to end; with what follows it is less than 10


def listen(host: str, port: int) -> socket.socket:
    """Set IPPROTO_TCP so that asyncio enables TCP_NODELAY."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, proto=socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BUFFER)  # connections inherit both
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _KERNEL_BUFFER)
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


def possible_connections(wanted: int) -> int:
    """As many as there may be open files, after raising the soft limit as far as need be."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _BACKLOG + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    possible = wanted if soft == resource.RLIM_INFINITY else min(wanted, soft - _BACKLOG - _SPARE_FILES)
    if possible < min(_FEWEST, wanted):
        raise ConfigError(
            f"this process may open {soft:,} files; serving needs {_BACKLOG + _SPARE_FILES + _FEWEST:,}. "
            "Raise the limit: ulimit -n 4096, or LimitNOFILE=4096 in a systemd unit."
        )
    return possible


def make_server(service: Service, access: Access) -> uvicorn.Server:
    connections = possible_connections(service.limits.connections)
    open_connections = OpenConnections(replace(service.limits, connections=connections), access)
    config = uvicorn.Config(
        create_app(service, access),
        loop="asyncio",
        http=functools.partial(BoundedProtocol, open_connections=open_connections),  # type: ignore[arg-type]
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # `Access` reads them
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_FAREWELL,
    )
    limit_log()
    return uvicorn.Server(config)


def run(service: Service, listening: socket.socket, access: Access) -> bool:
    """Serve until told to stop (Ctrl-C or SIGTERM); what is under way gets some seconds. Whether all threads ended."""
    sys.setswitchinterval(_SWITCH)
    with _stopped_by_signal():
        make_server(service, access).run(sockets=[listening])
    return service.ended


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
