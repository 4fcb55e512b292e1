"""Admission of requests in small groups, in a fair order, so that the event loop stays responsive under load."""

from __future__ import annotations

import asyncio
import heapq
import time
from itertools import count

from loopmt.serve.fair_clock import FairClock

_GROUP = 16  # requests that begin together
_LONGEST = 0.1  # seconds, at most, between groups


class Turns:
    """Starts requests in groups. After each group the event loop pauses for as long as it used the processor.

    So the translators get at least half of the processor, and an occasional client waits for at most one group.
    """

    def __init__(self) -> None:
        self._clock = FairClock()
        self._numbers = count()
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._left = _GROUP
        self._used = 0.0  # this thread's processor time at the start of the last group
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
            if not begin.done():  # its client is still connected
                self._clock.serve(turn, 1)
                begin.set_result(None)
                self._left -= 1

    def _next_group(self) -> None:
        idle, self._left, self._timer = self._left == _GROUP, _GROUP, None
        self._begin()
        if self._waiting or not idle:
            used = time.thread_time()
            delay = min(used - self._used, _LONGEST)
            self._used = used
            self._timer = asyncio.get_running_loop().call_later(delay, self._next_group)
