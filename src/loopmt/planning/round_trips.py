"""Judged round trips of held-out sentences: is the first translation right, and does the sentence return?

A loop is a closed path. The translator of interest is the *first* one, as in the theory. Training teaches the *last*
hop of a path, so the loop en>fr>es>en is trained as fr>es>en>fr: the same three translators with another start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from loopmt.config import Generate
from loopmt.errors import TheoryError
from loopmt.evaluation.bootstrap import FloatArray
from loopmt.evaluation.metrics import moses, sentence_bleu
from loopmt.evaluation.validation import Agree
from loopmt.path import Hop, LanguagePath
from loopmt.text.store import Store
from loopmt.translate.protocol import DecodeLimits, Sentences, TranslationModel
from loopmt.translate.walker import Rollout, Translators, generate_along

Bools = NDArray[np.bool_]
Scores = dict[tuple[tuple[str, ...], bool], FloatArray | None]
"""Sentence BLEU by the languages visited so far and by smoothing; trips with the same beginning share it."""


@dataclass(frozen=True)
class HeldOutText:
    """Held-out sentences of a direction, with their references in every language that has some, row by row."""

    hop: Hop
    sources: list[str]
    references: Mapping[str, list[str]]


@dataclass(frozen=True, eq=False)
class RoundTrip:
    """Sentences translated round a loop: `texts` holds the sources, then the translations after every hop."""

    loop: LanguagePath
    start: HeldOutText
    texts: list[list[str]]
    _scores: Scores = field(default_factory=dict, repr=False)

    def scores(self, smooth: bool) -> list[FloatArray | None]:
        """Sentence BLEU after every hop against the reference in that language; None without a reference."""
        return [self._score(place, smooth) for place in range(1, len(self.texts))]

    def _score(self, place: int, smooth: bool) -> FloatArray | None:
        key = self.loop.languages[: place + 1], smooth
        if key not in self._scores:
            language, references = self.loop.languages[place], self.start.references
            known = language in references
            self._scores[key] = _bleu(language, self.texts[place], references[language], smooth) if known else None
        return self._scores[key]


def _bleu(language: str, texts: list[str], references: list[str], smooth: bool) -> FloatArray:
    scores = np.full(len(texts), 100.0)
    rows = [row for row, (text, reference) in enumerate(zip(texts, references, strict=True)) if text != reference]
    if rows:
        code = language.partition("_")[0]
        said, wanted = (moses([side[row] for row in rows], code) for side in (texts, references))
        scores[rows] = sentence_bleu(said, wanted, smooth=smooth)
    return scores


@dataclass(frozen=True)
class Verdicts:
    """The verdicts on every sentence of one loop."""

    loop: LanguagePath
    right: Bools
    """The first hop translates it correctly (Y)."""
    home: Bools
    """The loop returns it (R)."""
    source: Bools | None
    """The input of the last hop is a right translation of the start; None without a reference."""
    steps: tuple[Bools, ...] | None = None
    """Each hop is right for the input it received (Z); only an exact judge knows."""

    def only(self, rows: slice) -> Verdicts:
        return replace(
            self,
            right=self.right[rows],
            home=self.home[rows],
            source=None if self.source is None else self.source[rows],
            steps=None if self.steps is None else tuple(step[rows] for step in self.steps),
        )


class CorrectnessRule(Protocol):
    """Decides what is correct."""

    @property
    def name(self) -> str: ...

    def judge(self, round_trip: RoundTrip) -> Verdicts: ...


@dataclass(frozen=True)
class ThresholdRule:
    """A text is right if its sentence BLEU on Moses tokens is above the threshold, or if it equals the reference."""

    threshold: float = 20.0
    smooth: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 100:
            raise TheoryError(f"threshold {self.threshold:g}: write a sentence BLEU of 0 or more and below 100.")

    @property
    def name(self) -> str:
        return f"{'' if self.smooth else 'unsmoothed '}BLEU > {self.threshold:g}"

    def judge(self, round_trip: RoundTrip) -> Verdicts:
        above = [None if scores is None else scores > self.threshold for scores in round_trip.scores(self.smooth)]
        right, home = above[0], above[-1]
        assert right is not None and home is not None, "a start has references in both languages of its direction"
        return Verdicts(round_trip.loop, right, home, _read_last(above))


@dataclass(frozen=True)
class ExactRule:
    """A text is right if it has the same meaning; for built-in languages only."""

    agree: Agree
    name: str = "exact"

    def judge(self, round_trip: RoundTrip) -> Verdicts:
        start = (round_trip.start.sources, round_trip.loop.languages[0])
        places = list(zip(round_trip.texts, round_trip.loop.languages, strict=True))
        kept = [self._same(start, place) for place in places[1:]]
        steps = tuple(self._same(before, after) for before, after in pairwise(places))
        return Verdicts(round_trip.loop, kept[0], kept[-1], _read_last(kept), steps)

    def _same(self, one: tuple[list[str], str], other: tuple[list[str], str]) -> Bools:
        rows = zip(one[0], other[0], strict=True)
        return np.array([self._agree(source, one[1], text, other[1]) for source, text in rows], dtype=np.bool_)

    @cached_property
    def _agree(self) -> Agree:
        return lru_cache(maxsize=None)(self.agree)


def _read_last(kept: Sequence[Bools | None]) -> Bools | None:
    """Whether the input of the last hop is right; with a single hop, the input is the source itself."""
    return kept[-2] if len(kept) > 1 else np.ones_like(kept[-1])


def loops_of(hops: Collection[Hop], longest: int = 3) -> list[LanguagePath]:
    """Every loop of 2 to `longest` hops that visits no language twice, by first hop and then by length."""
    return [
        LanguagePath(walk) for hop in hops for length in range(2, longest + 1) for walk in _closed(hops, hop, length)
    ]


def _closed(hops: Collection[Hop], first: Hop, length: int) -> list[tuple[str, ...]]:
    walks: list[tuple[str, ...]] = [(first.source, first.target)]
    for _ in range(length - 2):
        walks = [(*walk, hop.target) for walk in walks for hop in hops if _goes_on(walk, hop)]
    return [(*walk, first.source) for walk in walks if Hop(walk[-1], first.source) in hops]


def _goes_on(walk: tuple[str, ...], hop: Hop) -> bool:
    return hop.source == walk[-1] and hop.target not in walk


def held_out_text(
    store: Store, name: str, hops: Iterable[Hop], most: int | None = None, lowercase: bool = False
) -> list[HeldOutText]:
    """The sentences of a valid or test set by direction; a multi-way set has references in all its languages."""
    hops = list(hops)
    found = []
    for hop in hops:
        pair = store.pair_texts(name, hop.source, hop.target)
        if pair is not None and pair[0]:
            known = {hop.source: pair[0], hop.target: pair[1]}
            for language in dict.fromkeys(other.target for other in hops if other.target not in known):
                other_pair = store.pair_texts(name, hop.source, language)
                if other_pair is not None and other_pair[0] == pair[0]:
                    known[language] = other_pair[1]
            references = {language: _form(texts[:most], lowercase) for language, texts in known.items()}
            found.append(HeldOutText(hop, pair[0][:most], references))
    return found


def _form(texts: list[str], lowercase: bool) -> list[str]:
    """The references, in lower case if the vocabulary is, since the translations are then in lower case too."""
    return [text.lower() for text in texts] if lowercase else texts


def translate_round_trips(
    model: TranslationModel,
    how: Generate,
    starts: Sequence[HeldOutText],
    loops: Sequence[LanguagePath],
    advance: Callable[[float], None] = lambda steps: None,
) -> list[RoundTrip]:
    """Translate each start along the loops that begin with its hop, all together, with one model call per step."""
    pairs = [(loop, start) for start in starts for loop in loops if loop.hops[0] == start.hop]
    sentences = {id(start): Sentences(None, start.hop.source, texts=start.sources) for start in starts}
    rollouts = [Rollout.to_the_end(loop, how, sentences[id(start)]) for loop, start in pairs]
    limits = DecodeLimits.on(model.device)

    def observe(rollout: Rollout, hop: Hop) -> None:
        advance(len(rollout.start))

    generate_along(Translators(model), rollouts, limits, ("round trips",), observe=observe)
    shared: Scores = {}
    return [
        RoundTrip(loop, start, [start.sources, *(hop.best().sentences.texts for hop in rollout.trace)], shared)
        for (loop, start), rollout in zip(pairs, rollouts, strict=True)
    ]


def count_verdicts(*verdicts: Bools) -> dict[str, int]:
    """Counts of sentences by their verdicts, written as bits."""
    codes = np.zeros(len(verdicts[0]), dtype=np.int64)
    for verdict in verdicts:
        codes = 2 * codes + verdict
    counts = np.bincount(codes, minlength=1 << len(verdicts))
    return {format(code, f"0{len(verdicts)}b"): int(count) for code, count in enumerate(counts)}
