"""Rows to learn from, and batches of a few fixed shapes.

A shape is (rows, length); all networks of an update share one, so that they can be computed together and a graph
of each shape can be captured once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from loopmt.text.ragged import EOS, PAD, Ints, Ragged

Factors = npt.NDArray[np.float32]
Table = TypeVar("Table", Ints, Factors)
_MULTIPLE = 8  # of rows: what matrix units compute at once


@dataclass(frozen=True)
class Rows:
    """What one network learns from: sources, targets, and for each row its path, its group, its loss factor, its score.

    Rows of one group are several samples of the same real sentence, which an objective needs in the same batch;
    a row that stands alone has group -1. The factor multiplies the loss of the row, and so its gradient. The score is
    the log-probability with which the target was drawn, for rows that learn from a reward; else 0.
    """

    sources: Ragged
    targets: Ragged
    paths: Ints
    groups: Ints
    factors: Factors
    scores: Factors

    @classmethod
    def of(cls, sources: Ragged, targets: Ragged, paths: Ints, groups: Ints | None = None) -> Rows:
        """Rows with factor 1 and score 0; without groups each stands alone."""
        alone, count = np.full(len(paths), -1, dtype=np.int64), len(paths)
        numbers = np.ones(count, np.float32), np.zeros(count, np.float32)
        return cls(sources, targets, paths, alone if groups is None else groups, *numbers)

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def lengths(self) -> Ints:
        """Positions that a row takes: its longer side and the end."""
        return np.maximum(self.sources.lengths, self.targets.lengths) + 1

    def take(self, numbers: Ints) -> Rows:
        columns = (self.paths[numbers], self.groups[numbers], self.factors[numbers], self.scores[numbers])
        return Rows(self.sources.take(numbers), self.targets.take(numbers), *columns)

    def up_to(self, length: int) -> Rows:
        """The rows that take at most `length` positions."""
        fit = self.lengths <= length
        return self if fit.all() else self.take(np.flatnonzero(fit))

    @classmethod
    def join(cls, parts: Sequence[Rows]) -> Rows:
        if not parts:
            return cls.empty()
        return cls(
            Ragged.join([part.sources for part in parts]),
            Ragged.join([part.targets for part in parts]),
            np.concatenate([part.paths for part in parts]),
            np.concatenate([part.groups for part in parts]),
            np.concatenate([part.factors for part in parts]),
            np.concatenate([part.scores for part in parts]),
        )

    @classmethod
    def empty(cls) -> Rows:
        return cls.of(Ragged.of([]), Ragged.of([]), np.zeros(0, np.int64))


@dataclass(frozen=True)
class BatchShape:
    rows: int
    length: int


@dataclass(frozen=True)
class Batch:
    """One update of every network: ids padded to one shape. N networks, B rows, L length."""

    shape: BatchShape
    source_NBL: Ints
    target_NBL: Ints
    paths_NB: Ints  # -1 where there is no row
    groups_NB: Ints
    factors_NB: Factors  # 1 where there is no row
    scores_NB: Factors  # 0 where there is no row

    @cached_property
    def row_tokens(self) -> Ints:
        """Real target tokens of each row, ends included."""
        counts: Ints = np.count_nonzero(self.target_NBL, axis=2)  # all but padding
        return counts

    @property
    def target_tokens(self) -> Ints:
        """Real target tokens of each network, ends included."""
        counts: Ints = self.row_tokens.sum(1)
        return counts

    @property
    def source_tokens(self) -> int:
        """Real source tokens of all networks, ends included."""
        return int(np.count_nonzero(self.source_NBL)) - int(np.count_nonzero(self.paths_NB < 0))

    def parts(self, count: int, largest_group: int = 1) -> list[Batch]:
        """Parts of equal shape, for several processes, for accumulating or for halves; no part cuts a group.

        With groups each part has a few rows more, so that what a batch holds does not depend on its parts.
        """
        if count == 1:
            return [self]
        size = -(-self.shape.rows // count)
        if largest_group == 1:
            grown = self._with_empty_rows(size * count - self.shape.rows)
            return [grown._part(slice(number * size, (number + 1) * size)) for number in range(count)]
        tables = [_split_groups(groups, size, count, largest_group) for groups in self.groups_NB]
        grown = self._with_empty_rows(1)  # where the numbers below 0 lead
        return [grown._part(np.stack(numbers)) for numbers in zip(*tables, strict=True)]

    def _part(self, rows: Ints | slice) -> Batch:
        """Some of the rows: the same for all networks, or a table for each network."""
        here = (slice(None), rows) if isinstance(rows, slice) else (np.arange(len(rows))[:, None], rows)
        source_NBL = self.source_NBL[here]
        return Batch(
            BatchShape(source_NBL.shape[1], self.shape.length),
            source_NBL,
            self.target_NBL[here],
            self.paths_NB[here],
            self.groups_NB[here],
            self.factors_NB[here],
            self.scores_NB[here],
        )

    def _with_empty_rows(self, missing: int) -> Batch:
        """With this many empty rows at the end."""
        source_NBL = _longer(self.source_NBL, missing, PAD)
        source_NBL[:, self.shape.rows :, 0] = EOS  # attention over nothing has no value
        return Batch(
            BatchShape(self.shape.rows + missing, self.shape.length),
            source_NBL,
            _longer(self.target_NBL, missing, PAD),
            _longer(self.paths_NB, missing, -1),
            _longer(self.groups_NB, missing, -1),
            _longer(self.factors_NB, missing, 1),
            _longer(self.scores_NB, missing, 0),
        )


def _split_groups(groups_B: Ints, size: int, count: int, largest: int) -> list[Ints]:
    """The rows of `count` parts of one network, -1 where there is none: `size` each, and the rest of a group."""
    same = (groups_B[1:] == groups_B[:-1]) & (groups_B[1:] >= 0)
    ends = np.append(np.flatnonzero(~same) + 1, len(groups_B))  # where a row or a group ends
    parts, start = list[Ints](), 0
    for _ in range(count):
        end = int(ends[min(int(np.searchsorted(ends, start + size)), len(ends) - 1)])
        part = np.full(size + largest - 1, -1, dtype=np.int64)
        part[: end - start] = np.arange(start, end)
        parts.append(part)
        start = end
    return parts


def _longer(table: Table, rows: int, value: int) -> Table:
    """With this many more rows of `value` at the end of each network's."""
    added = np.full((len(table), rows, *table.shape[2:]), value, dtype=table.dtype)
    return np.concatenate([table, added], axis=1)


def choose_lengths(histogram: Ints, count: int, longest: int) -> list[int]:
    """The `count` lengths that waste the least padding on rows distributed as `histogram` (rows by places taken)."""
    counts = np.zeros(longest + 1)
    counts[: min(len(histogram), longest + 1)] = histogram[: longest + 1]
    step = max(1, longest // 128)
    ends = [*range(4, longest, step * 4), longest]
    cumulated = np.cumsum(counts)
    rows = np.array([cumulated[end] for end in ends])
    best = rows * np.array(ends)  # cost of one shape up to each end
    choice: list[Ints] = []
    for _ in range(min(count, len(ends)) - 1):
        # cost[i, j]: the best of the shapes before, ending at i, and one more up to j
        cost = best[:, None] + (rows[None, :] - rows[:, None]) * np.array(ends)[None, :]
        cost[np.tril_indices(len(ends))] = np.inf
        previous = np.argmin(cost, axis=0)
        choice.append(previous)
        best = cost.min(axis=0)
    place, lengths = len(ends) - 1, [longest]
    for previous in reversed(choice):
        place = int(previous[place])
        lengths.append(ends[place])
    return sorted(set(lengths))


def make_shapes(lengths: Sequence[int], tokens: int, largest_group: int = 1) -> list[BatchShape]:
    """Rows of each shape so that rows x length comes near `tokens`, in multiples that are quick to compute."""
    least = -(-largest_group // _MULTIPLE) * _MULTIPLE
    return [BatchShape(max(least, tokens // length // _MULTIPLE * _MULTIPLE), length) for length in sorted(lengths)]
