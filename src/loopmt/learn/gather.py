"""A mix of paths to rows to learn from: read, travel, keep; shares by weight.

What a round gathers depends on the seed, the stage, the round's number and the weights, and on nothing else. So no
generated text is ever saved: a run that was killed gathers the same rows again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loopmt.config import Generate, MixEntry, Train
from loopmt.learn.learner import precision
from loopmt.model.decoding import Limits
from loopmt.model.sieve import Sieve
from loopmt.model.translators import Translators
from loopmt.model.travel import HopRecord, Walk, travel
from loopmt.path import Hop, Path
from loopmt.processes import Processes
from loopmt.rng import numpy_generator
from loopmt.text.batch import Rows, Shape, interleave
from loopmt.text.ragged import Ints, Ragged
from loopmt.text.store import Side, Store, row_indices

_SURPLUS = 1.08  # rows drawn beyond the expected need: some are dropped, and no two rounds have the same lengths


@dataclass(frozen=True)
class Route:
    """One path of a stage's mix, with the settings of its entry."""

    number: int
    path: Path
    entry: MixEntry
    entry_number: int

    @property
    def settings(self) -> list[Generate]:
        return self.entry.hop_settings(len(self.path.generating))

    @property
    def synthetic(self) -> bool:
        return bool(self.path.generating)


@dataclass
class Gathered:
    """A round's rows of every network, and what it took to get them."""

    networks: list[Rows]
    records: list[tuple[int, HopRecord]] = field(default_factory=list)  # with the route's number
    read: dict[int, int] = field(default_factory=dict)  # real rows read, by route
    generated_tokens: int = 0
    seconds: float = 0.0


class Gatherer:
    """Draws the rows of each round."""

    def __init__(
        self,
        routes: Sequence[Route],
        store: Store,
        translators: Translators,
        train: Train,
        shapes: Sequence[Shape],
        sieve: Sieve,
        processes: Processes,
        key: tuple[str | int, ...],
    ) -> None:
        self.routes = routes
        self.store = store
        self.translators = translators
        self.train = train
        self.shapes = shapes
        self.sieve = sieve
        self.processes = processes
        self.key = key
        self.limits = Limits.on(translators.device, train.max_length)
        self._places = {route.number: self._mean_places(route) for route in routes}

    def round(self, number: int, weights: Mapping[int, float]) -> Gathered:
        """The rows of round `number`, for the routes that have a weight in it."""
        started = time.perf_counter()
        active = self._drawn(number, weights)
        shares = _shares(active, weights)
        texts = {route.number: self._read(route, number, shares[route.number]) for route in active}
        rows, gathered = self._walk(active, texts, number)
        gathered.networks = [
            self._mixed(network, active, rows, shares) for network in range(self.translators.num_networks)
        ]
        gathered.read = {route.number: len(texts[route.number][1]) for route in active}
        gathered.seconds = time.perf_counter() - started
        return gathered

    def _drawn(self, number: int, weights: Mapping[int, float]) -> list[Route]:
        """Routes of this round: an entry with `per_round` draws so many of its paths to each direction."""
        active = [route for route in self.routes if weights.get(route.number, 0) > 0]
        kept = []
        for route in active:
            rivals = [
                other
                for other in active
                if other.entry_number == route.entry_number and other.path.taught == route.path.taught
            ]
            limit = route.entry.per_round or len(rivals)
            generator = numpy_generator(*self.key, "draw", number, route.entry_number, str(route.path.taught))
            chosen = generator.permutation(len(rivals))[:limit]
            if rivals.index(route) in chosen:
                kept.append(route)
        return kept

    # -- reading ---------------------------------------------------------------------------------------------

    def _sides(self, path: Path) -> tuple[Side, Side]:
        """The text at the path's two ends, row by row."""
        start, end = path.ends
        if path.closed:
            return self.store.mono(start), self.store.mono(start)
        return self.store.bitext(start, end)

    def _mean_places(self, route: Route) -> float:
        """Places that a row of the route takes in a batch, on average, padding included."""
        lengths = np.maximum(*(side.lengths[:100_000] for side in self._sides(route.path))) + 1
        fitting = lengths[lengths <= self.shapes[-1].length]
        bounds = np.array([shape.length for shape in self.shapes])
        return float(bounds[np.searchsorted(bounds, fitting)].mean()) if len(fitting) else float(bounds[-1])

    def _read(self, route: Route, number: int, share: float) -> tuple[Ragged, Ragged]:
        """Real rows for a round: the text the walk starts from and the text it must arrive at."""
        places = self.train.round * self.train.tokens * _SURPLUS / self._places[route.number] / route.entry.samples
        stride, count = math.ceil(places), math.ceil(places * share)
        starts, ends = self._sides(route.path)
        rows = row_indices(len(starts), number * stride, count, *self.key, "rows", str(route.path))
        first = starts.take(rows)
        last = first if route.path.closed else ends.take(rows)
        fit = np.flatnonzero(np.maximum(first.lengths, last.lengths) < self.shapes[-1].length - 2)
        fit = np.repeat(fit, route.entry.samples)
        return first.take(fit), last.take(fit)

    # -- walking ---------------------------------------------------------------------------------------------

    def _walk(
        self, routes: Sequence[Route], texts: Mapping[int, tuple[Ragged, Ragged]], number: int
    ) -> tuple[dict[int, Rows], Gathered]:
        """Generate where a route generates; each process walks its share of the rows, then all have all."""
        rank, size = self.processes.rank, self.processes.size
        mine = {route.number: np.arange(rank, len(texts[route.number][0]), size) for route in routes}
        walks = {
            route.number: Walk(route.path, route.settings, texts[route.number][0].take(mine[route.number]))
            for route in routes
            if route.synthetic
        }
        tokens = travel(
            self.translators,
            list(walks.values()),
            self.limits,
            precision(self.train, self.translators.device),
            (*self.key, "generate", number, rank),
            self.sieve,
        )
        gathered = Gathered([], generated_tokens=tokens)
        gathered.records = [(route, record) for route, walk in walks.items() for record in walk.records]
        everyone = self.processes.collect({route: (walk.trace[-1], walk.keep) for route, walk in walks.items()})
        return {route.number: self._rows(route, texts[route.number], everyone) for route in routes}, gathered

    def _rows(self, route: Route, text: tuple[Ragged, Ragged], everyone: list[dict[int, Any]]) -> Rows:
        sources, targets = text
        if not route.synthetic:
            numbers = np.arange(len(targets))
        else:
            sources, keep = _dealt_back([part[route.number] for part in everyone], len(targets))
            numbers = np.flatnonzero(keep)
        groups = np.full(len(targets), -1, dtype=np.int64)
        if route.entry.combine == "logmeanexp":
            groups = np.arange(len(targets)) // route.entry.samples * len(self.routes) + route.number
        marked = route.entry.tag and route.synthetic
        addressed = self.translators.addressed(sources.take(numbers), route.path.taught, synthetic=marked)
        paths = np.full(len(numbers), route.number, dtype=np.int64)
        return Rows(addressed, targets.take(numbers), paths, groups[numbers])

    def _mixed(
        self, network: int, routes: Sequence[Route], rows: Mapping[int, Rows], shares: Mapping[int, float]
    ) -> Rows:
        mine = [route for route in routes if self.translators.network(route.path.taught) == network]
        parts = [rows[route.number] for route in mine]
        mixed = interleave(parts, [shares[route.number] for route in mine])
        return mixed.take(np.flatnonzero(mixed.lengths <= self.shapes[-1].length))


def _shares(routes: Sequence[Route], weights: Mapping[int, float]) -> dict[int, float]:
    """Each route's share of the tokens of the direction it teaches."""
    totals: dict[Hop, float] = {}
    for route in routes:
        totals[route.path.taught] = totals.get(route.path.taught, 0.0) + weights[route.number]
    return {route.number: weights[route.number] / totals[route.path.taught] for route in routes}


def _dealt_back(parts: Sequence[tuple[Ragged, Ints]], count: int) -> tuple[Ragged, Ints]:
    """Rows that were dealt to processes in turn, in their old order."""
    order = np.argsort(
        np.concatenate([np.arange(rank, count, len(parts)) for rank in range(len(parts))]), kind="stable"
    )
    texts = Ragged.join([text for text, _ in parts])
    return texts.take(order), np.concatenate([keep for _, keep in parts])[order]
