"""Rows to learn from, and how they become batches of a few fixed shapes.

A shape is (rows, length); all networks of an update share one, so that they can be computed together and a graph
of each shape can be captured once. Rows are packed by length over a whole round, which keeps padding small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from loopmt.rng import numpy_generator
from loopmt.text.ragged import EOS, PAD, Ints, Ragged

Factors = npt.NDArray[np.float32]
Table = TypeVar("Table", Ints, Factors)


@dataclass(frozen=True)
class Rows:
    """What one network learns from: sources, targets, and for each row its path, its group and its loss factor.

    Rows of one group are several samples of the same real sentence, which an objective needs in the same batch;
    a row that stands alone has group -1. The factor multiplies the loss of the row, and so its gradient.
    """

    sources: Ragged
    targets: Ragged
    paths: Ints
    groups: Ints
    factors: Factors

    @classmethod
    def of(cls, sources: Ragged, targets: Ragged, paths: Ints, groups: Ints | None = None) -> Rows:
        """Rows with factor 1; without groups each stands alone."""
        alone = np.full(len(paths), -1, dtype=np.int64)
        return cls(sources, targets, paths, alone if groups is None else groups, np.ones(len(paths), np.float32))

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def lengths(self) -> Ints:
        """Places a row takes: its longer side and the end."""
        return np.maximum(self.sources.lengths, self.targets.lengths) + 1

    def take(self, numbers: Ints) -> Rows:
        columns = (self.paths[numbers], self.groups[numbers], self.factors[numbers])
        return Rows(self.sources.take(numbers), self.targets.take(numbers), *columns)

    def up_to(self, length: int) -> Rows:
        """The rows that take at most `length` places."""
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

    def padded(self, multiple: int) -> Batch:
        """With places without a row at the end, until the rows are a multiple."""
        missing = -self.shape.rows % multiple
        if not missing:
            return self

        source_NBL = _longer(self.source_NBL, missing, PAD)
        source_NBL[:, -missing:, 0] = EOS  # attention over nothing has no value
        return Batch(
            BatchShape(self.shape.rows + missing, self.shape.length),
            source_NBL,
            _longer(self.target_NBL, missing, PAD),
            _longer(self.paths_NB, missing, -1),
            _longer(self.groups_NB, missing, -1),
            _longer(self.factors_NB, missing, 1),
        )

    def part(self, number: int, count: int) -> Batch:
        """One of `count` equal parts by rows: for several processes, or for accumulating."""
        size = self.shape.rows // count
        cut = slice(number * size, (number + 1) * size)
        return Batch(
            BatchShape(size, self.shape.length),
            self.source_NBL[:, cut],
            self.target_NBL[:, cut],
            self.paths_NB[:, cut],
            self.groups_NB[:, cut],
            self.factors_NB[:, cut],
        )


def _longer(table: Table, rows: int, value: int) -> Table:
    """So many more rows of `value` at the end of each network's."""
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


def make_shapes(lengths: Sequence[int], tokens: int, multiple: int) -> list[BatchShape]:
    """Rows of each shape so that rows x length comes near `tokens`, in multiples that are quick and hold groups."""
    return [BatchShape(max(multiple, tokens // length // multiple * multiple), length) for length in sorted(lengths)]


def pack(
    networks: Sequence[Rows], shapes: Sequence[BatchShape], updates: int, *key: str | int, unit: int = 1
) -> list[Batch]:
    """At most `updates` batches from the largest common share of all networks' rows, in a keyed order.

    A group has at most `unit` rows and lies between two multiples of `unit` in a batch: so neither batches nor parts
    of them cut it, and the parts that a batch is computed in do not change what is in it.
    """
    sortable = [_Sortable.of(rows) for rows in networks]
    share = _largest_share(sortable, shapes, updates, unit)
    ordered = [own.longest_first(share) for own in sortable]
    plan = _plan(ordered, shapes, unit, updates)
    rows, firsts = Rows.join(networks), np.cumsum([0, *map(len, networks)])[:-1]
    order = numpy_generator(*key, "order").permutation(len(plan))
    return [
        _batch(rows, shape, _numbers(ordered, firsts, shape.rows, starts, unit))
        for shape, starts in (plan[number] for number in order)
    ]


def _largest_share(networks: Sequence[_Sortable], shapes: Sequence[BatchShape], updates: int, unit: int) -> float:
    """Bisect for the largest share of every network's rows whose plan has at most `updates` batches.

    To a thousandth of the rows; where few are needed, to an eighth of what is found, so that it is never nothing.
    """

    def fits(share: float) -> bool:
        return len(_plan([own.longest_first(share) for own in networks], shapes, unit, updates)) <= updates

    if fits(1.0):
        return 1.0
    low, high = 0.0, 1.0
    while high - low > min(2**-10, low / 8):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@dataclass(frozen=True)
class _Ordered:
    """A network's rows in the order in which they are packed."""

    order: Ints
    lengths: Ints
    groups: Ints

    def count(self, start: int, rows: int, unit: int) -> int:
        """How many of the next rows go into a batch of `rows`."""
        return max(0, min(rows, len(self.order) - start)) if unit == 1 else len(self.places(start, rows, unit))

    def places(self, start: int, rows: int, unit: int) -> Ints:
        """Where the next rows go in a batch of `rows`."""
        if unit == 1:
            return np.arange(self.count(start, rows, unit))
        found: list[int] = []
        place = 0
        while start < len(self.order):
            size = self._group_size(start)
            if place % unit + size > unit:
                place += unit - place % unit
            if place + size > rows:
                break
            found += range(place, place + size)
            place, start = place + size, start + size
        return np.array(found, dtype=np.int64)

    def _group_size(self, start: int) -> int:
        end = start + 1
        while self.groups[start] >= 0 and end < len(self.groups) and self.groups[end] == self.groups[start]:
            end += 1
        return end - start


@dataclass(frozen=True)
class _Sortable:
    """A network's rows, sorted by length once: without groups any first share of them has the same order."""

    lengths: Ints
    groups: Ints
    whole: _Ordered | None

    @classmethod
    def of(cls, rows: Rows) -> _Sortable:
        lengths, groups = rows.lengths, rows.groups
        if (groups >= 0).any():
            return cls(lengths, groups, None)
        order = np.argsort(-lengths, kind="stable")
        return cls(lengths, groups, _Ordered(order, lengths[order], groups))

    def longest_first(self, share: float) -> _Ordered:
        """The first `share` of the rows by length; those of a group stay together and count as their longest."""
        count = round(share * len(self.lengths))
        if self.whole is None:
            return _grouped(self.lengths[:count], self.groups[:count])
        held = self.whole.order < count
        return _Ordered(self.whole.order[held], self.whole.lengths[held], self.groups[:count])


def _grouped(lengths: Ints, groups: Ints) -> _Ordered:
    places = np.arange(len(lengths))
    own = np.where(groups >= 0, groups, groups.max(initial=-1) + 1 + places)
    _, first, group = np.unique(own, return_index=True, return_inverse=True)
    longest = np.zeros(len(first), dtype=np.int64)
    np.maximum.at(longest, group, lengths)
    order = np.lexsort((first[group], -longest[group]))
    return _Ordered(order, longest[group][order], groups[order])


def _plan(
    networks: Sequence[_Ordered], shapes: Sequence[BatchShape], unit: int, most: int
) -> list[tuple[BatchShape, list[int]]]:
    """Longest rows first: the shape of each batch and where it starts in every network's rows; ends beyond `most`."""
    starts = [0] * len(networks)
    plan: list[tuple[BatchShape, list[int]]] = []
    while len(plan) <= most and (
        left := [own.lengths[start] for own, start in zip(networks, starts, strict=True) if start < len(own.order)]
    ):
        longest = max(left)
        shape = next(shape for shape in shapes if shape.length >= longest)
        plan.append((shape, starts))
        starts = [start + own.count(start, shape.rows, unit) for own, start in zip(networks, starts, strict=True)]
    return plan


def _numbers(networks: Sequence[_Ordered], firsts: Ints, rows: int, starts: Sequence[int], unit: int) -> Ints:
    """Which of all networks' rows go where in a batch, -1 where none does; `firsts` are the networks' first rows."""
    numbers_NB = np.full((len(networks), rows), -1, dtype=np.int64)
    for table, own, first, start in zip(numbers_NB, networks, firsts, starts, strict=True):
        places = own.places(start, rows, unit)
        table[places] = first + own.order[start : start + len(places)]
    return numbers_NB


def _batch(rows: Rows, shape: BatchShape, numbers_NB: Ints) -> Batch:
    """A place without a row still has an end as its source: attention over nothing has no value."""
    numbers, none = numbers_NB.ravel(), numbers_NB < 0
    source, target = (side.padded(numbers, shape.length) for side in (rows.sources, rows.targets))
    target[none.ravel()] = PAD
    table = (*numbers_NB.shape, shape.length)
    paths, groups = (np.where(none, -1, values[numbers_NB]) for values in (rows.paths, rows.groups))
    factors = np.where(none, np.float32(1), rows.factors[numbers_NB])
    return Batch(shape, source.reshape(table), target.reshape(table), paths, groups, factors)


def interleave(parts: Sequence[Rows], weights: Sequence[float]) -> Rows:
    """Rows of several paths in an order in which every prefix holds them by weight, counted in target tokens."""
    if len(parts) < 2:
        return parts[0] if parts else Rows.empty()
    times = [np.cumsum(part.targets.lengths + 1) / weight for part, weight in zip(parts, weights, strict=True)]
    order = np.argsort(np.concatenate(times), kind="stable")
    return Rows.join(parts).take(order)
