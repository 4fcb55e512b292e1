"""A text on its walks: along the path, home by each loop, and there by each other way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from statistics import fmean

from loopmt.path import Hop, LanguagePath, ways
from loopmt.serve import messages
from loopmt.serve.batching import Batcher, ServedHypothesis
from loopmt.serve.limits import RefusedError
from loopmt.serve.threads import WorkerThread
from loopmt.serve.word_diff import differences, similarity, words

Walk = tuple[str, ...]


class RoundTripPlan:
    """The walks that a request needs."""

    def __init__(self, path: LanguagePath, hops: Sequence[Hop], loops: bool) -> None:
        self.path = path
        start, end = path.ends
        self.loops: list[Walk] = []
        self.ways: list[Walk] = []
        if loops and path.closed:
            self.loops = [path.languages]
        elif loops:
            self.loops = [(*path.languages, *way.languages[1:]) for way in ways(Hop(end, start), hops)]
            self.ways = [way.languages for way in ways(Hop(start, end), hops) if way != path]

    @property
    def work(self) -> int:
        """Hops to take; what walks have in common is taken once."""
        walks = [self.path.languages, *self.loops, *self.ways]
        return len({walk[:length] for walk in walks for length in range(2, len(walk) + 1)})


class RoundTrips:
    """Walks of the same texts."""

    def __init__(
        self, batcher: Batcher, texts: Sequence[str], plan: RoundTripPlan, nbest: int, client: str, longest: int
    ) -> None:
        self.texts = texts
        self.plan = plan
        self._batcher = batcher
        self._nbest = nbest
        self._client = client
        self._longest = longest  # characters of a text that is translated further
        self._reached: dict[Walk, asyncio.Task[list[Sequence[ServedHypothesis]]]] = {}

    async def answer(self, thread: WorkerThread) -> bytes:
        """The answer as JSON. The thread compares words, one text at a time: others may have theirs in between."""
        try:
            await self._translate()
        except* RefusedError as refusals:
            raise _first(refusals) from None
        rows = [await thread.submit(self._translation, row) for row in range(len(self.texts))]
        answer = messages.TranslateResponse(path=str(self.plan.path), translations=rows)
        return await thread.submit(lambda: answer.model_dump_json().encode())

    async def _translate(self) -> None:
        plan = self.plan
        async with asyncio.TaskGroup() as group:
            for walk in (plan.path.languages, *plan.loops, *plan.ways):
                self._start(walk, group)

    def _start(self, walk: Walk, group: asyncio.TaskGroup) -> None:
        for length in range(2, len(walk) + 1):
            if walk[:length] not in self._reached:
                self._reached[walk[:length]] = group.create_task(self._reach(walk[:length]))

    async def _reach(self, walk: Walk) -> list[Sequence[ServedHypothesis]]:
        """What is said at the end of a walk. Only the path itself is told in several candidates."""
        before = self.texts
        if len(walk) > 2:
            before = [said[0].text for said in await self._reached[walk[:-1]]]
            self._check_length(before, walk)
        n = self._nbest if walk == self.plan.path.languages else 1
        return await self._batcher.say(before, Hop(*walk[-2:]), n, self._client)

    def _check_length(self, texts: Sequence[str], walk: Walk) -> None:
        """A network that repeats itself says more with every hop."""
        longest = max(map(len, texts))
        if longest > self._longest:
            raise RefusedError(
                413,
                f"the translation into {walk[-2]} has {longest:,} characters; at most {self._longest:,} are translated "
                "further. Send a shorter text or a shorter path.",
            )

    def _said(self, walk: Walk, row: int) -> Sequence[ServedHypothesis]:
        return self._reached[walk].result()[row]

    def _steps(self, walk: Walk, row: int) -> list[messages.StepMessage]:
        lengths = range(2, len(walk) + 1)
        return [messages.StepMessage(language=walk[n - 1], text=self._said(walk[:n], row)[0].text) for n in lengths]

    def _translation(self, row: int) -> messages.TranslationMessage:
        path = self.plan.path.languages
        so_far = sum(self._said(path[:length], row)[0].score for length in range(2, len(path)))
        found = [messages.CandidateMessage(text=one.text, score=so_far + one.score) for one in self._said(path, row)]
        best = found[0]
        told = messages.TranslationMessage(text=best.text, score=best.score, steps=self._steps(path, row), nbest=found)
        if self.plan.loops or self.plan.ways:
            told.loops = [self._trip(walk, row, self.texts[row]) for walk in self.plan.loops]
            told.ways = [self._trip(walk, row, best.text) for walk in self.plan.ways]
            told.confidence = _confidence(self.texts[row], told.text, told.ways)
        return told

    def _trip(self, walk: Walk, row: int, compared: str) -> messages.RoundTripMessage:
        steps = self._steps(walk, row)
        end = steps[-1].text
        return messages.RoundTripMessage(
            path=">".join(walk),
            steps=steps,
            differences=_differences(compared, end),
            likeness=similarity(compared, end),
        )


def _confidence(source: str, said: str, others: Sequence[messages.RoundTripMessage]) -> float | None:
    """How far the other ways agree; that all of them say nothing is no agreement."""
    if not others:
        return None
    return fmean(way.likeness for way in others) if words(said) or not words(source) else 0.0


def _first(group: BaseExceptionGroup[RefusedError]) -> RefusedError:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _differences(before: str, after: str) -> list[messages.DifferenceMessage]:
    return [messages.DifferenceMessage(kind=kind, text=text) for kind, text in differences(before, after)]
