"""Rate limits for log lines, so that clients cannot fill the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

_LOGGERS = ("uvicorn.error", "asyncio")  # errors of requests and sockets
_BURST = 20  # lines of a kind before the limit applies
_SECONDS = 60.0  # between further lines
_MOST_KINDS = 100


@dataclass
class _Kind:
    left: float
    then: float
    dropped: int = 0


class RateLimitedLog(logging.Filter):
    """Passes a burst of lines of each kind, then one per minute with the number of dropped lines."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._clock()
        kind = self._kind(str(record.msg), now)
        kind.left, kind.then = min(_BURST, kind.left + (now - kind.then) / _SECONDS), now
        if kind.left < 1:
            kind.dropped += 1
            return False
        kind.left -= 1
        if kind.dropped:
            record.msg, record.args = f"{record.getMessage()} ({kind.dropped} more such lines were dropped)", ()
            kind.dropped = 0
        return True

    def _kind(self, message: str, now: float) -> _Kind:
        """The counter of a message's kind; beyond a limit, all further kinds share one."""
        name = message if message in self._kinds or len(self._kinds) < _MOST_KINDS else ""
        return self._kinds.setdefault(name, _Kind(_BURST, now))


def limit_log() -> None:
    """Limit every logger whose lines clients can cause."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(found, RateLimitedLog) for found in logger.filters):
            logger.addFilter(RateLimitedLog())
