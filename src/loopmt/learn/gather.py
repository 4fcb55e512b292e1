"""Gathering: makes the training rows of a mix of paths by reading real text, generating along paths and filtering.

A round depends only on the seed, the stage, its number, the positions of the routes, the weights, the remaining updates
and the rows carried over. So a resumed run gathers the same rows, and only unused rows of generated text are saved.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from loopmt.distributed import synchronize
from loopmt.learn.drawn import DrawnText, Sums, rewards_of
from loopmt.learn.objectives import PathRows
from loopmt.learn.reading import Demand, ReadPosition, RealText, TextReader, by_queue, queues_of
from loopmt.learn.routes import Route, StageSetup, own_routes, token_shares
from loopmt.path import Hop
from loopmt.rng import numpy_generator
from loopmt.text.batch import Rows
from loopmt.text.noise import WordNoise
from loopmt.text.packing import interleave
from loopmt.text.ragged import Ints, Ragged
from loopmt.text.store import Store
from loopmt.text.subword_dropout import SubwordDropout
from loopmt.translate.filters import SyntheticTextFilter
from loopmt.translate.protocol import DecodeLimits, Floats, Mask, Sentences
from loopmt.translate.utility import UTILITIES, Candidates, best_of
from loopmt.translate.walker import (
    HopRecord,
    Rollout,
    Translators,
    generate_along,
    generated_tokens,
    recorder,
)


@dataclass
class GatheredRound:
    """The rows of a round for each network, with statistics."""

    networks: list[Rows]
    records: list[tuple[int, HopRecord]] = field(default_factory=list)  # with the route's number
    streams: dict[int, ReadPosition] = field(default_factory=dict)  # positions of the routes after the round
    shares: dict[int, float] = field(default_factory=dict)  # each route's share of its direction's tokens, by weight
    read: dict[int, int] = field(default_factory=dict)  # real rows that each route read
    generated_tokens: int = 0
    seconds: float = 0.0
    generate_seconds: float = 0.0  # the part of `seconds` spent on generation
    measured: Sums = field(default_factory=dict)  # rewards


@dataclass(frozen=True)
class NewRows:
    """New rows of a route in a round, both as input of objectives and as training rows."""

    path_rows: PathRows
    rows: Rows

    def take(self, numbers: Ints) -> NewRows:
        return NewRows(self.path_rows.take(numbers), self.rows.take(numbers))


class Gatherer:
    """Gathers the rows of each round."""

    def __init__(
        self, setup: StageSetup, store: Store, translators: Translators, text_filter: SyntheticTextFilter
    ) -> None:
        self.setup = setup
        self.routes = setup.routes
        self.store = store
        self.translators = translators
        self.networks = setup.networks
        self.train = setup.train
        self.text_filter = text_filter
        self.processes = setup.processes
        self.key = setup.key
        self.objectives = setup.objectives
        self.limits = DecodeLimits.on(self.networks.device, self.train.max_length)
        self.noise = WordNoise(self.networks.vocab)
        self.subword_dropout = SubwordDropout(self.networks.vocab, self.train.subword_dropout)
        self.reader = TextReader(setup, store)
        self._names = self.reader.keys
        self._queues = queues_of(setup.routes)

    def round(
        self,
        number: int,
        weights: Mapping[int, float],
        streams: Mapping[int, ReadPosition] | None = None,
        updates: float | None = None,
        carried: Sequence[Rows] = (),
    ) -> GatheredRound:
        """Rows of round `number` for the routes with a weight: first those carried over, then new ones."""
        started = time.perf_counter()
        active, positions = self._drawn(number, weights), streams or {}
        waiting, shares = by_queue(carried, self._queues), token_shares(active, weights)
        demand = self._demand(active, shares, self.train.round if updates is None else updates, waiting)
        reading = own_routes(active)
        texts = self._texts([route for route in reading if route.synthetic], positions, demand)
        found, gathered = self._generated_text(texts, number)
        new = {route: self._kept_rows(self.routes[route], texts[route], text, number) for route, text in found.items()}
        new |= {route.number: self._rewarded_rows(route, found, demand) for route in _rewarded(active, found)}
        for route, rows in new.items():
            demand.add(self.routes[route], len(rows.rows))
        demand.top_up()
        real = self._texts([route for route in reading if not route.synthetic], positions, demand)
        new |= {route: self._real_rows(self.routes[route], text, number) for route, text in real.items()}
        gathered.networks = self._mixed(demand, waiting, self._weighted(new))
        gathered.shares, gathered.read = shares, {route: text.read for route, text in (texts | real).items()}
        gathered.streams = self._positions(reading, positions, texts, new, gathered.read)
        gathered.seconds = time.perf_counter() - started
        return gathered

    def _drawn(self, number: int, weights: Mapping[int, float]) -> list[Route]:
        """Routes of this round: an entry with `per_round` draws that many of its paths for each direction."""
        active = [route for route in self.routes if weights.get(route.number, 0) > 0]
        rivals: dict[tuple[int, Hop], list[Route]] = {}
        for route in own_routes(active):
            if route.entry.per_round:
                rivals.setdefault((route.entry_number, route.taught), []).append(route)
        out: set[int] = set()
        for (entry, taught), routes in rivals.items():
            generator = numpy_generator(*self.key, "draw", number, entry, str(taught))
            order = generator.permutation(len(routes))[routes[0].entry.per_round :]
            out.update(routes[place].number for place in order)
        drawn = {route.number for route in active} - out
        return [route for route in active if {route.number, route.rollouts_of} - {None} <= drawn]

    # -- reading ---------------------------------------------------------------------------------------------

    def _demand(
        self, routes: Sequence[Route], shares: Mapping[int, float], updates: float, waiting: Mapping[int, Rows]
    ) -> Demand:
        demand = Demand(self._queues)
        for route in routes:
            share = shares[route.number] * self.reader.balance[route.number]
            rows = updates * self.reader.rows_per_update[route.number] * share
            demand.want(route, share, rows, len(waiting.get(self._queues[route.number], ())))
        return demand

    def _texts(
        self, routes: Sequence[Route], positions: Mapping[int, ReadPosition], demand: Demand
    ) -> dict[int, RealText]:
        """Read text for the routes that have too few rows."""
        counts = {route.number: demand.count(route, positions.get(route.number, ReadPosition())) for route in routes}
        return {
            number: self.reader.read(self.routes[number], positions, count) for number, count in counts.items() if count
        }

    def _positions(
        self,
        routes: Sequence[Route],
        before: Mapping[int, ReadPosition],
        texts: Mapping[int, RealText],
        new: Mapping[int, NewRows],
        read: Mapping[int, int],
    ) -> dict[int, ReadPosition]:
        """Positions of the routes after a round; `texts` has the text of each generating route."""
        after = self.reader.after(routes, before, read)
        offered = {number: (len(text), len(new[number].rows)) for number, text in texts.items()}
        return {
            route.number: before.get(route.number, ReadPosition()).after(
                after[route.number], *offered.get(route.number, (0, 0))
            )
            for route in routes
        }

    # -- generation ------------------------------------------------------------------------------------------

    def _generated_text(
        self, texts: Mapping[int, RealText], number: int
    ) -> tuple[dict[int, GeneratedText], GatheredRound]:
        """Generate from the text of each route: each process generates its share, then all shares are gathered."""
        rank, size = self.processes.rank, self.processes.size
        mine = {
            route: np.repeat(np.arange(rank, len(text), size), self.routes[route].entry.candidates)
            for route, text in texts.items()
        }
        rollouts = {
            route: Rollout(self.routes[route].path, self.routes[route].settings, self._start(route, text, mine[route]))
            for route, text in texts.items()
        }
        ends = {route: text.ends.take(mine[route]) for route, text in texts.items()}
        generated, seconds = self._generate(rollouts, ends, number)
        records = {route: rollout.records for route, rollout in rollouts.items()}
        parts = self.processes.all_gather((generated, records, generated_tokens(list(rollouts.values()))))
        gathered = GatheredRound([], generated_tokens=sum(part[2] for part in parts), generate_seconds=seconds)
        gathered.records = [
            (route, _summed(hop)) for route in rollouts for hop in zip(*(part[1][route] for part in parts), strict=True)
        ]
        found = {
            route: GeneratedText.in_order([part[0][route] for part in parts], len(text))
            for route, text in texts.items()
        }
        gathered.measured = self._measured(found)
        return found, gathered

    def _measured(self, found: Mapping[int, GeneratedText]) -> Sums:
        """The rewards of a round."""
        sums: Sums = {}
        for route, text in found.items():
            for measure, name, total, count in text.drawn.measured(self.routes[route], text.keep) if text.drawn else ():
                before = sums.setdefault(measure, {}).get(name, (0.0, 0))
                sums[measure][name] = before[0] + total, before[1] + count
        return sums

    def _start(self, route: int, text: RealText, mine: Ints) -> Sentences:
        """The real text from which this process generates along a path."""
        return Sentences(self.networks.vocab, self.routes[route].path.languages[0], ids=text.starts.take(mine))

    def _generate(
        self, rollouts: Mapping[int, Rollout], ends: Mapping[int, Ragged], number: int
    ) -> tuple[dict[int, GeneratedText], float]:
        """Run all rollouts. Return the generated rows of each route, and the seconds of generation."""
        if not rollouts:
            return {}, 0.0
        synchronize(self.networks.device)  # exclude pending updates from the measured time
        began = time.perf_counter()
        key = (*self.key, "generate", number, self.processes.rank)
        generate_along(self.translators, list(rollouts.values()), self.limits, key, observe=recorder(self.text_filter))
        found = {route: self._best(self.routes[route], rollout, ends[route]) for route, rollout in rollouts.items()}
        return found, time.perf_counter() - began

    def _best(self, route: Route, rollout: Rollout, ends: Ragged) -> GeneratedText:
        """The best candidate of each sample, with its value for `keep`."""
        entry, text, keep, scores = route.entry, rollout.text, rollout.keep, rollout.scores
        if entry.candidates > 1:
            counts = np.full(len(ends) // entry.candidates, entry.candidates)
            chosen = best_of(self._utility(entry.choose, route, text, ends, counts), counts, keep)
            text, keep, scores, ends = text.take(chosen), keep[chosen], scores[chosen], ends.take(chosen)
        values = self._utility(entry.keep_by, route, text, ends) if entry.keep < 1 else np.zeros(len(ends))
        return GeneratedText(text.ids, keep, values, scores, self._drawn_text(route, rollout, text, ends))

    def _drawn_text(self, route: Route, rollout: Rollout, text: Sentences, ends: Ragged) -> DrawnText | None:
        if not route.entry.rewards:
            return None
        rewards = rewards_of(route.entry, self._candidates(route, text, ends))
        return DrawnText.of(route, rollout, rewards, self.networks)

    def _utility(self, name: str, route: Route, text: Sentences, ends: Ragged, counts: Ints | None = None) -> Floats:
        return UTILITIES.find(name)(self._candidates(route, text, ends, counts))

    def _candidates(self, route: Route, text: Sentences, ends: Ragged, counts: Ints | None = None) -> Candidates:
        hop = Hop(*route.path.languages[-2:])
        real = Sentences(self.networks.vocab, hop.target, ids=ends)
        timeout = self.text_filter.context.guards.timeout
        counts = np.ones(len(ends), dtype=np.int64) if counts is None else counts
        return Candidates(self.networks, hop, text, real, counts, self.limits, timeout)

    def _kept_rows(self, route: Route, text: RealText, found: GeneratedText, number: int) -> NewRows:
        """The rows of a generating route that filters keep."""
        kept = _highest(found.values, np.flatnonzero(found.keep), route.entry.keep)
        groups, generated = self._groups(route, text)[kept], found.text.take(kept)
        targets = self._sampled_targets(route, text.ends.take(kept), groups, number)
        sides = (targets, generated) if route.path.backward else (self._noisy(route, generated, number), targets)
        return self._trainable(route, PathRows(route.path, route.entry, *sides, groups, generated, found.scores[kept]))

    def _rewarded_rows(self, route: Route, found: Mapping[int, GeneratedText], demand: Demand) -> NewRows:
        """The rows of a rewarded hop, at most as many as the round needs."""
        assert route.rollouts_of is not None
        text = found[route.rollouts_of]
        assert text.drawn is not None, "a hop with credit has a reward"
        rows = self._trainable(route, text.drawn.path_rows(route, text.keep))
        return rows.take(np.arange(min(len(rows.rows), demand.room(route))))

    def _noisy(self, route: Route, sources: Ragged, number: int) -> Ragged:
        if route.entry.noise is None:
            return sources
        key = (*self.key, number, *self._names[route.number], "source")
        return self.noise(sources, route.path.taught.source, route.entry.noise, *key)

    def _real_rows(self, route: Route, text: RealText, number: int) -> NewRows:
        key = (*self.key, number, *self._names[route.number], "source")
        sources, groups = self.subword_dropout(text.starts, route.path.ends[0], *key), self._groups(route, text)
        targets = self._sampled_targets(route, text.ends, groups, number)
        scores = np.zeros(len(text))
        return self._trainable(route, PathRows(route.path, route.entry, sources, targets, groups, None, scores))

    def _groups(self, route: Route, text: RealText) -> Ints:
        """The number of each row's real sentence, unique in the stage; -1 if no objective groups rows."""
        if not self.setup.groups(route):
            return np.full(len(text), -1, dtype=np.int64)
        sentences = text.position + np.arange(len(text)) // route.entry.samples
        return sentences * len(self.routes) + self.setup.first_joined(route).number

    def _trainable(self, route: Route, seen: PathRows) -> NewRows:
        """Training rows in the network's tokens, without those longer than the longest batch shape."""
        hop, vocab = route.taught, self.networks.vocab
        marked = route.entry.tag and route.synthetic and route.rollouts_of is None
        sources = self.networks.source_rows(Sentences(vocab, hop.source, ids=seen.sources), hop, synthetic=marked)
        targets = self.networks.target_rows(Sentences(vocab, hop.target, ids=seen.targets), hop)
        rows = Rows.of(sources, targets, np.full(len(sources), route.number, dtype=np.int64), seen.groups)
        if seen.drawn is not None:
            rows = replace(rows, scores=seen.scores.astype(np.float32))
        fit = rows.lengths <= self.setup.shapes[-1].length
        return NewRows(seen, rows) if fit.all() else NewRows(seen, rows).take(np.flatnonzero(fit))

    def _weighted(self, new: Mapping[int, NewRows]) -> dict[int, Rows]:
        """New rows with the loss factors of objectives."""
        rows = {number: one.rows for number, one in new.items()}
        for objective in self.objectives:
            factors = objective.round_factors([one.path_rows for one in new.values()])
            for number, own in zip(new, factors or [], strict=factors is not None):
                rows[number] = replace(rows[number], factors=rows[number].factors * own.astype(np.float32))
        return rows

    def _sampled_targets(self, route: Route, targets: Ragged, groups: Ints, number: int) -> Ragged:
        """Targets with subword dropout; the samples of a group get the same segmentation."""
        key = (*self.key, number, *self._names[route.number], "target")
        if not self.setup.groups(route):
            return self.subword_dropout(targets, route.path.ends[1], *key)
        _, firsts, places = np.unique(groups, return_index=True, return_inverse=True)
        return self.subword_dropout(targets.take(firsts), route.path.ends[1], *key).take(places)

    def _mixed(self, demand: Demand, waiting: Mapping[int, Rows], new: Mapping[int, Rows]) -> list[Rows]:
        """Rows of every network: in each queue waiting rows, then new ones; queues are interleaved by token share."""
        new_by_queue: dict[int, list[Rows]] = {}
        for route, rows in new.items():
            new_by_queue.setdefault(self._queues[route], []).append(rows)
        parts: list[list[Rows]] = [[] for _ in range(self.networks.num_networks)]
        shares: list[list[float]] = [[] for _ in parts]
        for number, queue in demand.held.items():
            own = new_by_queue.get(number, [])
            rows = Rows.join([waiting.get(number, Rows.empty()), interleave(own, [1.0] * len(own))])
            if len(rows):
                parts[self.networks.network(queue.taught)].append(rows)
                shares[self.networks.network(queue.taught)].append(queue.share)
        return [interleave(*both) for both in zip(parts, shares, strict=True)]


@dataclass(frozen=True)
class GeneratedText:
    """The text generated along a route."""

    text: Ragged
    keep: Mask  # rows that no filter drops
    values: Floats  # for `keep`
    scores: Floats  # log-probabilities
    drawn: DrawnText | None = None  # if it is rewarded

    @classmethod
    def in_order(cls, parts: Sequence[GeneratedText], count: int) -> GeneratedText:
        """Rows of all processes in their original order; process r had the rows r, r + size, ..."""
        ranks = [np.arange(rank, count, len(parts)) for rank in range(len(parts))]
        order = np.argsort(np.concatenate(ranks), kind="stable")
        names = ("keep", "values", "scores")
        keep, values, scores = (np.concatenate([getattr(part, name) for part in parts])[order] for name in names)
        drawn = [part.drawn for part in parts if part.drawn is not None]
        text = Ragged.join([part.text for part in parts]).take(order)
        return cls(text, keep, values, scores, DrawnText.in_order(drawn, order) if drawn else None)


def _rewarded(active: Sequence[Route], found: Mapping[int, GeneratedText]) -> list[Route]:
    """The routes that learn from the rewards of a round's rollouts."""
    return [route for route in active if route.rollouts_of in found]


def _summed(records: Sequence[HopRecord]) -> HopRecord:
    """The sum of all processes' records of one hop."""
    dropped = Counter[str]()
    for record in records:
        dropped.update(record.dropped)
    sums = {
        each.name: sum(getattr(record, each.name) for record in records)
        for each in fields(HopRecord)
        if each.name not in ("hop", "dropped")
    }
    return HopRecord(hop=records[0].hop, dropped=dict(dropped), **sums)


def _highest(values: Floats, numbers: Ints, share: float) -> Ints:
    """The share of the rows `numbers` with the highest values, in order."""
    ranked = np.argsort(-values[numbers], kind="stable") if share < 1 else np.arange(len(numbers))
    return np.sort(numbers[ranked[: math.ceil(share * len(numbers))]])
