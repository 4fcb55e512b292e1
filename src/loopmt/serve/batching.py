"""Requests wait a moment for one another: texts that take the same hop are translated together.

One thread owns the translators. What arrives while it works waits, and goes with a later batch of its hop. A batch
is bounded in subwords, so that it takes about half a second: that is how long work that nobody wants any more goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

from loopmt.path import Hop, LanguagePath
from loopmt.serve.fair_queue import BatchKey, FairQueue, QueuedText
from loopmt.serve.threads import WorkerThread

_WINDOW = 0.01  # seconds that the first text waits for company
_MOST_TEXTS = 256  # translated at once
_TARGET = 0.5  # seconds for a batch
_SMALLEST, _LARGEST = 4_096, 65_536  # estimated subwords of a batch


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
        """What decodes, in words."""

    @property
    def stage(self) -> str: ...

    @property
    def hops(self) -> Sequence[Hop]: ...

    def walk(self, path: str) -> LanguagePath:
        """The path, if it can be walked; raises PathError if not."""

    def say(self, texts: Sequence[str], hop: Hop, n: int) -> Sequence[Sequence[ServedHypothesis]]:
        """Up to `n` translations of each text, best first."""


class Batcher:
    """The queue of texts, and the thread that works through it."""

    def __init__(self) -> None:
        self.batches = 0
        self.texts = 0
        self._queue = FairQueue()
        self._arrived = asyncio.Event()
        self._thread = WorkerThread("translators")
        self._most_subwords = _SMALLEST

    async def say(
        self, texts: Sequence[str], hop: Hop, n: int = 1, client: str = ""
    ) -> list[Sequence[ServedHypothesis]]:
        key = BatchKey(hop, n)
        waiting = self._queue.put(client, key, texts)
        self._arrived.set()
        try:
            found: list[Sequence[ServedHypothesis]] = await asyncio.gather(*(one.said for one in waiting))
            return found
        finally:
            if not all(one.said.done() and not one.said.cancelled() for one in waiting):
                self._queue.drop(key, waiting)

    async def work(self, engine: Engine) -> None:
        """Translate what waits, for ever."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            await asyncio.sleep(_WINDOW)
            while self._queue:
                await self._translate(engine, *self._queue.take(_MOST_TEXTS, self._most_subwords))

    def close(self, seconds: float) -> bool:
        """Whether the batch in hand ended within these seconds."""
        return self._thread.close(seconds)

    async def _translate(self, engine: Engine, key: BatchKey, batch: Sequence[QueuedText]) -> None:
        batch = [one for one in batch if not one.said.done()]  # some gave up
        if not batch:
            return
        texts, began = [one.text for one in batch], time.monotonic()
        try:
            found = await self._thread.submit(engine.say, texts, key.hop, key.n)
        except Exception as error:
            await self._isolate(engine, key, batch, error)
            return
        self._adapt(sum(one.subwords for one in batch), time.monotonic() - began)
        self.batches += 1
        self.texts += len(batch)
        for one, said in zip(batch, found, strict=True):
            if not one.said.done():
                one.said.set_result(said)

    def _adapt(self, subwords: int, seconds: float) -> None:
        if seconds > _TARGET:
            self._most_subwords = max(_SMALLEST, self._most_subwords // 2)
        elif seconds < _TARGET / 2 and 2 * subwords > self._most_subwords:
            self._most_subwords = min(_LARGEST, 2 * self._most_subwords)

    async def _isolate(self, engine: Engine, key: BatchKey, batch: Sequence[QueuedText], error: Exception) -> None:
        """One text that fails must not take its company with it: look for it in either half."""
        half = len(batch) // 2
        if half:
            await self._translate(engine, key, batch[:half])
            await self._translate(engine, key, batch[half:])
        elif not batch[0].said.done():
            batch[0].said.set_exception(error)
