"""Subword dropout: splits subwords at random into the two that BPE merged.

The stored text has its best segmentation. Undoing merges while the text is read gives a sentence another segmentation
each time, as BPE dropout does during encoding, at the cost of a table lookup.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from loopmt.rng import numpy_generator
from loopmt.text.ragged import Ints, Ragged
from loopmt.text.vocab import Vocab

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Merges:
    """The two subwords that each one was merged from; -1 where it was not merged."""

    halves_V2: Ints

    @classmethod
    def of(cls, pieces: Mapping[str, tuple[int, float]], size: int) -> Merges:
        """Of pieces with their ids and scores."""
        halves = np.full((size, 2), -1, dtype=np.int64)
        scores = {piece: score for piece, (_, score) in pieces.items()}
        for piece, (number, _) in pieces.items():
            if len(parts := _last_two(piece, scores)) == 2:
                halves[number] = [pieces[part][0] for part in parts]
        return cls(halves)

    def undone(self, rows: Ragged, share: float, generator: np.random.Generator) -> Ragged:
        """Undo each merge with this probability, and then those within its halves."""
        fresh = np.ones(len(rows.flat), dtype=np.bool_)
        while True:
            cut = fresh & (self.halves_V2[rows.flat, 0] >= 0) & (generator.random(len(fresh)) < share)
            if not cut.any():
                return rows
            rows, fresh = self._cut(rows, cut), np.repeat(cut, 1 + cut)

    def _cut(self, rows: Ragged, cut: Mask) -> Ragged:
        starts = np.concatenate([[0], np.cumsum(1 + cut)])
        flat = np.repeat(rows.flat, 1 + cut)
        first = starts[:-1][cut]
        flat[first], flat[first + 1] = self.halves_V2[rows.flat[cut]].T
        return Ragged(flat, starts[rows.offsets])


@dataclass(frozen=True)
class SubwordDropout:
    """Text with a share of its merges undone, by a random key."""

    vocab: Vocab
    share: float
    _merges: dict[Path, Merges] = field(default_factory=dict)  # languages may share a vocabulary

    def __call__(self, rows: Ragged, language: str, *key: str | int) -> Ragged:
        if not self.share:
            return rows
        model = self.vocab.models[language]
        if model not in self._merges:
            self._merges[model] = Merges.of(self.vocab.pieces(language), self.vocab.size(language))
        return self._merges[model].undone(rows, self.share, numpy_generator(*key, "subwords"))


def _last_two(piece: str, scores: Mapping[str, float]) -> list[str]:
    """The last merge when a piece is built from its characters, best merge first."""
    parts = list(piece)
    while len(parts) > 2:
        joined = [one + other for one, other in pairwise(parts)]
        best = max(range(len(joined)), key=lambda place: scores.get(joined[place], -np.inf))
        if joined[best] not in scores:
            return []
        parts[best : best + 2] = [joined[best]]
    return parts if all(part in scores for part in parts) else []
