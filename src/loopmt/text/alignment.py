"""Alignment check: compares each row with its counterpart and with the neighbours of its counterpart.

Three scores of a pair of lines are combined: how well the lengths agree, which words are the same (names, numbers), and
which words occur together in the other half of the sample. A score weighs more the better it tells pairs apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Words = list[list[str]]

OFFSETS = (-3, -2, -1, 0, 1, 2, 3)
_HERE = OFFSETS.index(0)
_FEWEST = 40  # rows; of fewer nothing is said
_SURE = 4.0  # standard errors
_SHORTEST = 20  # rows that are shifted
_UNSURE, _ENOUGH = 0.4, 100  # standard deviations and rows: sides of which no offset fits are unrelated

_CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")
_STEM = 5  # characters of a word that are compared
_MOST_WORDS = 12  # of a line
_FREQUENT = 0.3  # share of lines; such words come last
_BUCKETS = 2**18


@dataclass(frozen=True)
class Alignment:
    """How the rows fit: z-scores by offset, and the longest range of rows that fits another offset better than 0."""

    rows: int
    scores: dict[int, float]
    offset: int = 0
    first: int = 0
    last: int = 0  # the row after the stretch
    certainty: float = 0.0  # of the stretch, in standard errors
    score_here: float = 0.0  # of the stretch at offset 0
    score_there: float = 0.0  # of the stretch at its offset
    better: float = 0.0  # share of the stretch's rows that fit the offset better than 0
    fit: float = 0.0  # of offset 0 above the other offsets, in standard deviations of a row

    @property
    def shifted(self) -> bool:
        return self.certainty >= _SURE and self.last - self.first >= max(_SHORTEST, self.rows // 50)

    @property
    def unrelated(self) -> bool:
        return not self.shifted and self.rows >= _ENOUGH and self.fit < _UNSURE


def align(sources: Sequence[str], targets: Sequence[str], pieces: Sequence[int]) -> Alignment | None:
    """None if the rows are too few. Rows of the same piece are neighbours in the file."""
    if len(sources) < _FEWEST:
        return None
    combined = _combined(sources, targets, np.array(pieces, dtype=np.int64))
    if combined is None:
        return None
    means = np.nanmean(combined, 0)
    others = np.nanmean(np.delete(combined, _HERE, 1), 1)
    ahead = combined[:, _HERE] - others
    fit = float(ahead.mean() / (ahead.std() + 1e-9))
    scores = {offset: float(mean) for offset, mean in zip(OFFSETS, means, strict=True)}
    stretches = [_stretch(combined, place, scores, fit) for place in range(len(OFFSETS)) if place != _HERE]
    return max(stretches, key=lambda found: found.certainty)


def _stretch(combined: Array, place: int, scores: dict[int, float], fit: float) -> Alignment:
    """The consecutive rows with the largest sum of differences between the offset and 0."""
    differences = np.nan_to_num(combined[:, place] - combined[:, _HERE])
    sums = np.concatenate([[0.0], np.cumsum(differences)])
    gains = sums - np.minimum.accumulate(sums)
    last = int(gains.argmax())
    first = int(sums[: last + 1].argmin())
    length = max(last - first, 1)
    certainty = float(gains[last] / (differences.std() + 1e-9) / length**0.5)
    inside = slice(first, max(last, first + 1))
    here, there = float(combined[inside, _HERE].mean()), float(np.nan_to_num(combined[inside, place]).mean())
    better = float((differences[inside] > 0).mean())
    return Alignment(len(combined), scores, OFFSETS[place], first, last, certainty, here, there, better, fit)


# -- scores ------------------------------------------------------------------------------------------------------


def _combined(sources: Sequence[str], targets: Sequence[str], pieces: Ints) -> Array | None:
    """For every row a score at each offset; nan where there is no such row. None if no score separates rows."""
    partner = np.arange(len(sources))[:, None] + np.array(OFFSETS)
    inside = np.clip(partner, 0, len(sources) - 1)
    there = (partner == inside) & (pieces[inside] == pieces[:, None])
    one, other = ([_WORD.findall(text) for text in side] for side in (sources, targets))
    total = np.zeros(partner.shape)
    for score in (
        _lengths(sources, targets, inside),
        _same_words(one, other, inside, there),
        _together(one, other, inside, there),
    ):
        standard = _standard(np.where(there, score, np.nan))
        total += standard * max(float(np.nanmean(standard, 0).max()), 0.0)
    spread = float(np.nanstd(total))
    return total / spread if spread > 1e-6 else None


def _standard(score: Array) -> Array:
    """Relative to the mean of the row's offsets, in standard deviations."""
    centred = score - np.nanmean(score, 1, keepdims=True)
    found: Array = centred / (float(np.nanstd(centred)) + 1e-9)
    return found


def _lengths(sources: Sequence[str], targets: Sequence[str], partner: Ints) -> Array:
    logs = [np.log([len(text) + 1.0 for text in side]) for side in (sources, targets)]
    one, other = ((side - side.mean()) / (side.std() + 1e-9) for side in logs)
    found: Array = -np.abs(one[:, None] - other[partner])
    return found


def _same_words(sources: Words, targets: Words, partner: Ints, there: npt.NDArray[np.bool_]) -> Array:
    """Words with the same spelling on both sides; rare ones weigh more."""
    sides = [[set(row) for row in side] for side in (sources, targets)]
    shared = set().union(*sides[0]) & set().union(*sides[1])
    one, other = ([row & shared for row in side] for side in sides)
    counts = Counter(word for row in (*one, *other) for word in row)
    weights = {word: float(np.log(2 * len(one) / count)) for word, count in counts.items()}
    found = np.zeros(partner.shape)
    for row, place in zip(*np.nonzero(there), strict=True):
        if common := one[row] & other[partner[row, place]]:
            lengths = len(sources[row]) + len(targets[partner[row, place]])
            found[row, place] = sum(weights[word] for word in sorted(common)) / (3 + lengths / 2)
    return found


def _together(sources: Words, targets: Words, partner: Ints, there: npt.NDArray[np.bool_]) -> Array:
    """How much more often the words of both lines occur together than by chance, in pairs of that offset.

    Every second piece of 64 rows is judged by the others, so that no pair counts for itself.
    """
    one, other = _numbered(sources), _numbered(targets)
    half = np.arange(len(one)) // 64 % 2
    found = np.zeros(partner.shape)
    for place in range(len(OFFSETS)):
        for judged in (0, 1):
            learn, judge = (np.flatnonzero(there[:, place] & (half == side)) for side in (1 - judged, judged))
            if len(learn) and len(judge):
                counts = _Cooccurrence(one[learn], other[partner[learn, place]])
                found[judge, place] = counts.association(one[judge], other[partner[judge, place]])
    return found


def _numbered(rows: Words) -> Ints:
    """A few words of each row as numbers from 1: the most frequent, without those in too many rows; 0 is no word."""
    stems = [list(dict.fromkeys(word.lower()[:_STEM] for word in row)) for row in rows]
    counts = Counter(stem for row in stems for stem in row)
    numbers = {stem: number for number, stem in enumerate((s for s, count in counts.items() if count > 1), 1)}
    most = _FREQUENT * len(rows)
    found = np.zeros((len(rows), _MOST_WORDS), dtype=np.int64)
    for place, row in enumerate(stems):
        known = [stem for stem in row if stem in numbers]
        known.sort(key=lambda stem: (counts[stem] > most, -counts[stem] if counts[stem] <= most else counts[stem]))
        found[place, : len(known[:_MOST_WORDS])] = [numbers[stem] for stem in known[:_MOST_WORDS]]
    return found


class _Cooccurrence:
    """How often words of one side occur beside words of the other."""

    def __init__(self, one: Ints, other: Ints) -> None:
        self._rows = len(one)
        keys, words = _pairs(one, other)
        self._pairs = np.bincount(keys[words], minlength=_BUCKETS)
        self._one, self._other = (np.bincount(side.ravel(), minlength=1) for side in (one, other))

    def association(self, one: Ints, other: Ints) -> Array:
        """Of each row: the mean over its words of the best partner's z-score, from both sides."""
        keys, words = _pairs(one, other)
        expected = _of(self._one, one)[:, :, None] * _of(self._other, other)[:, None, :] / self._rows
        above = np.where(words, (self._pairs[keys] - expected) / np.sqrt(expected + 1), 0).clip(0)
        best_one, best_other = np.sqrt(above.max(2)).sum(1), np.sqrt(above.max(1)).sum(1)
        found: Array = best_one / _words_of(one) + best_other / _words_of(other)
        return found


def _words_of(rows: Ints) -> Ints:
    """The number of words in each row; at least 1, to divide by."""
    found: Ints = np.maximum((rows > 0).sum(1), 1)
    return found


def _of(counts: Ints, words: Ints) -> Ints:
    found: Ints = np.where(words < len(counts), counts[np.minimum(words, len(counts) - 1)], 0)
    return found


def _pairs(one: Ints, other: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    keys = (one[:, :, None] * 7919 + other[:, None, :] * 104729) % _BUCKETS
    return keys, (one[:, :, None] > 0) & (other[:, None, :] > 0)
