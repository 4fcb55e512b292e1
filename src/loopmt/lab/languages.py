"""Small languages with exact verdicts, and translators between them with given initial accuracies.

A language has a few sentences for each meaning; a translator is a table of logits, one row for each source sentence. A
translation is right if it has the meaning of its source. Translators can share errors (hard meanings), which causes
lambda, and errors can go to a fixed twin of a meaning so that two errors cancel, which causes delta.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
import numpy.typing as npt

from loopmt.errors import TheoryError
from loopmt.rng import numpy_generator

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Hop = tuple[int, int]
Translators = dict[Hop, Array]

CONFIDENCE, CONFIDENCE_SPREAD, NOISE = 0.6, 0.15, 0.3


@dataclass(frozen=True, kw_only=True)
class LabSettings:
    """Sizes of the laboratory, the same in every experiment."""

    meanings: int = 40
    sentences: int = 3
    """The number of sentences for each meaning in each language."""
    worlds: int = 8
    """The number of random worlds in each average."""
    steps: int = 30
    rate: float = 1.0
    parallel: float = 0.2
    """The share of sentences with a reference translation in both directions."""
    seed: int = 1

    def __post_init__(self) -> None:
        least = {"meanings": 4, "sentences": 1, "worlds": 1, "steps": 1}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise TheoryError(f"{name} is {getattr(self, name)}; the laboratory needs at least {bound}.")
        if not 0 <= self.parallel <= 1 or not self.rate > 0:
            raise TheoryError("parallel must lie in [0, 1] and rate must be positive.")

    @property
    def size(self) -> int:
        """Sentences in one language."""
        return self.meanings * self.sentences

    @property
    def meaning(self) -> Indices:
        """The meaning of every sentence, in any language."""
        return np.arange(self.size) // self.sentences


@dataclass(frozen=True, kw_only=True)
class LabStart:
    """The translators before loop training."""

    forward: float = 0.65
    """Accuracy of 1>2, the translator of interest."""
    back: float = 0.75
    """Accuracy of 2>1."""
    pivots: float = 0.8
    """Accuracy of every other direction."""
    shared: float = 0.5
    """How strongly translators agree on which meanings are hard."""
    twins: float = 0.5
    """Share of the meanings whose errors all go to one twin, in every direction."""
    cohesion: float = 0.6
    """How strongly errors of the sentences of one meaning coincide."""
    hint: float = 0.05
    """The right meaning's share of the remaining probability in a wrong row."""
    languages: int = 3

    def accuracy(self, hop: Hop) -> float:
        return {(1, 2): self.forward, (2, 1): self.back}.get(hop, self.pivots)


def vanilla(settings: LabSettings, start: LabStart, world: int) -> Translators:
    """Translators for every direction, before any loop."""
    rng = numpy_generator(settings.seed, "lab", world)
    difficulty = rng.standard_normal(settings.meanings)
    exported = _twins(settings.meanings, rng)
    hops = permutations(range(1, start.languages + 1), 2)
    return {hop: _translator(settings, start, start.accuracy(hop), difficulty, exported, rng) for hop in hops}


def _twins(meanings: int, rng: np.random.Generator) -> Indices:
    """The twin of each meaning; an unpaired one gets the twin of another."""
    order, half = rng.permutation(meanings), meanings // 2
    left, right = order[:half], order[half : 2 * half]
    exported = np.full(meanings, order[0])
    exported[left], exported[right] = right, left
    return exported


def _translator(
    settings: LabSettings,
    start: LabStart,
    accuracy: float,
    difficulty: Array,
    exported: Indices,
    rng: np.random.Generator,
) -> Array:
    """Logits that prefer the right meaning for exactly the given share of sentences."""
    meaning, rows = settings.meaning, np.arange(settings.size)
    wrong = _hardest(settings, start, difficulty, rng) < round((1 - accuracy) * settings.size)
    mistaken = _mistakes(settings, start, exported, rng)
    favourite = np.where(wrong, mistaken, meaning)
    rival = np.where(wrong, meaning, mistaken)
    noise = CONFIDENCE_SPREAD * rng.standard_normal(settings.size)
    confidence = np.clip(CONFIDENCE + noise, 0.35, 0.95)
    mass = np.repeat(((1 - confidence) * (1 - start.hint) / settings.meanings)[:, None], settings.meanings, axis=1)
    mass[rows, favourite] += confidence
    mass[rows, rival] += (1 - confidence) * start.hint
    logits = np.log(np.repeat(mass / settings.sentences, settings.sentences, axis=1))
    return _keep_favourite(logits + NOISE * rng.standard_normal(logits.shape), favourite, meaning)


def _keep_favourite(logits: Array, favourite: Indices, meaning: Indices) -> Array:
    """Restrict noise to synonyms: the best sentence always has the preferred meaning."""
    own = meaning[None, :] == favourite[:, None]
    best = np.where(own, logits, -np.inf).max(axis=1, keepdims=True)
    return np.where(own, logits, np.minimum(logits, best - 0.05))


def _hardest(settings: LabSettings, start: LabStart, difficulty: Array, rng: np.random.Generator) -> Indices:
    """The rank of every sentence by difficulty, the hardest first."""
    by_meaning = rng.standard_normal(settings.meanings)[settings.meaning]
    by_sentence = rng.standard_normal(settings.size)
    own = np.sqrt(start.cohesion) * by_meaning + np.sqrt(1 - start.cohesion) * by_sentence
    ease = np.sqrt(start.shared) * difficulty[settings.meaning] + np.sqrt(1 - start.shared) * own
    return np.argsort(np.argsort(ease))


def _mistakes(settings: LabSettings, start: LabStart, exported: Indices, rng: np.random.Generator) -> Indices:
    """The wrong meaning of each sentence: its twin, or a random other one."""
    meaning, count = settings.meaning, settings.meanings
    together = (np.arange(count) + rng.integers(1, count, count))[meaning] % count
    alone = (meaning + rng.integers(1, count, settings.size)) % count
    other = np.where(rng.random(settings.size) < start.cohesion, together, alone)
    return np.where((rng.random(count) < start.twins)[meaning], exported[meaning], other)
