"""Reading real text for a round: positions of the routes, rows per update, and the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loopmt.learn.routes import Key, Route, StageSetup, one_by_ends, route_keys
from loopmt.path import LanguagePath
from loopmt.text.ragged import Ragged
from loopmt.text.store import Store, row_indices

_SAMPLE = 100_000  # rows of a corpus whose lengths are measured
_MEMORY = 32  # rows that the previous estimate of the kept share counts as


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
    """The rows that a route read."""

    starts: Ragged  # real text at the start of the path
    ends: Ragged  # real text at the end of the path
    position: int  # of the first row
    read: int  # number of rows read, including those that are too long

    def __len__(self) -> int:
        return len(self.ends)


class TextReader:
    """Reads the text at the ends of paths; each route has its own order of rows, or shares one."""

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
        """The next `count` rows without those that are too long, repeated for each sample of the entry."""
        starts, ends = self.store.ends(*route.path.ends)
        start = self.position(route, positions)
        rows = row_indices(len(starts), start, count, *self.setup.key, "rows", *self._stream(route))
        if not self.setup.networks.own_tokens:  # else lengths are known only after tokenization
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
        same = route.entry.same_rows
        return (*route.path.ends, str(route.path.taught)) if same else self.keys[route.number]

    def _rows_per_update(self, path: LanguagePath) -> float:
        """Rows of real text that fill one direction's part of an update."""
        lengths = self.setup.networks.longer_sides(self.store, *path.ends, _SAMPLE) + 1
        shapes = self.setup.shapes
        fitting = lengths[lengths <= shapes[-1].length]
        parts = np.array([1 / shape.rows for shape in shapes])  # the part of a batch that one row takes
        places = np.searchsorted([shape.length for shape in shapes], fitting)
        part = float(parts[places].mean()) if len(fitting) else float(parts[-1])
        networks = self.setup.networks
        directions = len({route.path.taught for route in self.setup.routes}) if networks.shared else 1
        return 1 / part / directions

    def _balances(self) -> dict[int, float]:
        """Each route's factor on an equal share: `train.balance` favors larger directions in a shared network."""
        hops = {route.path.taught for route in self.setup.routes}
        known = {
            hop: len(self.store.bitext(hop.source, hop.target)[0])
            for hop in hops
            if self.store.has_bitext(hop.source, hop.target)
        }
        fewest = min(known.values(), default=1)  # stands for directions without pairs
        power = self.setup.train.balance if self.setup.networks.shared else 0.0
        sizes = {hop: known.get(hop, fewest) ** power for hop in hops}
        total = sum(sizes.values())
        return {route.number: sizes[route.path.taught] * len(hops) / total for route in self.setup.routes}
