"""Alarms: counts of generated text by hop, and the rules that detect a collapse of a generator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from loopmt.config import Guards
from loopmt.errors import ExternalError
from loopmt.evaluation.outputs import OutputStatistics
from loopmt.learn.routes import Route
from loopmt.registry import Registry
from loopmt.translate.walker import HopRecord

DEFAULT_GUARDS = Guards()


@dataclass
class HopCounts:
    """Counts of the text that one hop of a path generated since the last log record."""

    path: str
    hop: str
    route: int
    place: int  # the index of the hop in the path
    offered: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    offered_tokens: int = 0
    kept_tokens: int = 0
    distinct_inputs: int = 0
    distinct: int = 0
    copies: int = 0
    repetitive: int = 0

    def add(self, record: HopRecord | HopCounts) -> None:
        self.offered += record.offered
        for reason, count in record.dropped.items():
            self.dropped[reason] = self.dropped.get(reason, 0) + count
        self.offered_tokens += record.offered_tokens
        self.kept_tokens += record.kept_tokens
        self.distinct_inputs += record.distinct_inputs
        self.distinct += record.distinct
        self.copies += record.copies
        self.repetitive += record.repetitive


@dataclass(frozen=True)
class AlarmRule:
    """A named function that returns the problem of a hop's counts, or None."""

    name: str
    function: Callable[[HopCounts, Guards], str | None]

    def problem(self, counts: HopCounts, guards: Guards) -> str | None:
        found = self.function(counts, guards)
        if found is not None and not isinstance(found, str):
            raise ExternalError(f'alarm "{self.name}" returned {found!r:.80}. Return the problem as a string, or None.')
        return found


ALARMS: Registry[AlarmRule] = Registry("alarm", AlarmRule)
alarm = ALARMS.register


@alarm("copies")
def _copies(counts: HopCounts, guards: Guards) -> str | None:
    share = counts.copies / counts.offered
    return f"{share:.0%} of the outputs are copies of their input" if share > guards.most_copies else None


@alarm("dropped")
def _dropped(counts: HopCounts, guards: Guards) -> str | None:
    share = sum(counts.dropped.values()) / counts.offered
    if share <= guards.most_dropped:
        return None
    worst = max(counts.dropped, key=lambda reason: counts.dropped[reason])
    return f"{share:.0%} of the outputs are dropped, most by the filter {worst}"


@alarm("distinct")
def _distinct(counts: HopCounts, guards: Guards) -> str | None:
    share = counts.distinct / max(counts.distinct_inputs, 1)
    return f"{share:.0%} as many distinct outputs as inputs" if share < guards.fewest_distinct else None


@alarm("repetition")
def _repetition(counts: HopCounts, guards: Guards) -> str | None:
    return repetition_problem(counts.repetitive / counts.offered, guards)


def repetition_problem(share: float, guards: Guards) -> str | None:
    """The problem of too many repetitive outputs, in training and in validation."""
    return f"{share:.0%} of the outputs repeat themselves" if share > guards.most_repetitive else None


VALIDATION = "validation"


@dataclass(frozen=True)
class Alarm:
    route: int
    path: str  # or `VALIDATION`
    hop: str
    what: str

    def __str__(self) -> str:
        return f"{place_of(self.path)}, hop {self.hop}: {self.what}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def place_of(path: str) -> str:
    return path if path == VALIDATION else f"path {path}"


def validation_alarms(outputs: Mapping[str, OutputStatistics], guards: Guards) -> list[Alarm]:
    """Directions whose validation outputs repeat themselves."""
    if "repetition" not in guards.alarms:
        return []
    checked = {hop: one for hop, one in outputs.items() if one.sentences >= guards.fewest_rows}
    problems = {hop: repetition_problem(one.repetitive, guards) for hop, one in checked.items()}
    return [Alarm(-1, VALIDATION, hop, what) for hop, what in problems.items() if what]


class AlarmMonitor:
    """Sums the records of hops and raises alarms."""

    def __init__(
        self,
        routes: Sequence[Route],
        state: Mapping[str, Sequence[dict[str, Any]]] | None = None,
        guards: Guards = DEFAULT_GUARDS,
    ) -> None:
        self.guards = guards
        self.rules = [ALARMS.find(name) for name in guards.alarms]
        self.routes = {route.number: route for route in routes}
        self.counts = _by_place((state or {}).get("window", ()))
        self.unjudged = _by_place((state or {}).get("unjudged", ()))  # logged counts of too few rows for the rules

    def add(self, records: Iterable[tuple[int, HopRecord]]) -> None:
        places: dict[int, int] = {}
        for route, record in records:
            place = places.get(route, 0)
            places[route] = place + 1
            path = str(self.routes[route].path)
            self.counts.setdefault((route, place), HopCounts(path, str(record.hop), route, place)).add(record)

    def state(self) -> dict[str, list[dict[str, Any]]]:
        """The counts, for a checkpoint."""
        counts = {"window": self.counts, "unjudged": self.unjudged}
        return {name: [asdict(one) for one in found.values()] for name, found in counts.items()}

    def window(self) -> list[HopCounts]:
        """The counts since the last call."""
        closed, self.counts = self.counts, {}
        for key, one in closed.items():
            self.unjudged.setdefault(key, HopCounts(one.path, one.hop, one.route, one.place)).add(one)
        return list(closed.values())

    def alarms(self) -> list[Alarm]:
        """Check logged counts with enough rows; raise each alarm once."""
        fewest = self.guards.fewest_rows
        checked = [one for one in self.unjudged.values() if one.offered >= fewest]
        self.unjudged = {key: one for key, one in self.unjudged.items() if one.offered < fewest}
        return [Alarm(one.route, one.path, one.hop, what) for one in checked if (what := self._problem(one))]

    def _problem(self, counts: HopCounts) -> str | None:
        """The first problem that a rule finds."""
        return next((what for rule in self.rules if (what := rule.problem(counts, self.guards))), None)

    def remove(self, routes: Iterable[int]) -> None:
        """Delete the counts of these routes."""
        removed = set(routes)
        self.counts = {key: one for key, one in self.counts.items() if key[0] not in removed}
        self.unjudged = {key: one for key, one in self.unjudged.items() if key[0] not in removed}


def _by_place(counts: Sequence[dict[str, Any]]) -> dict[tuple[int, int], HopCounts]:
    return {(one["route"], one["place"]): HopCounts(**one) for one in counts}
