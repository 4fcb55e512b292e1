"""Rows to learn from, and how they become batches of a few fixed shapes.

A shape is (rows, length); all networks of an update share one, so that they can be computed together and a graph
of each shape can be captured once. Rows are packed by length over a whole round, which keeps padding small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loopmt.rng import numpy_generator
from loopmt.text.ragged import EOS, PAD, Ints, Ragged


@dataclass(frozen=True)
class Rows:
    """What one network learns from: sources, real targets, which path each row came by, and its group.

    Rows of one group are several generated sources of the same real sentence that combine (`logmeanexp`);
    a row that stands alone has group -1.
    """

    sources: Ragged
    targets: Ragged
    paths: Ints
    groups: Ints

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def lengths(self) -> Ints:
        """Places a row takes: its longer side and the end."""
        return np.maximum(self.sources.lengths, self.targets.lengths) + 1

    def take(self, numbers: Ints) -> Rows:
        return Rows(self.sources.take(numbers), self.targets.take(numbers), self.paths[numbers], self.groups[numbers])

    @classmethod
    def join(cls, parts: Sequence[Rows]) -> Rows:
        return cls(
            Ragged.join([part.sources for part in parts]),
            Ragged.join([part.targets for part in parts]),
            np.concatenate([part.paths for part in parts]) if parts else np.zeros(0, np.int64),
            np.concatenate([part.groups for part in parts]) if parts else np.zeros(0, np.int64),
        )

    @classmethod
    def empty(cls) -> Rows:
        return cls.join([])


@dataclass(frozen=True)
class Shape:
    rows: int
    length: int


@dataclass(frozen=True)
class Batch:
    """One update of every network: ids padded to one shape. N networks, B rows, L length."""

    shape: Shape
    source_NBL: Ints
    target_NBL: Ints
    paths_NB: Ints  # -1 where there is no row
    groups_NB: Ints

    @property
    def target_tokens(self) -> Ints:
        """Real target tokens of each network, ends included."""
        counts: Ints = (self.target_NBL != PAD).sum((1, 2))
        return counts

    def part(self, number: int, count: int) -> Batch:
        """One of `count` equal parts by rows: for several processes, or for accumulating."""
        size = self.shape.rows // count
        cut = slice(number * size, (number + 1) * size)
        return Batch(
            Shape(size, self.shape.length),
            self.source_NBL[:, cut],
            self.target_NBL[:, cut],
            self.paths_NB[:, cut],
            self.groups_NB[:, cut],
        )


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


def make_shapes(lengths: Sequence[int], tokens: int, multiple: int) -> list[Shape]:
    """Rows of each shape so that rows x length comes near `tokens`, in multiples that split evenly."""
    return [Shape(max(multiple, tokens // length // multiple * multiple), length) for length in sorted(lengths)]


def pack(
    networks: Sequence[Rows], shapes: Sequence[Shape], updates: int, *key: str | int, unit: int = 1
) -> list[Batch]:
    """At most `updates` batches from the largest common share of all networks' rows, in a keyed order.

    A group has at most `unit` rows and lies between two multiples of `unit` in a batch: so neither batches nor parts
    of them cut it, and the parts that a batch is computed in do not change what is in it.
    """
    share = _largest_share(networks, shapes, updates, unit)
    ordered = [_longest_first(rows, share) for rows in networks]
    batches = [_batch(ordered, shape, starts, unit) for shape, starts in _plan(ordered, shapes, unit)]
    return [batches[number] for number in numpy_generator(*key, "order").permutation(len(batches))]


def _largest_share(networks: Sequence[Rows], shapes: Sequence[Shape], updates: int, unit: int) -> float:
    """Bisect for the largest share of every network's rows whose plan has at most `updates` batches."""

    def fits(share: float) -> bool:
        return len(_plan([_longest_first(rows, share) for rows in networks], shapes, unit)) <= updates

    if fits(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(10):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@dataclass(frozen=True)
class _Ordered:
    """A network's rows in the order in which they are packed."""

    rows: Rows
    order: Ints
    lengths: Ints
    groups: Ints

    def places(self, start: int, rows: int, unit: int) -> Ints:
        """Where the next rows go in a batch of `rows`."""
        if unit == 1:
            return np.arange(min(rows, len(self.order) - start)) if start < len(self.order) else np.zeros(0, np.int64)
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


def _longest_first(rows: Rows, share: float) -> _Ordered:
    """The first `share` of the rows by length; those of a group stay together and count as their longest."""
    count = round(share * len(rows))
    lengths, groups, places = rows.lengths[:count], rows.groups[:count], np.arange(count)
    if (groups >= 0).any():
        own = np.where(groups >= 0, groups, groups.max(initial=-1) + 1 + places)
        _, first, group = np.unique(own, return_index=True, return_inverse=True)
        longest = np.zeros(len(first), dtype=np.int64)
        np.maximum.at(longest, group, lengths)
        lengths, places = longest[group], first[group]
    order = np.lexsort((places, -lengths))
    return _Ordered(rows, order, lengths[order], groups[order])


def _plan(networks: Sequence[_Ordered], shapes: Sequence[Shape], unit: int) -> list[tuple[Shape, list[int]]]:
    """Longest rows first: the shape of each batch and where it starts in every network's rows."""
    starts = [0] * len(networks)
    plan: list[tuple[Shape, list[int]]] = []
    while left := [own.lengths[start] for own, start in zip(networks, starts, strict=True) if start < len(own.order)]:
        longest = max(left)
        shape = next(shape for shape in shapes if shape.length >= longest)
        plan.append((shape, starts))
        starts = [start + len(own.places(start, shape.rows, unit)) for own, start in zip(networks, starts, strict=True)]
    return plan


def _batch(networks: Sequence[_Ordered], shape: Shape, starts: Sequence[int], unit: int) -> Batch:
    tables = [_tables(own, shape, start, unit) for own, start in zip(networks, starts, strict=True)]
    source, target, paths, groups = (np.stack(column) for column in zip(*tables, strict=True))
    return Batch(shape, source, target, paths, groups)


def _tables(network: _Ordered, shape: Shape, start: int, unit: int) -> tuple[Ints, Ints, Ints, Ints]:
    """One network's part of a batch."""
    places = network.places(start, shape.rows, unit)
    rows = network.rows.take(network.order[start : start + len(places)])

    def spread(values: Ints, empty: int) -> Ints:
        table = np.full((shape.rows, *values.shape[1:]), empty, dtype=np.int64)
        table[places] = values
        return table

    return (
        _attendable(spread(rows.sources.padded(len(rows), shape.length), PAD)),
        spread(rows.targets.padded(len(rows), shape.length), PAD),
        spread(rows.paths, -1),
        spread(rows.groups, -1),
    )


def _attendable(table: Ints) -> Ints:
    """Rows that are none still get an end: attention over nothing has no value."""
    table[table[:, 0] == PAD, 0] = EOS
    return table


def interleave(parts: Sequence[Rows], weights: Sequence[float]) -> Rows:
    """Rows of several paths in an order in which every prefix holds them by weight, counted in target tokens."""
    if not parts:
        return Rows.empty()
    times = [np.cumsum(part.targets.lengths + 1) / weight for part, weight in zip(parts, weights, strict=True)]
    order = np.argsort(np.concatenate(times), kind="stable")
    return Rows.join(parts).take(order)
