"""Worker threads that block neither the event loop nor the end of the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class WorkerThread:
    """One thread that runs functions in order; functions cancelled before their turn are skipped."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, name)
        self._pending: set[Future[Any]] = set()

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        future = self._pool.submit(function, *args, **kwargs)
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return asyncio.wrap_future(future)

    def close(self, seconds: float) -> bool:
        """Drop waiting work and give running work some time. Return whether the thread has ended."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        return not wait(set(self._pending), seconds).not_done
