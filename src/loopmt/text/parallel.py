"""Map over blocks with several processes, in order, with a bounded number of blocks in flight."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from loopmt.errors import RunError

In = TypeVar("In")
Out = TypeVar("Out")

_worker: Callable[[Any], Any]


def default_jobs() -> int:
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 16)


def ordered_map(function: Callable[[In], Out], items: Iterable[In], jobs: int) -> Iterator[Out]:
    """`map(function, items)`; the function is sent to each process once, so it may be large."""
    if jobs == 1:
        yield from map(function, items)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_start, initargs=(function,)) as pool:
        waiting: deque[Future[Out]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(_work, item))
                if len(waiting) > 2 * jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise RunError(
                f"one of {jobs} working processes was ended from outside, perhaps for want of memory. Use fewer jobs."
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _start(function: Callable[[Any], Any]) -> None:
    """Ignore interrupts: the parent handles them."""
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker = function


def _work(item: Any) -> Any:
    return _worker(item)
