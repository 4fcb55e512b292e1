"""The routes of a stage (the paths of its mix), and the fixed setup of a stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from loopmt.config import Generate, Guards, MixEntry, Train
from loopmt.distributed import Processes
from loopmt.learn.objectives import Objective
from loopmt.path import Hop, LanguagePath, Pattern
from loopmt.text.batch import BatchShape
from loopmt.translate.protocol import TrainableModel

Key = tuple[str | int, ...]
REWARDED = " rewards "
"""Separates, in the name of a route, the path from the generating hop that learns from its reward."""


@dataclass(frozen=True)
class Route:
    """A path of a stage's mix with the settings of its entry."""

    number: int
    path: LanguagePath
    entry: MixEntry
    entry_number: int
    rollouts_of: int | None = None  # the route whose rollouts a rewarded hop learns from; None: a route of its own
    rewarded: int = -1  # the number of that hop

    def __str__(self) -> str:
        """Its name in logs and in the ledger."""
        return str(self.path) if self.rollouts_of is None else f"{self.path}{REWARDED}{self.taught}"

    @property
    def taught(self) -> Hop:
        return self.path.hops[self.rewarded]

    @property
    def stream(self) -> Key:
        """The key of real sentences that routes with `same_rows` share: their ends and the taught direction."""
        return *self.path.ends, str(self.taught)

    @property
    def drawn(self) -> tuple[Hop, Generate] | None:
        """The hop and the settings that draw the targets, if the route is that of a rewarded hop."""
        if self.rollouts_of is None:
            return None
        return self.taught, self.settings[self.rewarded].model_copy(update={"by": "live"})

    def rewards(self, numbers: Iterator[int]) -> list[Route]:
        """The routes of the hops that learn from the rewards of this route's rollouts."""
        hops = self.entry.rewarded_hops(len(self.path.generating))
        return [replace(self, number=next(numbers), rollouts_of=self.number, rewarded=hop) for hop in hops]

    @property
    def settings(self) -> list[Generate]:
        return self.entry.hop_settings(len(self.path.generating))

    @property
    def synthetic(self) -> bool:
        return bool(self.path.generating)


@dataclass(frozen=True)
class StageSetup:
    """Everything that stays fixed during a stage."""

    routes: Sequence[Route]
    networks: TrainableModel
    train: Train
    shapes: Sequence[BatchShape]
    processes: Processes
    key: Key  # of all random numbers of the stage
    objectives: Sequence[Objective] = ()
    updates: int | None = None  # the budget; None: until validation stops improving
    measure_every: int = 1  # rounds between two choices of the weights, for `mix = "auto"`
    guards: Guards = field(default_factory=Guards)

    @property
    def largest_group(self) -> int:
        return largest_group(self.routes, self.objectives)

    def groups(self, route: Route) -> bool:
        """Whether the samples of a real sentence must be in one batch."""
        return any(objective.groups(route.entry) for objective in self.objectives)

    @cached_property
    def joined(self) -> dict[Key, list[Route]]:
        return joined_routes(self.routes, self.objectives)

    def first_joined(self, route: Route) -> Route:
        """The first of the routes that must have their rows of a real sentence in one batch with this route's."""
        group = self.joined.get(route.stream, [])
        return group[0] if route in group else route


def largest_group(routes: Sequence[Route], objectives: Sequence[Objective]) -> int:
    """The largest number of rows of one real sentence that an objective needs in one batch."""
    entries = [route.entry for route in one_by_entry(routes)]
    grouped = [entry.samples for entry in entries if any(objective.groups(entry) for objective in objectives)]
    joined = joined_routes(routes, objectives).values()
    return max([1, *grouped, *(sum(route.entry.samples for route in group) for group in joined)])


def joined_routes(routes: Sequence[Route], objectives: Sequence[Objective]) -> dict[Key, list[Route]]:
    """The routes whose rows of a real sentence must be in one batch, grouped by shared text."""
    entries = [route for route in one_by_entry(routes) if route.entry.same_rows]
    joining = {one.entry_number for one in entries if any(objective.joins(one.entry) for objective in objectives)}
    found: dict[Key, list[Route]] = {}
    for route in own_routes(routes) if joining else ():
        if route.entry_number in joining:
            found.setdefault(route.stream, []).append(route)
    return found


def own_routes(routes: Sequence[Route]) -> list[Route]:
    """Routes that read text; those of rewarded hops learn from the rollouts of others."""
    return [route for route in routes if route.rollouts_of is None]


def taught_by(name: str) -> Hop:
    """The direction that a route teaches, by its name."""
    path, rewards, hop = name.partition(REWARDED)
    return LanguagePath.parse(hop).hops[0] if rewards else path_of(path).taught


def path_of(name: str) -> LanguagePath:
    """The path of a route, by its name."""
    pattern = Pattern.parse(name.partition(REWARDED)[0])
    return LanguagePath(pattern.places, pattern.backward)


def one_by_entry(routes: Sequence[Route]) -> Iterable[Route]:
    """One route for each entry of the mix."""
    return {route.entry_number: route for route in routes}.values()


def one_by_ends(routes: Sequence[Route]) -> Iterable[Route]:
    """One route for each pair of ends, to compute what depends only on the ends."""
    return {route.path.ends: route for route in routes}.values()


def route_keys(routes: Sequence[Route]) -> dict[int, Key]:
    """The random keys of routes: the path, and the number of earlier routes with the same path."""
    seen = Counter[LanguagePath]()
    keys: dict[int, Key] = {}
    for route in routes:
        keys[route.number] = (str(route.path), seen[route.path]) if seen[route.path] else (str(route.path),)
        seen[route.path] += 1
    return keys


def token_shares(routes: Sequence[Route], weights: Mapping[int, float]) -> dict[int, float]:
    """Each route's share of the tokens of the direction that it teaches."""
    totals: dict[Hop, float] = {}
    for route in routes:
        totals[route.taught] = totals.get(route.taught, 0.0) + weights[route.number]
    return {route.number: weights[route.number] / totals[route.taught] for route in routes}
