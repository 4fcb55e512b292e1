"""The paths of a stage's mix, and all that gathering, learning and the trainer need to know about the stage."""

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
    """One path of a stage's mix, with the settings of its entry."""

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
    """What is fixed from the first update of a stage to its last."""

    routes: Sequence[Route]
    networks: TrainableModel
    train: Train
    shapes: Sequence[BatchShape]
    processes: Processes
    key: Key  # of all random numbers of the stage
    objectives: Sequence[Objective] = ()
    updates: int | None = None  # the budget; None: until patience ends
    measure_every: int = 1  # rounds between two choices of the weights, where they are chosen by measuring
    guards: Guards = field(default_factory=Guards)

    @property
    def largest_group(self) -> int:
        return largest_group(self.routes, self.objectives)

    def groups(self, route: Route) -> bool:
        """Whether the samples of a real sentence must meet in one batch."""
        return any(objective.groups(route.entry) for objective in self.objectives)


def largest_group(routes: Sequence[Route], objectives: Sequence[Objective]) -> int:
    """How many samples of a real sentence an objective needs in one batch, at most."""
    entries = [route.entry for route in one_by_entry(routes)]
    grouped = [entry for entry in entries if any(objective.groups(entry) for objective in objectives)]
    return max((entry.samples for entry in grouped), default=1)


def one_by_entry(routes: Sequence[Route]) -> Iterable[Route]:
    """One of the routes for each entry of the mix: the others have its settings."""
    return {route.entry_number: route for route in routes}.values()


def one_by_ends(routes: Sequence[Route]) -> Iterable[Route]:
    """One of the routes for each pair of ends: what depends on the ends alone need not be found for every route."""
    return {route.path.ends: route for route in routes}.values()


def route_keys(routes: Sequence[Route]) -> dict[int, Key]:
    """What a route's draws are keyed by: its path, and how many routes before it have the same."""
    seen = Counter[LanguagePath]()
    keys: dict[int, Key] = {}
    for route in routes:
        keys[route.number] = (str(route.path), seen[route.path]) if seen[route.path] else (str(route.path),)
        seen[route.path] += 1
    return keys


def token_shares(routes: Sequence[Route], weights: Mapping[int, float]) -> dict[int, float]:
    """Each route's share of the tokens of the direction it teaches."""
    totals: dict[Hop, float] = {}
    for route in routes:
        totals[route.path.taught] = totals.get(route.path.taught, 0.0) + weights[route.number]
    return {route.number: weights[route.number] / totals[route.path.taught] for route in routes}
