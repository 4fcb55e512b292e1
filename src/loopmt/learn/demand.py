"""How many rows of every path a round needs, and which rows replace those that generators cannot supply.

Unused rows of a round wait in queues for the next one. Each path has a queue; the paths of an entry with `per_round`,
which is drawn in every round, share one queue per direction. A queue is identified by the number of its first route.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from loopmt.learn.reading import ReadPosition
from loopmt.learn.routes import Route
from loopmt.path import Hop
from loopmt.text.batch import Rows
from loopmt.translate.filters import FEWEST_KEPT

_SURPLUS = 1.08  # factor on the expected need, because lengths vary between rounds


def queues_of(routes: Sequence[Route]) -> dict[int, int]:
    """The queue number of every route."""
    firsts: dict[tuple[int, Hop], int] = {}
    return {
        route.number: firsts.setdefault((route.entry_number, route.path.taught), route.number)
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
    """Rows of a queue: how many a round needs, and how many are available."""

    taught: Hop
    synthetic: bool
    share: float = 0.0  # of the tokens of the direction
    wanted: float = 0.0  # rows
    available: int = 0
    routes: int = 0  # that supply rows in this round

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
        return self.held.setdefault(self.queues[route.number], _RowQueue(route.path.taught, route.synthetic))

    def count(self, route: Route, position: ReadPosition) -> int:
        """Real rows that a route must read, including those that filters are expected to drop.

        A need below one row is postponed, unless the queue is empty, so that paths with a tiny share are used, too.
        """
        queue = self.of(route)
        lacking = (queue.wanted * _SURPLUS - queue.available) / queue.routes / route.entry.samples
        kept = max(min(position.kept, route.entry.keep), FEWEST_KEPT) if route.synthetic else 1.0
        return math.ceil(lacking / kept) if lacking >= 1 or (lacking > 0 and not queue.available) else 0

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
