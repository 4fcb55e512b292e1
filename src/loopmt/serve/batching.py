"""Requests wait a moment for one another: texts that take the same hop are translated together.

One thread owns the translators. What arrives while it works waits, and goes with the next batch of its hop; hops
take turns, so that a crowded one does not keep the others waiting.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from loopmt.path import Hop, LanguagePath

_WINDOW = 0.01  # seconds that the first text waits for company
_MOST = 256  # texts translated at once


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


@dataclass(frozen=True)
class BatchKey:
    """What a text waits for: texts on the same errand go together."""

    hop: Hop
    n: int


@dataclass
class QueuedText:
    text: str
    said: asyncio.Future[Sequence[ServedHypothesis]]


class Batcher:
    """A queue by errand, and the thread that works through it."""

    def __init__(self) -> None:
        self.batches = 0
        self.texts = 0
        self._queues: dict[BatchKey, deque[QueuedText]] = {}
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "translators")

    async def say(self, texts: Sequence[str], hop: Hop, n: int = 1) -> list[Sequence[ServedHypothesis]]:
        loop = asyncio.get_running_loop()
        waiting = [QueuedText(text, loop.create_future()) for text in texts]
        self._queues.setdefault(BatchKey(hop, n), deque()).extend(waiting)
        self._arrived.set()
        return await asyncio.gather(*(one.said for one in waiting))

    async def work(self, engine: Engine) -> None:
        """Translate what waits, for ever."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            await asyncio.sleep(_WINDOW)
            while self._queues:
                await self._translate(engine, *self._next())

    def close(self) -> None:
        self._thread.shutdown()

    def _next(self) -> tuple[BatchKey, list[QueuedText]]:
        key = next(iter(self._queues))
        queue = self._queues.pop(key)
        batch = [queue.popleft() for _ in range(min(_MOST, len(queue)))]
        if queue:
            self._queues[key] = queue  # behind the others
        return key, batch

    async def _translate(self, engine: Engine, key: BatchKey, batch: list[QueuedText]) -> None:
        batch = [one for one in batch if not one.said.done()]  # some gave up
        if not batch:
            return
        texts = [one.text for one in batch]
        try:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._thread, engine.say, texts, key.hop, key.n)
        except Exception as error:
            await self._isolate(engine, key, batch, error)
            return
        self.batches += 1
        self.texts += len(batch)
        for one, said in zip(batch, found, strict=True):
            if not one.said.done():
                one.said.set_result(said)

    async def _isolate(self, engine: Engine, key: BatchKey, batch: list[QueuedText], error: Exception) -> None:
        """One text that fails must not take its company with it."""
        if len(batch) > 1:
            for one in batch:
                await self._translate(engine, key, [one])
        elif not batch[0].said.done():
            batch[0].said.set_exception(error)
