"""Reads real text for a round: computes how many rows each path needs and where it continues, and reads them.

Rows that a round did not use wait in queues for the next one. Each path has its own queue; the paths from
which `per_round` draws share one queue for each direction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from loopmt.learn.routes import Key, Route, StageSetup, one_by_ends, own_routes, route_keys
from loopmt.path import Hop, LanguagePath
from loopmt.text.batch import Rows
from loopmt.text.ragged import Ragged
from loopmt.text.store import Store, row_indices
from loopmt.translate.filters import FEWEST_KEPT

_SURPLUS = 1.08  # factor on the expected need, because lengths vary between rounds


def queues_of(routes: Sequence[Route]) -> dict[int, int]:
    """The queue number of every route."""
    firsts: dict[tuple[int, int, Hop], int] = {}
    return {
        route.number: firsts.setdefault((route.entry_number, route.rewarded, route.taught), route.number)
        if route.entry.per_round
        else route.number
        for route in routes
    }


def by_queue(carried: Sequence[Rows], queues: Mapping[int, int]) -> dict[int, Rows]:
    """The waiting rows of each queue, in order."""
    rows = Rows.join(carried)
    own = np.array([queues[path] for path in rows.paths.tolist()], dtype=np.int64)
    order = np.argsort(own, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(own[order])) + 1) if len(order) else []
    return {int(own[part[0]]): rows.take(part) for part in parts}


@dataclass
class _RowQueue:
    """The number of rows that a round needs from a queue, and the number that are available."""

    taught: Hop
    synthetic: bool
    share: float = 0.0  # of the tokens of the direction
    wanted: float = 0.0  # rows
    available: int = 0
    routes: int = 0  # routes that supply rows in this round

    @property
    def met(self) -> float:
        return min(1.0, self.available / self.wanted) if self.wanted else 1.0


@dataclass
class Demand:
    """The queues of a round's routes."""

    queues: Mapping[int, int]  # of every route
    held: dict[int, _RowQueue] = field(default_factory=dict)

    def want(self, route: Route, share: float, rows: float, waiting: int) -> None:
        """Register a route with its share of the direction's tokens, the rows that it needs, and its waiting rows."""
        queue = self.of(route)
        queue.share, queue.wanted, queue.available = queue.share + share, queue.wanted + rows, waiting
        queue.routes += 1

    def of(self, route: Route) -> _RowQueue:
        return self.held.setdefault(self.queues[route.number], _RowQueue(route.taught, route.synthetic))

    def count(self, route: Route, position: ReadPosition) -> int:
        """Real rows that a route must read, including those that filters are expected to drop.

        A need below one row is postponed, unless the queue is empty: so paths with a tiny share are used, too.
        """
        queue = self.of(route)
        lacking = (queue.wanted * _SURPLUS - queue.available) / queue.routes / route.entry.samples
        kept = max(min(position.kept, route.entry.keep), FEWEST_KEPT) if route.synthetic else 1.0
        return math.ceil(lacking / kept) if lacking >= 1 or (lacking > 0 and not queue.available) else 0

    def room(self, route: Route) -> int:
        """How many more rows a route may add without making others wait longer than usual."""
        queue = self.of(route)
        return max(0, math.ceil(queue.wanted * _SURPLUS - queue.available))

    def add(self, route: Route, rows: int) -> None:
        self.of(route).available += rows

    def top_up(self) -> None:
        """Replace missing generated rows of a direction by its real pairs, if the mix has any."""
        missing: dict[Hop, float] = {}
        real: dict[Hop, float] = {}
        for queue in self.held.values():
            if queue.synthetic:
                missing[queue.taught] = missing.get(queue.taught, 0.0) + queue.share * (1 - queue.met)
                queue.share *= queue.met
            else:
                real[queue.taught] = real.get(queue.taught, 0.0) + queue.share
        for queue in self.held.values():
            if not queue.synthetic:
                more = 1 + missing.get(queue.taught, 0.0) / real[queue.taught]
                queue.share, queue.wanted = queue.share * more, queue.wanted * more


_SAMPLE = 100_000  # rows of a corpus whose lengths are measured
_MEMORY = 32  # the weight, in rows, of the previous estimate of the kept share


@dataclass(frozen=True)
class ReadPosition:
    """The number of rows that a route has read, and the expected share of generated rows that filters keep."""

    read: int = 0
    kept: float = 1.0

    def after(self, read: int, offered: int, kept: int) -> ReadPosition:
        """The position after reading up to `read`; updates the kept share as a running mean."""
        return ReadPosition(read, (self.kept * _MEMORY + kept) / (_MEMORY + offered) if offered else self.kept)


@dataclass(frozen=True)
class RealText:
    """The real text that a route read."""

    starts: Ragged  # real text at the start of the path
    ends: Ragged  # real text at the end of the path
    position: int  # of the first row
    read: int  # number of rows read, including those that are too long

    def __len__(self) -> int:
        return len(self.ends)


class TextReader:
    """Reads the text at the ends of paths, in an order of rows that is a route's own or shared with others."""

    def __init__(self, setup: StageSetup, store: Store) -> None:
        self.setup = setup
        self.store = store
        self.keys = route_keys(setup.routes)
        rows = {route.path.ends: self._rows_per_update(route.path) for route in one_by_ends(setup.routes)}
        self.rows_per_update = {route.number: rows[route.path.ends] for route in setup.routes}
        self.balance = self._balances()
        self._members: dict[Key, list[int]] = {}  # the routes of each stream
        for route in own_routes(setup.routes):
            self._members.setdefault(self._stream(route), []).append(route.number)

    def read(self, route: Route, positions: Mapping[int, ReadPosition], count: int) -> RealText:
        """The next `count` rows without those that are too long, repeated for each sample of the entry."""
        starts, ends = self.store.ends(*route.path.ends)
        start = self.position(route, positions)
        rows = row_indices(len(starts), start, count, *self.setup.key, "rows", *self._stream(route))
        if not self.setup.networks.own_tokens:  # otherwise lengths are known only after tokenization
            most = min(self.setup.shapes[-1].length - 3, self.setup.train.max_length)
            rows = rows[np.maximum(starts.lengths_of(rows), ends.lengths_of(rows)) <= most]
        rows = np.repeat(rows, route.entry.samples)
        first = starts.take(rows)
        return RealText(first, first if route.path.closed else ends.take(rows), start, count)

    def position(self, route: Route, positions: Mapping[int, ReadPosition]) -> int:
        """The next row of a route; routes that share a stream continue at the furthest position."""
        members = self._members[self._stream(route)]
        return max(positions.get(number, ReadPosition()).read for number in members)

    def after(
        self, routes: Sequence[Route], positions: Mapping[int, ReadPosition], counts: Mapping[int, int]
    ) -> dict[int, int]:
        """The position of each route after reading; routes that share a stream read from the same window."""
        windows: dict[Key, int] = {}
        for route in routes:
            stream = self._stream(route)
            windows[stream] = max(windows.get(stream, 0), counts.get(route.number, 0))
        return {route.number: self.position(route, positions) + windows[self._stream(route)] for route in routes}

    def _stream(self, route: Route) -> Key:
        """The key of the order of rows; with `same_rows`, routes with the same ends and taught direction share it."""
        return route.stream if route.entry.same_rows else self.keys[route.number]

    def _rows_per_update(self, path: LanguagePath) -> float:
        """The number of real rows that fill one direction's part of an update."""
        lengths = self.setup.networks.longer_sides(self.store, *path.ends, _SAMPLE) + 1
        shapes = self.setup.shapes
        fitting = lengths[lengths <= shapes[-1].length]
        parts = np.array([1 / shape.rows for shape in shapes])  # the part of a batch that one row takes
        places = np.searchsorted([shape.length for shape in shapes], fitting)
        part = float(parts[places].mean()) if len(fitting) else float(parts[-1])
        networks = self.setup.networks
        directions = len({route.taught for route in self.setup.routes}) if networks.shared else 1
        return 1 / part / directions

    def _balances(self) -> dict[int, float]:
        """Each route's factor on an equal share: `train.balance` favors larger directions in a shared network."""
        hops = {route.taught for route in self.setup.routes}
        known = {
            hop: len(self.store.bitext(hop.source, hop.target)[0])
            for hop in hops
            if self.store.has_bitext(hop.source, hop.target)
        }
        fewest = min(known.values(), default=1)  # stands for directions without pairs
        power = self.setup.train.balance if self.setup.networks.shared else 0.0
        sizes = {hop: known.get(hop, fewest) ** power for hop in hops}
        total = sum(sizes.values())
        return {route.number: sizes[route.taught] * len(hops) / total for route in self.setup.routes}
