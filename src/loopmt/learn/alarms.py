"""Watches over generators: what they offered, what was dropped and why, and when that is a collapse."""

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
    """Sums of one hop of one path since the last line of the log."""

    path: str
    hop: str
    route: int
    place: int  # which hop of the path
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
    """Says what is wrong with the counts of a hop; None if nothing is."""

    name: str
    function: Callable[[HopCounts, Guards], str | None]

    def problem(self, counts: HopCounts, guards: Guards) -> str | None:
        found = self.function(counts, guards)
        if found is not None and not isinstance(found, str):
            raise ExternalError(
                f'alarm "{self.name}" returned {found!r:.80}. Return what is wrong as a string, or None if nothing is.'
            )
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
    """Of generated text and of validation outputs."""
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
    judged = {hop: one for hop, one in outputs.items() if one.sentences >= guards.fewest_rows}
    problems = {hop: repetition_problem(one.repetitive, guards) for hop, one in judged.items()}
    return [Alarm(-1, VALIDATION, hop, what) for hop, what in problems.items() if what]


class AlarmMonitor:
    """Adds up what hops report and raises alarms."""

    def __init__(
        self,
        routes: Sequence[Route],
        state: Mapping[str, Sequence[dict[str, Any]]] | None = None,
        guards: Guards = DEFAULT_GUARDS,
    ) -> None:
        self.guards = guards
        self.rules = [ALARMS.find(name) for name in guards.alarms]
        self.routes = {route.number: route for route in routes}
        self.watches = _by_place((state or {}).get("window", ()))
        self.unjudged = _by_place((state or {}).get("unjudged", ()))  # closed windows with too few rows to judge

    def add(self, records: Iterable[tuple[int, HopRecord]]) -> None:
        places: dict[int, int] = {}
        for route, record in records:
            place = places.get(route, 0)
            places[route] = place + 1
            path = str(self.routes[route].path)
            self.watches.setdefault((route, place), HopCounts(path, str(record.hop), route, place)).add(record)

    def state(self) -> dict[str, list[dict[str, Any]]]:
        """What a checkpoint needs to go on watching."""
        watches = {"window": self.watches, "unjudged": self.unjudged}
        return {name: [asdict(watch) for watch in found.values()] for name, found in watches.items()}

    def window(self) -> list[HopCounts]:
        """What was watched since the last call."""
        closed, self.watches = self.watches, {}
        for key, watch in closed.items():
            self.unjudged.setdefault(key, HopCounts(watch.path, watch.hop, watch.route, watch.place)).add(watch)
        return list(closed.values())

    def alarms(self) -> list[Alarm]:
        """Alarms of the windows that were closed, each raised once."""
        fewest = self.guards.fewest_rows
        judged = [watch for watch in self.unjudged.values() if watch.offered >= fewest]
        self.unjudged = {key: watch for key, watch in self.unjudged.items() if watch.offered < fewest}
        return [Alarm(watch.route, watch.path, watch.hop, what) for watch in judged if (what := self._problem(watch))]

    def _problem(self, watch: HopCounts) -> str | None:
        """The first sign of a collapse."""
        return next((what for rule in self.rules if (what := rule.problem(watch, self.guards))), None)

    def forget(self, routes: Iterable[int]) -> None:
        gone = set(routes)
        self.watches = {key: watch for key, watch in self.watches.items() if key[0] not in gone}
        self.unjudged = {key: watch for key, watch in self.unjudged.items() if key[0] not in gone}


def _by_place(watches: Sequence[dict[str, Any]]) -> dict[tuple[int, int], HopCounts]:
    return {(watch["route"], watch["place"]): HopCounts(**watch) for watch in watches}
