"""Translations of texts along a path, back by loops, and to the target by other paths."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from loopmt.config import Generate
from loopmt.path import Hop, LanguagePath, ways
from loopmt.serve import messages
from loopmt.serve.batching import Batcher
from loopmt.serve.limits import RefusedError
from loopmt.serve.threads import WorkerThread
from loopmt.text.word_diff import differences, similarity, words
from loopmt.translate.protocol import Sentences, Translations
from loopmt.translate.walker import HopRequest, Rollout, Walker

Languages = tuple[str, ...]
_AS_SERVED = Generate(how="beam")  # the engine has its own settings


class RoundTripPlan:
    """The paths that a request needs."""

    def __init__(self, path: LanguagePath, hops: Sequence[Hop], loops: bool) -> None:
        self.path = path
        start, end = path.ends
        self.loops: list[Languages] = []
        self.ways: list[Languages] = []
        if loops and path.closed:
            self.loops = [path.languages]
        elif loops:
            self.loops = [(*path.languages, *way.languages[1:]) for way in ways(Hop(end, start), hops)]
            self.ways = [way.languages for way in ways(Hop(start, end), hops) if way != path]

    @property
    def work(self) -> int:
        """The number of hops to translate; common beginnings of paths count once."""
        paths = [self.path.languages, *self.loops, *self.ways]
        return len({path[:length] for path in paths for length in range(2, len(path) + 1)})


class RoundTrips:
    """Translations of the same texts along several paths."""

    def __init__(
        self, batcher: Batcher, texts: Sequence[str], plan: RoundTripPlan, nbest: int, client: str, longest: int
    ) -> None:
        self.texts = texts
        self.plan = plan
        self._batcher = batcher
        self._client = client
        self._longest = longest  # characters of an intermediate translation
        self._start = Sentences(None, plan.path.languages[0], texts=texts)
        paths = dict.fromkeys((plan.path.languages, *plan.loops, *plan.ways))
        self._rollouts = [self._rollout(path, nbest if path == plan.path.languages else 1) for path in paths]
        self._candidates: dict[Languages, list[list[tuple[str, float]]]] = {}  # text and score, by beginning of a path

    def _rollout(self, path: Languages, n: int) -> Rollout:
        return Rollout.to_the_end(LanguagePath(path), _AS_SERVED, self._start, n)

    async def answer(self, thread: WorkerThread) -> bytes:
        """The response as JSON. The thread compares words one text at a time, so that requests take turns."""
        try:
            await self._translate()
        except* RefusedError as refusals:
            raise _first(refusals) from None
        rows = [await thread.submit(self._translation, row) for row in range(len(self.texts))]
        answer = messages.TranslateResponse(path=str(self.plan.path), translations=rows)
        return await thread.submit(lambda: answer.model_dump_json().encode())

    async def _translate(self) -> None:
        """Translate all paths hop by hop; common beginnings are translated once."""
        walker = Walker(self._rollouts)
        while requests := walker.next():
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(self._ask(request)) for request in requests]
            for rollout, _ in walker.receive([task.result() for task in asked]):
                so_far = rollout.path.languages[: len(rollout.trace) + 1]
                if so_far not in self._candidates:
                    self._candidates[so_far] = list(rollout.trace[-1].by_source())

    async def _ask(self, request: HopRequest) -> Translations:
        hop, sources = request.input.hop, request.input.sources
        if sources is not self._start:
            self._check_length(sources.texts, hop)
        found = await self._batcher.translate(sources.texts, hop, request.n, self._client)
        texts = [one.text for candidates in found for one in candidates]
        scores = np.array([one.score for candidates in found for one in candidates], dtype=np.float64)
        counts = np.array([len(candidates) for candidates in found], dtype=np.int64)
        sentences = Sentences(None, hop.target, texts=texts)
        return Translations(sentences, scores, np.ones(len(texts), dtype=np.bool_), counts)

    def _check_length(self, texts: Sequence[str], hop: Hop) -> None:
        """Refuse to continue with very long translations, which grow with every hop."""
        longest = max(map(len, texts))
        if longest > self._longest:
            raise RefusedError(
                413,
                f"the translation into {hop.source} has {longest:,} characters; at most {self._longest:,} can "
                "be translated further. Send a shorter text or a shorter path.",
            )

    def _found(self, path: Languages, row: int) -> list[tuple[str, float]]:
        """Candidates of a text at the end of a path or of its beginning."""
        return self._candidates[path][row]

    def _steps(self, path: Languages, row: int) -> list[messages.StepMessage]:
        lengths = range(2, len(path) + 1)
        return [messages.StepMessage(language=path[n - 1], text=self._found(path[:n], row)[0][0]) for n in lengths]

    def _translation(self, row: int) -> messages.TranslationMessage:
        path = self.plan.path.languages
        so_far = sum(self._found(path[:length], row)[0][1] for length in range(2, len(path)))
        candidates = self._found(path, row)
        found = [messages.CandidateMessage(text=text, score=so_far + score) for text, score in candidates]
        best = found[0]
        steps = self._steps(path, row)
        message = messages.TranslationMessage(text=best.text, score=best.score, steps=steps, nbest=found)
        if self.plan.loops or self.plan.ways:
            message.loops = [self._trip(loop, row, self.texts[row]) for loop in self.plan.loops]
            message.ways = [self._trip(way, row, best.text) for way in self.plan.ways]
            message.confidence = _confidence(self.texts[row], message.text, message.ways)
        return message

    def _trip(self, path: Languages, row: int, compared: str) -> messages.RoundTripMessage:
        steps = self._steps(path, row)
        end = steps[-1].text
        return messages.RoundTripMessage(
            path=">".join(path),
            steps=steps,
            differences=_differences(compared, end),
            likeness=similarity(compared, end),
        )


def _confidence(source: str, translation: str, others: Sequence[messages.RoundTripMessage]) -> float | None:
    """The agreement of other paths; 0 if the translation of a non-empty source is empty."""
    if not others:
        return None
    return fmean(way.likeness for way in others) if words(translation) or not words(source) else 0.0


def _first(group: BaseExceptionGroup[RefusedError]) -> RefusedError:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _differences(before: str, after: str) -> list[messages.DifferenceMessage]:
    return [messages.DifferenceMessage(kind=kind, text=text) for kind, text in differences(before, after)]
