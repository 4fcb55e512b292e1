"""The queue of texts for translation, ordered so that every client gets an equal share of the work."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from loopmt.path import Hop
from loopmt.serve.fair_clock import FairClock
from loopmt.serve.limits import estimated_subwords


@dataclass(frozen=True)
class BatchKey:
    """The key of a batch: texts with the same hop and number of hypotheses are translated together."""

    hop: Hop
    n: int


@dataclass(order=True)
class QueuedText:
    turn: float
    number: int
    text: str = field(compare=False)
    subwords: int = field(compare=False)
    result: asyncio.Future[Any] = field(compare=False)


class FairQueue:
    """Heaps of texts by key; a batch starts with the text whose turn is first and adds others with its key."""

    def __init__(self) -> None:
        self._waiting: dict[BatchKey, list[QueuedText]] = {}
        self._numbers = count()
        self._clock = FairClock()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, client: str, key: BatchKey, texts: Sequence[str]) -> list[QueuedText]:
        loop, added = asyncio.get_running_loop(), []
        for text in texts:
            subwords = estimated_subwords(text)
            turn = self._clock.turn(client, _work(subwords, key))
            added.append(QueuedText(turn, next(self._numbers), text, subwords, loop.create_future()))
            heapq.heappush(self._waiting.setdefault(key, []), added[-1])
        return added

    def take(self, most_texts: int, most_subwords: int) -> tuple[BatchKey, list[QueuedText]]:
        """The next batch within the limits, with at least one text."""
        key = min(self._waiting, key=lambda key: self._waiting[key][0])
        heap = self._waiting[key]
        batch = [heapq.heappop(heap)]
        size = batch[0].subwords
        self._clock.serve(batch[0].turn, _work(batch[0].subwords, key))
        while heap and len(batch) < most_texts and size + heap[0].subwords <= most_subwords:
            batch.append(heapq.heappop(heap))
            size += batch[-1].subwords
        self._tidy(key)
        return key, batch

    def drop(self, key: BatchKey, texts: Sequence[QueuedText]) -> None:
        """Remove cancelled texts."""
        for one in texts:
            one.result.cancel()
        if key in self._waiting:
            self._waiting[key] = [one for one in self._waiting[key] if not one.result.done()]
            heapq.heapify(self._waiting[key])
            self._tidy(key)

    def _tidy(self, key: BatchKey) -> None:
        if not self._waiting[key]:
            del self._waiting[key]


def _work(subwords: int, key: BatchKey) -> float:
    """The cost of a text; the beam has at least as many hypotheses as requested."""
    return subwords * max(1.0, key.n / 4)
