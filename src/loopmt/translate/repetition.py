"""Repeated n-grams within a sentence, and their usual share in real text.

A collapsed generator ends in a loop: "gegnerischen Mannschaft gegnerischen Mannschaft ...". The share of repeated
n-grams in a sentence is then far above that of real text of the same language.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from loopmt.text.ragged import Ints, Ragged

ORDER = 4  # subwords of an n-gram
_FEWEST = 8  # n-grams, at least, for a sentence to be checked
_QUANTILE = 0.99  # of the repeated shares of real sentences; the limit is this quantile plus a margin
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], dtype=np.uint64)
_BITS = np.uint64(40)  # of a hash

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def repeated_share(rows: Ragged) -> Floats:
    """The share of each row's n-grams that occur earlier in the row; 0 for short rows."""
    total = np.maximum(rows.lengths - ORDER + 1, 0)
    keys = np.sort(_keys(rows, total))  # of equal keys, only the first is not a repetition
    new = np.flatnonzero(np.diff(keys, prepend=keys[:1] ^ np.uint64(1)))
    distinct = np.bincount((keys[new] >> _BITS).astype(np.int64), minlength=len(rows))
    return np.where(total >= _FEWEST, 1 - distinct / np.maximum(total, 1), 0.0)


def _keys(rows: Ragged, total: Ints) -> npt.NDArray[np.uint64]:
    """A key for each n-gram: row number and hash. Hashes collide within about one of 10^9 rows."""
    owners = np.repeat(np.arange(len(rows), dtype=np.uint64), total)
    starts = np.repeat(rows.offsets[:-1] - np.concatenate([[0], np.cumsum(total)[:-1]]), total) + np.arange(total.sum())
    ids = rows.flat.astype(np.uint64)
    mixed = np.zeros(len(starts), dtype=np.uint64)
    for place, factor in enumerate(_FACTORS):
        mixed += ids[starts + place] * factor
    return np.asarray((owners << _BITS) | (mixed >> (np.uint64(64) - _BITS)))


class RepetitionLimits:
    """The limit of repeated n-grams for each language, measured on real text at first use."""

    def __init__(self, real_text: Callable[[str], Ragged | None], margin: float) -> None:
        """`real_text` returns sentences of a language, or None if there are none."""
        self._real_text = real_text
        self._margin = margin
        self._limits: dict[str, float] = {}

    def limit(self, language: str) -> float:
        if language not in self._limits:
            real = self._real_text(language)
            usual = float(np.quantile(repeated_share(real), _QUANTILE)) if real is not None and len(real) else 0.0
            self._limits[language] = usual + self._margin
        return self._limits[language]

    def repetitive(self, rows: Ragged, language: str) -> Mask:
        """The rows with more repeated n-grams than the limit."""
        return np.asarray(repeated_share(rows) > self.limit(language))
