"""How many rows of every path a round wants, and what takes the place of rows that generators cannot give.

Rows that a round did not learn wait in queues for the next one. A path has a queue of its own; the paths among which an
entry draws anew in every round (`per_round`) share one for each direction. A queue is known by the number of the
first of its routes.
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

_SURPLUS = 1.08  # rows wanted beyond the expected need: no two rounds have the same lengths


def queues_of(routes: Sequence[Route]) -> dict[int, int]:
    """The queue of every route."""
    firsts: dict[tuple[int, Hop], int] = {}
    return {
        route.number: firsts.setdefault((route.entry_number, route.path.taught), route.number)
        if route.entry.per_round
        else route.number
        for route in routes
    }


def by_queue(carried: Sequence[Rows], queues: Mapping[int, int]) -> dict[int, Rows]:
    """The rows that wait in each queue, in their order."""
    rows = Rows.join(carried)
    own = np.array([queues[path] for path in rows.paths.tolist()], dtype=np.int64)
    order = np.argsort(own, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(own[order])) + 1) if len(order) else []
    return {int(own[part[0]]): rows.take(part) for part in parts}


@dataclass
class _Queue:
    """What a round wants of a queue, and what there is."""

    taught: Hop
    synthetic: bool
    share: float = 0.0  # of the tokens of the direction
    wanted: float = 0.0  # rows
    there: int = 0
    routes: int = 0  # that fill it in this round

    @property
    def met(self) -> float:
        return min(1.0, self.there / self.wanted) if self.wanted else 1.0


@dataclass
class Demand:
    """The queues of the routes that are in a round."""

    queues: Mapping[int, int]  # of every route
    held: dict[int, _Queue] = field(default_factory=dict)

    def want(self, route: Route, share: float, rows: float, waiting: int) -> None:
        """A route has a share of the tokens of its direction, for which it takes so many rows."""
        queue = self.of(route)
        queue.share, queue.wanted, queue.there = queue.share + share, queue.wanted + rows, waiting
        queue.routes += 1

    def of(self, route: Route) -> _Queue:
        return self.held.setdefault(self.queues[route.number], _Queue(route.path.taught, route.synthetic))

    def count(self, route: Route, position: ReadPosition) -> int:
        """Real rows that a route has to read, as many more as its generators are expected to lose.

        Less than one row is left to a later round, unless the queue is empty: a path of a tiny share has its turn, too.
        """
        queue = self.of(route)
        lacking = (queue.wanted * _SURPLUS - queue.there) / queue.routes / route.entry.samples
        kept = max(min(position.kept, route.entry.keep), FEWEST_KEPT) if route.synthetic else 1.0
        return math.ceil(lacking / kept) if lacking >= 1 or (lacking > 0 and not queue.there) else 0

    def arrive(self, route: Route, rows: int) -> None:
        self.of(route).there += rows

    def top_up(self) -> None:
        """What generators cannot give of a direction comes from its real pairs, where the mix has them."""
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
