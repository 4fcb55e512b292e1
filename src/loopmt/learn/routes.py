"""The routes of a stage (the paths of its mix), and the fixed setup of a stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from loopmt.config import Generate, Guards, MixEntry, Train
from loopmt.distributed import Processes
from loopmt.learn.objectives import Objective
from loopmt.path import Hop, LanguagePath
from loopmt.text.batch import BatchShape
from loopmt.translate.protocol import TrainableModel

Key = tuple[str | int, ...]


@dataclass(frozen=True)
class Route:
    """A path of a stage's mix with the settings of its entry."""

    number: int
    path: LanguagePath
    entry: MixEntry
    entry_number: int

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


def largest_group(routes: Sequence[Route], objectives: Sequence[Objective]) -> int:
    """The most samples of a real sentence that an objective needs in one batch."""
    entries = [route.entry for route in one_by_entry(routes)]
    grouped = [entry for entry in entries if any(objective.groups(entry) for objective in objectives)]
    return max((entry.samples for entry in grouped), default=1)


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
        totals[route.path.taught] = totals.get(route.path.taught, 0.0) + weights[route.number]
    return {route.number: weights[route.number] / totals[route.path.taught] for route in routes}
