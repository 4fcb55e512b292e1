"""Dynamic batching: texts of several requests with the same hop are translated together.

One thread owns the translators. Texts that arrive while it works go into a later batch of their hop. The size of a
batch is adapted so that it takes about half a second, which bounds the work for requests that were cancelled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

from loopmt.path import Hop, LanguagePath
from loopmt.serve.fair_queue import BatchKey, FairQueue, QueuedText
from loopmt.serve.threads import WorkerThread

_WINDOW = 0.01  # seconds that the first text waits for others
_MOST_TEXTS = 256  # per batch
_TARGET = 0.5  # seconds per batch
_SMALLEST, _LARGEST = 4_096, 65_536  # limits of estimated subwords per batch


class ServedHypothesis(Protocol):
    """A translation and its log-probability."""

    @property
    def text(self) -> str: ...

    @property
    def score(self) -> float: ...


class Engine(Protocol):
    """The translators of one stage."""

    @property
    def backend(self) -> str:
        """A description of the decoder."""

    @property
    def stage(self) -> str: ...

    @property
    def hops(self) -> Sequence[Hop]: ...

    def parse_path(self, path: str) -> LanguagePath:
        """Parse a path; raises PathError if it is invalid or has no translators."""

    def translate(self, texts: Sequence[str], hop: Hop, n: int) -> Sequence[Sequence[ServedHypothesis]]:
        """Up to `n` translations of each text, best first."""


class Batcher:
    """The queue of texts, and the thread that translates them."""

    def __init__(self) -> None:
        self.batches = 0
        self.texts = 0
        self._queue = FairQueue()
        self._arrived = asyncio.Event()
        self._thread = WorkerThread("translators")
        self._most_subwords = _SMALLEST

    async def translate(
        self, texts: Sequence[str], hop: Hop, n: int = 1, client: str = ""
    ) -> list[Sequence[ServedHypothesis]]:
        key = BatchKey(hop, n)
        waiting = self._queue.put(client, key, texts)
        self._arrived.set()
        try:
            found: list[Sequence[ServedHypothesis]] = await asyncio.gather(*(one.result for one in waiting))
            return found
        finally:
            if not all(one.result.done() and not one.result.cancelled() for one in waiting):
                self._queue.drop(key, waiting)

    async def work(self, engine: Engine) -> None:
        """Translate waiting texts in an endless loop."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            await asyncio.sleep(_WINDOW)
            while self._queue:
                await self._translate(engine, *self._queue.take(_MOST_TEXTS, self._most_subwords))

    def close(self, seconds: float) -> bool:
        """Wait for the current batch. Return whether it ended within these seconds."""
        return self._thread.close(seconds)

    async def _translate(self, engine: Engine, key: BatchKey, batch: Sequence[QueuedText]) -> None:
        batch = [one for one in batch if not one.result.done()]  # without cancelled texts
        if not batch:
            return
        texts, began = [one.text for one in batch], time.monotonic()
        try:
            found = await self._thread.submit(engine.translate, texts, key.hop, key.n)
        except Exception as error:
            await self._isolate(engine, key, batch, error)
            return
        self._adapt(sum(one.subwords for one in batch), time.monotonic() - began)
        self.batches += 1
        self.texts += len(batch)
        for one, hypotheses in zip(batch, found, strict=True):
            if not one.result.done():
                one.result.set_result(hypotheses)

    def _adapt(self, subwords: int, seconds: float) -> None:
        if seconds > _TARGET:
            self._most_subwords = max(_SMALLEST, self._most_subwords // 2)
        elif seconds < _TARGET / 2 and 2 * subwords > self._most_subwords:
            self._most_subwords = min(_LARGEST, 2 * self._most_subwords)

    async def _isolate(self, engine: Engine, key: BatchKey, batch: Sequence[QueuedText], error: Exception) -> None:
        """Find the text that fails by halving the batch, so that the others are translated."""
        half = len(batch) // 2
        if half:
            await self._translate(engine, key, batch[:half])
            await self._translate(engine, key, batch[half:])
        elif not batch[0].result.done():
            batch[0].result.set_exception(error)
