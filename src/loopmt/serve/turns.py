"""When a request may begin: a few at a time, in a fair order, so that the event loop stays quick under a flood."""

from __future__ import annotations

import asyncio
import heapq
import time
from itertools import count

from loopmt.serve.fair_clock import FairClock

_AT_ONCE = 16  # requests that begin together
_LONGEST = 0.1  # seconds between two such groups, at most


class Turns:
    """Requests that begin. After each group the loop leaves the processor for as long as it has used it itself.

    So the translators get half of it at least, and a client that asks seldom waits for one group at most.
    """

    def __init__(self) -> None:
        self._clock = FairClock()
        self._numbers = count()
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._left = _AT_ONCE
        self._used = 0.0  # processor time of this thread when the last group began
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, client: str) -> None:
        loop, turn = asyncio.get_running_loop(), self._clock.turn(client, 1)
        begin = loop.create_future()
        heapq.heappush(self._waiting, (turn, next(self._numbers), begin))
        self._begin()
        if self._timer is None:
            self._used = time.thread_time()
            self._timer = loop.call_later(0, self._next_group)
        await begin

    def _begin(self) -> None:
        while self._waiting and self._left:
            turn, _, begin = heapq.heappop(self._waiting)
            if not begin.done():  # its client did not leave
                self._clock.serve(turn, 1)
                begin.set_result(None)
                self._left -= 1

    def _next_group(self) -> None:
        idle, self._left, self._timer = self._left == _AT_ONCE, _AT_ONCE, None
        self._begin()
        if self._waiting or not idle:
            used = time.thread_time()
            delay = min(used - self._used, _LONGEST)
            self._used = used
            self._timer = asyncio.get_running_loop().call_later(delay, self._next_group)
