"""Serving the application on a socket, with a clean stop."""

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

_BACKLOG = 256  # connections that wait to be accepted, or are accepted at once
_SPARE_FILES = 128  # open files besides connections
_FEWEST = 16  # connections that a server needs at least
_KERNEL_BUFFER = 2**17  # bytes that the kernel buffers for a connection
_SWITCH = 0.001  # seconds; Python's switch interval between event loop and translators
_GRACE = 6  # seconds for running requests when the server stops; the whole stop takes less than 10


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
            "Choose another --port or --host; port 0 selects a free port."
        ) from None
    return listening


def address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def possible_connections(wanted: int) -> int:
    """The number of connections that the limit of open files allows, after raising the soft limit if necessary."""
    try:
        import resource
    except ImportError:  # not on Windows
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _BACKLOG + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    possible = wanted if soft == resource.RLIM_INFINITY else min(wanted, soft - _BACKLOG - _SPARE_FILES)
    if possible < min(_FEWEST, wanted):
        raise ConfigError(
            f"this process may open only {soft:,} files; serving needs {_BACKLOG + _SPARE_FILES + _FEWEST:,}. "
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
        timeout_graceful_shutdown=_GRACE,
    )
    limit_log()
    return uvicorn.Server(config)


def run(service: Service, listening: socket.socket, access: Access) -> bool:
    """Serve until Ctrl-C or SIGTERM; running requests get a grace period. Return whether all threads ended."""
    sys.setswitchinterval(_SWITCH)
    with _stopped_by_signal():
        make_server(service, access).run(sockets=[listening])
    return service.ended


@contextlib.contextmanager
def _stopped_by_signal() -> Iterator[None]:
    """End the block when uvicorn re-raises the signal that stopped it, so that cleanup can run."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
