"""A mix of paths to rows to learn from: read, travel, keep; shares by weight.

What a round gathers depends on the seed, the stage, the round's number, how far each route has read, the weights and
the updates that are left, and on nothing else. So no generated text is ever saved: a run that was killed gathers the
same rows again.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from loopmt.distributed import synchronize
from loopmt.learn.objectives import PathRows
from loopmt.learn.routes import Route, StageSetup, one_by_ends, route_keys, token_shares
from loopmt.path import Hop, LanguagePath
from loopmt.rng import numpy_generator
from loopmt.text.batch import Rows, interleave
from loopmt.text.ragged import Ints, Ragged
from loopmt.text.store import Store, row_indices
from loopmt.text.subword_dropout import SubwordDropout
from loopmt.translate.filters import SyntheticTextFilter
from loopmt.translate.limits import DecodeLimits
from loopmt.translate.protocol import Floats
from loopmt.translate.scoring import dual_cross_entropy
from loopmt.translate.sentences import Sentences
from loopmt.translate.walker import (
    HopRecord,
    Rollout,
    Translators,
    generate_along,
    generated_tokens,
    recorder,
)

_SAMPLE = 100_000  # rows of a corpus that the places a row takes are measured on
_SURPLUS = 1.08  # rows drawn beyond the expected need: no two rounds have the same lengths
_FEWEST_KEPT = 0.25  # a generator that keeps fewer is not made up for by generating still more


@dataclass
class ReadPosition:
    """How far a route has read its text, and how much of what it last generated was kept."""

    read: int = 0
    kept: float = 1.0


@dataclass
class GatheredRound:
    """A round's rows of every network, and what it took to get them."""

    networks: list[Rows]
    records: list[tuple[int, HopRecord]] = field(default_factory=list)  # with the route's number
    streams: dict[int, ReadPosition] = field(default_factory=dict)  # where routes stand after the round
    generated_tokens: int = 0
    seconds: float = 0.0
    generate_seconds: float = 0.0  # of them, those of walking


class Gatherer:
    """Draws the rows of each round."""

    def __init__(
        self, setup: StageSetup, store: Store, translators: Translators, text_filter: SyntheticTextFilter
    ) -> None:
        self.setup = setup
        self.routes = setup.routes
        self.store = store
        self.translators = translators
        self.networks = setup.networks
        self.train = setup.train
        self.shapes = setup.shapes
        self.text_filter = text_filter
        self.processes = setup.processes
        self.key = setup.key
        self.objectives = setup.objectives
        self.limits = DecodeLimits.on(self.networks.device, self.train.max_length)
        self.loosened = SubwordDropout(self.networks.vocab, self.train.subword_dropout)
        places = {route.path.ends: self._mean_places(route.path) for route in one_by_ends(self.routes)}
        self._places = {route.number: places[route.path.ends] for route in self.routes}
        self._balance = self._balances()
        self._names = route_keys(self.routes)

    def round(
        self,
        number: int,
        weights: Mapping[int, float],
        streams: Mapping[int, ReadPosition] | None = None,
        updates: int | None = None,
    ) -> GatheredRound:
        """The rows of round `number`, for the routes that have a weight in it; a stage's last may be of few updates."""
        started = time.perf_counter()
        active = self._drawn(number, weights)
        if updates is None or not any(route.synthetic for route in active):
            updates = self.train.round  # reading is cheap, and packing takes what it needs; generating is not
        shares = {route: share * self._balance[route] for route, share in token_shares(active, weights).items()}
        before = {route.number: (streams or {}).get(route.number, ReadPosition()) for route in active}
        counts = {
            route.number: self._count(route, shares[route.number], before[route.number], updates) for route in active
        }
        texts = {route.number: self._read(route, before[route.number].read, counts[route.number]) for route in active}
        found, gathered = self._walk(active, texts, number)
        rows = self._learnable(active, found)
        gathered.networks = [
            self._mixed(network, active, rows, shares) for network in range(self.networks.num_networks)
        ]
        for route in active:
            kept = len(rows[route.number]) / max(len(texts[route.number][1]), 1)
            gathered.streams[route.number] = ReadPosition(before[route.number].read + counts[route.number], kept)
        gathered.seconds = time.perf_counter() - started
        return gathered

    def _drawn(self, number: int, weights: Mapping[int, float]) -> list[Route]:
        """Routes of this round: an entry with `per_round` draws so many of its paths to each direction."""
        active = [route for route in self.routes if weights.get(route.number, 0) > 0]
        rivals: dict[tuple[int, Hop], list[Route]] = {}
        for route in active:
            if route.entry.per_round:
                rivals.setdefault((route.entry_number, route.path.taught), []).append(route)
        out: set[int] = set()
        for (entry, taught), routes in rivals.items():
            generator = numpy_generator(*self.key, "draw", number, entry, str(taught))
            order = generator.permutation(len(routes))[routes[0].entry.per_round :]
            out.update(routes[place].number for place in order)
        return [route for route in active if route.number not in out]

    # -- reading ---------------------------------------------------------------------------------------------

    def _mean_places(self, path: LanguagePath) -> float:
        """Places that a row of real text at the path's ends takes in a batch, on average, padding included."""
        lengths = self.networks.longer_sides(self.store, *path.ends, _SAMPLE) + 1
        fitting = lengths[lengths <= self.shapes[-1].length]
        bounds = np.array([shape.length for shape in self.shapes])
        return float(bounds[np.searchsorted(bounds, fitting)].mean()) if len(fitting) else float(bounds[-1])

    def _balances(self) -> dict[int, float]:
        """How much more or less than an equal share of a shared network a route's direction gets."""
        hops = {route.path.taught for route in self.routes}
        known = {
            hop: len(self.store.bitext(hop.source, hop.target)[0])
            for hop in hops
            if self.store.has_bitext(hop.source, hop.target)
        }
        fewest = min(known.values(), default=1)  # stands in for the pairs of a direction that has none
        power = self.train.balance if self.networks.shared else 0.0
        sizes = {hop: known.get(hop, fewest) ** power for hop in hops}
        total = sum(sizes.values())
        return {route.number: sizes[route.path.taught] * len(hops) / total for route in self.routes}

    def _count(self, route: Route, share: float, stream: ReadPosition, updates: int) -> int:
        """Real rows that so many updates need, as many more as the generators are expected to lose."""
        places = updates * self.train.tokens * _SURPLUS / self._places[route.number] / route.entry.samples
        return math.ceil(places * share / max(min(stream.kept, route.entry.keep), _FEWEST_KEPT))

    def _read(self, route: Route, start: int, count: int) -> tuple[Ragged, Ragged]:
        """Real rows for a round: the text the walk starts from and the text it must arrive at."""
        starts, ends = self.store.ends(*route.path.ends)
        # Routes that share an order read on at nearly the same pace: each sentence gets a source by all of them.
        order = (*route.path.ends, str(route.path.taught)) if route.entry.same_rows else self._names[route.number]
        rows = row_indices(len(starts), start, count, *self.key, "rows", *order)
        if not self.networks.own_tokens:  # else what is too long is known once it is cut into them
            most = min(self.shapes[-1].length - 3, self.train.max_length)
            rows = rows[np.maximum(starts.lengths_of(rows), ends.lengths_of(rows)) <= most]
        rows = np.repeat(rows, route.entry.samples)
        first = starts.take(rows)
        return first, first if route.path.closed else ends.take(rows)

    # -- walking ---------------------------------------------------------------------------------------------

    def _walk(
        self, routes: Sequence[Route], texts: Mapping[int, tuple[Ragged, Ragged]], number: int
    ) -> tuple[dict[int, PathRows], GatheredRound]:
        """Generate where a route generates; each process walks its share of the rows, then all have all."""
        rank, size = self.processes.rank, self.processes.size
        mine = {route.number: np.arange(rank, len(texts[route.number][0]), size) for route in routes}
        rollouts = {
            route.number: Rollout(route.path, route.settings, self._start(route, texts, mine))
            for route in routes
            if route.synthetic
        }
        ends = {route: texts[route][1].take(mine[route]) for route in rollouts}
        cross_entropies, seconds = self._generate(rollouts, ends, number)
        generated = {
            route: (rollout.text.ids, rollout.keep, cross_entropies[route], rollout.scores)
            for route, rollout in rollouts.items()
        }
        records = {route: rollout.records for route, rollout in rollouts.items()}
        everyone = self.processes.all_gather((generated, records, generated_tokens(list(rollouts.values()))))
        gathered = GatheredRound([], generated_tokens=sum(part[2] for part in everyone), generate_seconds=seconds)
        gathered.records = [
            (route, _added_up(hop))
            for route in rollouts
            for hop in zip(*(part[1][route] for part in everyone), strict=True)
        ]
        parts = [part[0] for part in everyone]
        return {route.number: self._rows(route, texts[route.number], parts, number) for route in routes}, gathered

    def _start(self, route: Route, texts: Mapping[int, tuple[Ragged, Ragged]], mine: Mapping[int, Ints]) -> Sentences:
        """The real text that this process takes along a path."""
        own = texts[route.number][0].take(mine[route.number])
        return Sentences(self.networks.vocab, route.path.languages[0], ids=own)

    def _generate(
        self, rollouts: Mapping[int, Rollout], ends: Mapping[int, Ragged], number: int
    ) -> tuple[dict[int, Floats], float]:
        """Take all rollouts to their last hop: the dual cross-entropy of what was generated, and the seconds."""
        if not rollouts:
            return {}, 0.0
        synchronize(self.networks.device)  # updates under way hold generation up, and are not part of its time
        began = time.perf_counter()
        key = (*self.key, "generate", number, self.processes.rank)
        generate_along(self.translators, list(rollouts.values()), self.limits, key, observe=recorder(self.text_filter))
        found = {
            route: self._cross_entropies(self.routes[route], rollout, ends[route])
            for route, rollout in rollouts.items()
        }
        return found, time.perf_counter() - began

    def _cross_entropies(self, route: Route, rollout: Rollout, ends: Ragged) -> Floats:
        """Dual cross-entropy of each generated sentence and the real one at the end of its path."""
        if route.entry.keep == 1:
            return np.zeros(len(ends))
        hop = Hop(*rollout.path.languages[-2:])
        real = Sentences(self.networks.vocab, hop.target, ids=ends)
        return dual_cross_entropy(self.networks, hop, rollout.text, real)

    def _rows(self, route: Route, text: tuple[Ragged, Ragged], everyone: list[dict[int, Any]], number: int) -> PathRows:
        sources, targets = text
        groups, scores, generated = self._groups(route, len(targets)), np.zeros(len(targets)), None
        if route.synthetic:
            parts = [part[route.number] for part in everyone]
            sources, keep, cross_entropies, scores = _dealt_back(parts, len(targets))
            kept = _least(cross_entropies, np.flatnonzero(keep), route.entry.keep)
            sources = generated = sources.take(kept)
            targets, groups, scores = targets.take(kept), groups[kept], scores[kept]
        else:
            sources = self.loosened(
                sources, route.path.ends[0], *self.key, number, *self._names[route.number], "source"
            )
        targets = self._loosened_targets(route, targets, groups, number)
        if route.path.backward:
            sources, targets = targets, sources
        return PathRows(route.path, route.entry, sources, targets, groups, generated, scores)

    def _groups(self, route: Route, count: int) -> Ints:
        """A number for the samples of each real sentence, if an objective groups them."""
        if not self.setup.groups(route):
            return np.full(count, -1, dtype=np.int64)
        return np.arange(count) // route.entry.samples * len(self.routes) + route.number

    def _learnable(self, routes: Sequence[Route], found: Mapping[int, PathRows]) -> dict[int, Rows]:
        """Rows as the networks read them, with the factors that objectives give them."""
        rows = {route.number: self._tagged(route, found[route.number]) for route in routes}
        for objective in self.objectives:
            factors = objective.round_factors([found[route.number] for route in routes])
            for route, own in zip(routes, factors or [], strict=factors is not None):
                before = rows[route.number]
                rows[route.number] = replace(before, factors=before.factors * own.astype(np.float32))
        return rows

    def _tagged(self, route: Route, found: PathRows) -> Rows:
        marked = route.entry.tag and route.synthetic
        hop, vocab = route.path.taught, self.networks.vocab
        sources, targets = (
            Sentences(vocab, language, ids=ids)
            for language, ids in ((hop.source, found.sources), (hop.target, found.targets))
        )
        paths = np.full(len(sources), route.number, dtype=np.int64)
        read = self.networks.source_rows(sources, hop, synthetic=marked)
        return Rows.of(read, self.networks.target_rows(targets, hop), paths, found.groups)

    def _loosened_targets(self, route: Route, targets: Ragged, groups: Ints, number: int) -> Ragged:
        """Samples that an objective groups have one and the same target: it is cut once for all of them."""
        key = (*self.key, number, *self._names[route.number], "target")
        if not self.setup.groups(route):
            return self.loosened(targets, route.path.ends[1], *key)
        _, firsts, places = np.unique(groups, return_index=True, return_inverse=True)
        return self.loosened(targets.take(firsts), route.path.ends[1], *key).take(places)

    def _mixed(
        self, network: int, routes: Sequence[Route], rows: Mapping[int, Rows], shares: Mapping[int, float]
    ) -> Rows:
        mine = [route for route in routes if self.networks.network(route.path.taught) == network]
        parts = [rows[route.number] for route in mine]
        return interleave(parts, [shares[route.number] for route in mine]).up_to(self.shapes[-1].length)


def _added_up(records: Sequence[HopRecord]) -> HopRecord:
    """What all processes said on one hop."""
    dropped = Counter[str]()
    for record in records:
        dropped.update(record.dropped)
    sums = {
        each.name: sum(getattr(record, each.name) for record in records)
        for each in fields(HopRecord)
        if each.name not in ("hop", "dropped")
    }
    return HopRecord(hop=records[0].hop, dropped=dict(dropped), **sums)


def _least(cross_entropies: Floats, numbers: Ints, share: float) -> Ints:
    """The rows among `numbers` that are doubted least, in their order."""
    ranked = np.argsort(cross_entropies[numbers], kind="stable") if share < 1 else np.arange(len(numbers))
    return np.sort(numbers[ranked[: math.ceil(share * len(numbers))]])


def _dealt_back(
    parts: Sequence[tuple[Ragged, Ints, Floats, Floats]], count: int
) -> tuple[Ragged, Ints, Floats, Floats]:
    """Rows that were dealt to processes in turn, in their old order."""
    order = np.argsort(
        np.concatenate([np.arange(rank, count, len(parts)) for rank in range(len(parts))]), kind="stable"
    )
    texts, *columns = zip(*parts, strict=True)
    keeps, cross_entropies, scores = (np.concatenate(column)[order] for column in columns)
    return Ragged.join(texts).take(order), keeps, cross_entropies, scores
