"""What a generator must not feed to a learner: empty, copied, runaway, wrong language.

The language of a generated sentence is judged by a classifier that costs nothing: how likely its subwords are under
each language's own frequencies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import eq

import numpy as np
import numpy.typing as npt

from loopmt.path import Hop
from loopmt.text.ragged import Ragged

Mask = npt.NDArray[np.bool_]
_MARGIN = 0.5  # nats a subword by which another language must be likelier
_FEWEST = 4  # subwords below which a language is not judged


@dataclass(frozen=True)
class LanguageFrequencies:
    """Log-frequencies of subwords by language."""

    languages: Sequence[str]
    logprobs_KV: npt.NDArray[np.float64]

    @classmethod
    def learn(cls, samples: Mapping[str, Ragged], size: int) -> LanguageFrequencies:
        counts = np.stack([np.bincount(sample.flat, minlength=size).astype(float) for sample in samples.values()])
        counts += 0.5
        return cls(list(samples), np.log(counts / counts.sum(1, keepdims=True)))

    def foreign(self, rows: Ragged, language: str) -> Mask:
        """Rows that are clearly another language than `language`."""
        if language not in self.languages or len(self.languages) < 2 or not len(rows):
            return np.zeros(len(rows), dtype=np.bool_)
        lengths = rows.lengths
        owner = np.repeat(np.arange(len(rows)), lengths)
        scores = np.stack([np.bincount(owner, own[rows.flat], minlength=len(rows)) for own in self.logprobs_KV])
        mine = scores[list(self.languages).index(language)]
        return np.asarray((scores.max(0) - mine > _MARGIN * lengths) & (lengths >= _FEWEST))


@dataclass(frozen=True)
class SyntheticTextFilter:
    """Marks rows to drop, by reason; the first reason that fits a row counts.

    `spelling` is what the ids of each language spell, needed where two languages' ids are not of one vocabulary.
    """

    longest: int
    frequencies: LanguageFrequencies | None = None
    spelling: Mapping[str, Sequence[bytes]] | None = None
    ratio: float = 3.0
    slack: int = 10

    def __call__(self, before: Ragged, generated: Ragged, ended: Mask, hop: Hop) -> dict[str, Mask]:
        was, now = before.lengths, generated.lengths
        reasons = {
            "empty": now == 0,
            "runaway": ~ended | (now >= self.longest),
            "copy": self._copies(before, generated, hop),
            "length": (now > self.ratio * was + self.slack) | (was > self.ratio * now + self.slack),
        }
        if self.frequencies:
            reasons["language"] = self.frequencies.foreign(generated, hop.target)
        return reasons

    def _copies(self, before: Ragged, generated: Ragged, hop: Hop) -> Mask:
        if self.spelling is None:
            return _same_ids(before, generated)
        texts = _spelled(before, self.spelling[hop.source]), _spelled(generated, self.spelling[hop.target])
        return np.fromiter(map(eq, *texts), dtype=np.bool_, count=len(before))


def _spelled(rows: Ragged, spelling: Sequence[bytes]) -> Iterator[bytes]:
    return (b"".join(map(spelling.__getitem__, row.tolist())) for row in rows.rows())


def _same_ids(before: Ragged, generated: Ragged) -> Mask:
    same: Mask = before.lengths == generated.lengths
    rows = np.flatnonzero(same)
    one, other = before.take(rows), generated.take(rows)
    owner = np.repeat(np.arange(len(rows)), one.lengths)
    same[rows] = np.bincount(owner, one.flat != other.flat, minlength=len(rows)) == 0
    return same
