"""Real text for a round: how many rows an update takes, where each route reads, and the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loopmt.learn.routes import Key, Route, StageSetup, one_by_ends, route_keys
from loopmt.path import LanguagePath
from loopmt.text.ragged import Ragged
from loopmt.text.store import Store, row_indices

_SAMPLE = 100_000  # rows of a corpus that lengths are measured on
_MEMORY = 32  # rows that the expectation of what is kept counts as


@dataclass(frozen=True)
class ReadPosition:
    """How far a route has read its text, and what share of the rows that it generates is kept, as expected."""

    read: int = 0
    kept: float = 1.0

    def after(self, read: int, offered: int, kept: int) -> ReadPosition:
        """Having read on to `read`, with so many generated rows offered and kept; few say little about the share."""
        return ReadPosition(read, (self.kept * _MEMORY + kept) / (_MEMORY + offered) if offered else self.kept)


@dataclass(frozen=True)
class RealText:
    """Rows that a route read."""

    starts: Ragged  # the text that the path starts from
    ends: Ragged  # the text that it must arrive at
    position: int  # where reading began
    read: int  # how many rows were read, those that are too long included

    def __len__(self) -> int:
        return len(self.ends)


class Reader:
    """Reads the text at the ends of paths, each route in an order of its own or in one that several share."""

    def __init__(self, setup: StageSetup, store: Store) -> None:
        self.setup = setup
        self.store = store
        self.keys = route_keys(setup.routes)
        rows = {route.path.ends: self._rows_per_update(route.path) for route in one_by_ends(setup.routes)}
        self.rows_per_update = {route.number: rows[route.path.ends] for route in setup.routes}
        self.balance = self._balances()
        self._members: dict[Key, list[int]] = {}  # the routes of each stream
        for route in setup.routes:
            self._members.setdefault(self._stream(route), []).append(route.number)

    def read(self, route: Route, positions: Mapping[int, ReadPosition], count: int) -> RealText:
        """The next `count` rows, without those that are too long, each as often as the entry has samples."""
        starts, ends = self.store.ends(*route.path.ends)
        start = self.position(route, positions)
        rows = row_indices(len(starts), start, count, *self.setup.key, "rows", *self._stream(route))
        if not self.setup.networks.own_tokens:  # else what is too long is known once it is cut into them
            most = min(self.setup.shapes[-1].length - 3, self.setup.train.max_length)
            rows = rows[np.maximum(starts.lengths_of(rows), ends.lengths_of(rows)) <= most]
        rows = np.repeat(rows, route.entry.samples)
        first = starts.take(rows)
        return RealText(first, first if route.path.closed else ends.take(rows), start, count)

    def position(self, route: Route, positions: Mapping[int, ReadPosition]) -> int:
        """Where a route reads on: routes that share a stream begin where the furthest of them stopped."""
        members = self._members[self._stream(route)]
        return max(positions.get(number, ReadPosition()).read for number in members)

    def after(
        self, routes: Sequence[Route], positions: Mapping[int, ReadPosition], counts: Mapping[int, int]
    ) -> dict[int, int]:
        """How far each of the routes has read: those that share a stream had parts of the same window."""
        windows: dict[Key, int] = {}
        for route in routes:
            stream = self._stream(route)
            windows[stream] = max(windows.get(stream, 0), counts.get(route.number, 0))
        return {route.number: self.position(route, positions) + windows[self._stream(route)] for route in routes}

    def _stream(self, route: Route) -> Key:
        """Names the order of the rows: with `same_rows`, one for all such routes that teach a direction from a text."""
        same = route.entry.same_rows
        return (*route.path.ends, str(route.path.taught)) if same else self.keys[route.number]

    def _rows_per_update(self, path: LanguagePath) -> float:
        """Rows of real text at the path's ends that fill the batch of an update for one direction."""
        lengths = self.setup.networks.longer_sides(self.store, *path.ends, _SAMPLE) + 1
        shapes = self.setup.shapes
        fitting = lengths[lengths <= shapes[-1].length]
        parts = np.array([1 / shape.rows for shape in shapes])  # of a batch that a row of each shape takes
        places = np.searchsorted([shape.length for shape in shapes], fitting)
        part = float(parts[places].mean()) if len(fitting) else float(parts[-1])
        networks = self.setup.networks
        directions = len({route.path.taught for route in self.setup.routes}) if networks.shared else 1
        return 1 / part / directions

    def _balances(self) -> dict[int, float]:
        """How much more or less than an equal share of a shared network a route's direction gets."""
        hops = {route.path.taught for route in self.setup.routes}
        known = {
            hop: len(self.store.bitext(hop.source, hop.target)[0])
            for hop in hops
            if self.store.has_bitext(hop.source, hop.target)
        }
        fewest = min(known.values(), default=1)  # stands in for the pairs of a direction that has none
        power = self.setup.train.balance if self.setup.networks.shared else 0.0
        sizes = {hop: known.get(hop, fewest) ** power for hop in hops}
        total = sum(sizes.values())
        return {route.number: sizes[route.path.taught] * len(hops) / total for route in self.setup.routes}
