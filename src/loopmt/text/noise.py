"""Noise on generated sources: words are dropped, blanked and moved, as in Edunov et al. (2018).

A network that learns from noisy sources cannot copy the errors of the generator.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from loopmt.config import Noise
from loopmt.rng import numpy_generator
from loopmt.text.ragged import UNK, Ints, Ragged
from loopmt.text.vocab import SPACE, Vocab

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class WordNoise:
    """Adds noise to rows of ids; a word is a piece that begins with a space, and the pieces after it."""

    vocab: Vocab
    _starts: dict[str, Mask] = field(default_factory=dict, repr=False)  # by language, of every id

    def __call__(self, rows: Ragged, language: str, settings: Noise, *key: str | int) -> Ragged:
        words = _NumberedWords.of(rows, self._starting(language))
        generator = numpy_generator(*key, "noise")
        kept = words.not_emptied(generator.random(words.count) >= settings.drop)
        blanked = generator.random(words.count) < settings.blank
        moved = generator.random(words.count) * (settings.shuffle + 1)
        return words.changed(rows, kept, blanked, moved)

    def _starting(self, language: str) -> Mask:
        if language not in self._starts:
            starts = np.zeros(self.vocab.size(language), dtype=np.bool_)
            starts[[one for piece, (one, _) in self.vocab.pieces(language).items() if piece.startswith(SPACE)]] = True
            self._starts[language] = starts
        return self._starts[language]


@dataclass(frozen=True)
class _NumberedWords:
    """The words of rows, numbered from the first row on."""

    of_token: Ints  # the word of each token
    row: Ints  # the row of each word
    place: Ints  # of each word in its row

    @classmethod
    def of(cls, rows: Ragged, starting: Mask) -> _NumberedWords:
        starts = starting[rows.flat]
        firsts = rows.offsets[:-1][rows.lengths > 0]
        starts[firsts] = True
        row = np.repeat(np.arange(len(rows)), rows.lengths)[starts]
        of_token = np.cumsum(starts) - 1
        return cls(of_token, row, np.arange(len(row)) - np.searchsorted(row, row))

    @property
    def count(self) -> int:
        return len(self.row)

    def not_emptied(self, kept: Mask) -> Mask:
        """A row that would lose all of its words keeps its first one."""
        left = np.bincount(self.row[kept], minlength=int(self.row.max(initial=-1)) + 1)
        return np.asarray(kept | ((self.place == 0) & (left[self.row] == 0)))

    def changed(self, rows: Ragged, kept: Mask, blanked: Mask, moved: npt.NDArray[np.float64]) -> Ragged:
        """A blanked word is one UNK; a word stands where its place plus `moved` puts it."""
        first = np.diff(self.of_token, prepend=-1) > 0
        stays = kept[self.of_token] & (first | ~blanked[self.of_token])
        tokens = np.flatnonzero(stays)
        word = self.of_token[tokens]
        order = np.lexsort((tokens, (self.place + moved)[word], self.row[word]))
        flat = np.where(blanked[word], UNK, rows.flat[tokens])[order]
        lengths = np.bincount(self.row[word], minlength=len(rows))
        return Ragged(flat, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
