"""Packs the rows of a round into batches: interleaves them by weight, then packs them by length.

Rows are packed longest first over a whole round, which keeps padding small. Rows that do not fit into the batches of a
round are kept, in their order, for the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loopmt.rng import numpy_generator
from loopmt.text.batch import Batch, BatchShape, Rows
from loopmt.text.ragged import PAD, Ints

Place = tuple[int, int]  # in a queue: how many rows that stand alone, and how many groups, were taken
Plan = list[tuple[BatchShape, list[Place]]]  # the shape of each batch, and where it begins in every network's queue
_STEPS = 16  # in which shapes grow, to twice their rows at most


@dataclass(frozen=True)
class Packed:
    """The batches of a round, and the rows that are left over in each network."""

    batches: list[Batch]
    left: list[Rows]


def pack(networks: Sequence[Rows], shapes: Sequence[BatchShape], updates: int, *key: str | int) -> Packed:
    """At most `updates` batches from the largest common share of all networks' rows, in a keyed order.

    A batch holds a group whole or not at all. Groups leave more padding, for which the shapes grow: so that as many
    tokens are learnt as if all rows stood alone.
    """
    alone = [_Queue.of(rows, grouped=False) for rows in networks]
    whole = [_Queue.of(rows) if (rows.groups >= 0).any() else one for rows, one in zip(networks, alone, strict=True)]
    queues, plan = _grown_plan(whole, shapes, updates, _largest_share(alone, shapes, updates))
    rows, firsts = Rows.join(networks), np.cumsum([0, *map(len, networks)])[:-1]
    order = numpy_generator(*key, "order").permutation(len(plan))
    batches = [
        _batch(rows, shape, _numbers(queues, firsts, shape.rows, places))
        for shape, places in (plan[number] for number in order)
    ]
    return Packed(batches, [queue.rest(own) for queue, own in zip(queues, networks, strict=True)])


def _grown_plan(
    whole: Sequence[_Queue], shapes: Sequence[BatchShape], updates: int, share: float
) -> tuple[list[_Queue], Plan]:
    """The first `share` of the rows in at most `updates` batches, by shapes that have as many more rows as it takes."""
    queues = [queue.first(share) for queue in whole]
    for step in range(_STEPS):
        grown = [BatchShape(-(-shape.rows * (_STEPS + step) // _STEPS), shape.length) for shape in shapes]
        plan = _plan(queues, grown, updates)
        if len(plan) <= updates:
            return queues, plan
    queues = [queue.first(_largest_share(whole, grown, updates)) for queue in whole]
    return queues, _plan(queues, grown, updates)


def _largest_share(networks: Sequence[_Queue], shapes: Sequence[BatchShape], updates: int) -> float:
    """Bisect for the largest share of every network's rows whose plan has at most `updates` batches.

    To a thousandth of the rows; where few are needed, to an eighth of what is found, so that it is never nothing.
    """

    def fits(share: float) -> bool:
        return len(_plan([queue.first(share) for queue in networks], shapes, updates)) <= updates

    if fits(1.0):
        return 1.0
    low, high = 0.0, 1.0
    while high - low > min(2**-10, low / 8):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@dataclass(frozen=True)
class _Queue:
    """A network's rows, longest first: those that stand alone, and groups, each as long as its longest row."""

    count: int  # of all rows, whether in the queue or not
    singles: Ints  # row numbers
    single_lengths: Ints
    groups: Sequence[Ints]  # row numbers
    group_lengths: Ints
    lasts: Ints  # the last row number of each group

    @classmethod
    def of(cls, rows: Rows, grouped: bool = True) -> _Queue:
        lengths, in_group = rows.lengths, (rows.groups >= 0) & grouped
        singles, members = np.flatnonzero(~in_group), np.flatnonzero(in_group)
        singles = singles[np.argsort(-lengths[singles], kind="stable")]
        members = members[np.argsort(rows.groups[members], kind="stable")]
        cuts = np.flatnonzero(np.diff(rows.groups[members])) + 1
        groups = np.split(members, cuts) if len(members) else []
        longest = np.array([lengths[group].max() for group in groups], dtype=np.int64)
        firsts = np.array([group[0] for group in groups], dtype=np.int64)
        order = np.lexsort((firsts, -longest))
        groups = [groups[number] for number in order]
        lasts = np.array([group[-1] for group in groups], dtype=np.int64)
        return cls(len(lengths), singles, lengths[singles], groups, longest[order], lasts)

    def first(self, share: float) -> _Queue:
        """Only the first `share` of the rows, in the order in which they came, and whole groups of them."""
        end = round(share * self.count)
        if end == self.count:
            return self
        held, whole = self.singles < end, self.lasts < end
        groups = [group for group, inside in zip(self.groups, whole, strict=True) if inside]
        return _Queue(
            self.count,
            self.singles[held],
            self.single_lengths[held],
            groups,
            self.group_lengths[whole],
            self.lasts[whole],
        )

    def rest(self, rows: Rows) -> Rows:
        """The rows that are not in the queue, in their order."""
        left = np.ones(self.count, dtype=np.bool_)
        for numbers in (self.singles, *self.groups):
            left[numbers] = False
        return rows.take(np.flatnonzero(left))

    def longest(self, place: Place) -> int:
        """The length of the longest remaining row; 0 if there is none."""
        single, group = place
        lengths = [*self.single_lengths[single : single + 1], *self.group_lengths[group : group + 1]]
        return int(max(lengths, default=0))

    def after(self, place: Place, rows: int) -> Place:
        """Where the queue stands after a batch of `rows`: the next longest; where a group does not fit, single rows."""
        single, group = place
        while rows and group < len(self.groups):
            if single < len(self.singles) and self.single_lengths[single] > self.group_lengths[group]:
                single, rows = single + 1, rows - 1
            elif len(self.groups[group]) <= rows:
                group, rows = group + 1, rows - len(self.groups[group])
            else:
                break
        return min(single + rows, len(self.singles)), group

    def taken(self, place: Place, rows: int) -> Ints:
        """The rows of that batch."""
        end = self.after(place, rows)
        return np.concatenate([self.singles[place[0] : end[0]], *self.groups[place[1] : end[1]]])


def _plan(queues: Sequence[_Queue], shapes: Sequence[BatchShape], most: int) -> Plan:
    """Longest rows first; ends beyond `most` batches."""
    if not any(queue.groups for queue in queues):
        return _plan_of_rows([queue.single_lengths for queue in queues], shapes, most)
    places: list[Place] = [(0, 0)] * len(queues)
    plan: Plan = []
    while len(plan) <= most and (
        longest := max((queue.longest(place) for queue, place in zip(queues, places, strict=True)), default=0)
    ):
        shape = next(shape for shape in shapes if shape.length >= longest)
        plan.append((shape, places))
        places = [queue.after(place, shape.rows) for queue, place in zip(queues, places, strict=True)]
    return plan


def _plan_of_rows(lengths: Sequence[Ints], shapes: Sequence[BatchShape], most: int) -> Plan:
    """`_plan` without groups: all networks take as many rows, so only the longest row at each place counts."""
    longest = np.zeros(max(map(len, lengths), default=0), dtype=np.int64)
    for own in lengths:
        np.maximum(longest[: len(own)], own, out=longest[: len(own)])
    plan: Plan = []
    start = 0
    while len(plan) <= most and start < len(longest):
        shape = next(shape for shape in shapes if shape.length >= longest[start])
        plan.append((shape, [(min(start, len(own)), 0) for own in lengths]))
        start += shape.rows
    return plan


def _numbers(queues: Sequence[_Queue], firsts: Ints, rows: int, places: Sequence[Place]) -> Ints:
    """Which of all networks' rows go where in a batch, -1 where none does; `firsts` are the networks' first rows."""
    numbers_NB = np.full((len(queues), rows), -1, dtype=np.int64)
    for table, queue, first, place in zip(numbers_NB, queues, firsts, places, strict=True):
        taken = queue.taken(place, rows)
        table[: len(taken)] = first + taken
    return numbers_NB


def _batch(rows: Rows, shape: BatchShape, numbers_NB: Ints) -> Batch:
    """A place without a row still has an end as its source: attention over nothing has no value."""
    numbers, none = numbers_NB.ravel(), numbers_NB < 0
    source, target = (side.padded(numbers, shape.length) for side in (rows.sources, rows.targets))
    target[none.ravel()] = PAD
    table = (*numbers_NB.shape, shape.length)
    paths, groups = (np.where(none, -1, values[numbers_NB]) for values in (rows.paths, rows.groups))
    factors = np.where(none, np.float32(1), rows.factors[numbers_NB])
    scores = np.where(none, np.float32(0), rows.scores[numbers_NB])
    return Batch(shape, source.reshape(table), target.reshape(table), paths, groups, factors, scores)


def interleave(parts: Sequence[Rows], weights: Sequence[float]) -> Rows:
    """Rows of several paths in an order in which every prefix holds them by weight, counted in target tokens."""
    if len(parts) < 2:
        return parts[0] if parts else Rows.empty()
    times = [np.cumsum(part.targets.lengths + 1) / weight for part, weight in zip(parts, weights, strict=True)]
    order = np.argsort(np.concatenate(times), kind="stable")
    return Rows.join(parts).take(order)
