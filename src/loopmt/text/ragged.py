"""Many sequences of ids in one array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ragged:
    """Many sequences of ids end to end, with the start of each."""

    flat: Ints
    offsets: Ints  # one more than there are sequences

    @classmethod
    def of(cls, rows: Iterable[Sequence[int] | npt.NDArray[Any]]) -> Ragged:
        rows = list(rows)
        lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
        flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(lengths.sum()))
        return cls(flat, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))

    @classmethod
    def join(cls, parts: Sequence[Ragged]) -> Ragged:
        lengths = np.concatenate([[0], *(part.lengths for part in parts)]).astype(np.int64)
        flat = np.concatenate([part.flat for part in parts]) if parts else np.zeros(0, np.int64)
        return cls(flat, np.cumsum(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Ints:
        return np.diff(self.offsets)

    def row(self, number: int) -> Ints:
        return self.flat[self.offsets[number] : self.offsets[number + 1]]

    def rows(self) -> list[Ints]:
        return [self.row(number) for number in range(len(self))]

    def take(self, numbers: Ints) -> Ragged:
        starts = self.offsets[numbers]
        lengths = self.offsets[numbers + 1] - starts
        offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = np.arange(offsets[-1])
        places += np.repeat(starts - offsets[:-1], lengths)
        return Ragged(self.flat[places].astype(np.int64, copy=False), offsets)

    def prefixed(self, token: int) -> Ragged:
        """The same sequences, each after `token`."""
        places = self.offsets[:-1]
        return Ragged(np.insert(self.flat, places, token), self.offsets + np.arange(len(self) + 1))

    def padded(self, numbers: Ints, width: int) -> Ints:
        """A table of these sequences, each with an end and padding after it; a number below 0 gives an empty row."""
        lengths = np.where(numbers < 0, 0, self.offsets[numbers + 1] - self.offsets[numbers])
        places = np.arange(width)
        flat = self.flat if len(self.flat) else np.zeros(1, dtype=np.int64)
        table = flat.take(self.offsets[numbers][:, None] + places, mode="clip")
        table *= places < lengths[:, None]  # PAD is 0
        table[np.arange(len(table)), lengths] = EOS
        return table


PAD, EOS, UNK = 0, 1, 2  # a decoder starts from padding: there is no begin
