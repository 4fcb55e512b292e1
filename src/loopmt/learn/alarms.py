"""Watches over generators: what they offered, what was dropped and why, and when that is a collapse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from loopmt.learn.routes import Route
from loopmt.translate.walker import HopRecord

_FEWEST = 64  # rows offered before a hop is judged
_MOST_DROPPED = 0.5
_MOST_COPIES = 0.2
_FEWEST_DISTINCT = 0.3


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

    def add(self, record: HopRecord | HopCounts) -> None:
        self.offered += record.offered
        for reason, count in record.dropped.items():
            self.dropped[reason] = self.dropped.get(reason, 0) + count
        self.offered_tokens += record.offered_tokens
        self.kept_tokens += record.kept_tokens
        self.distinct_inputs += record.distinct_inputs
        self.distinct += record.distinct
        self.copies += record.copies


@dataclass(frozen=True)
class Alarm:
    route: int
    path: str
    hop: str
    what: str

    def __str__(self) -> str:
        return f"path {self.path}, hop {self.hop}: {self.what}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class AlarmMonitor:
    """Adds up what hops report and raises alarms."""

    def __init__(self, routes: Sequence[Route], state: Mapping[str, Sequence[dict[str, Any]]] | None = None) -> None:
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
        judged = [watch for watch in self.unjudged.values() if watch.offered >= _FEWEST]
        self.unjudged = {key: watch for key, watch in self.unjudged.items() if watch.offered < _FEWEST}
        return [Alarm(watch.route, watch.path, watch.hop, what) for watch in judged if (what := _problem(watch))]

    def forget(self, routes: Iterable[int]) -> None:
        gone = set(routes)
        self.watches = {key: watch for key, watch in self.watches.items() if key[0] not in gone}
        self.unjudged = {key: watch for key, watch in self.unjudged.items() if key[0] not in gone}


def _by_place(watches: Sequence[dict[str, Any]]) -> dict[tuple[int, int], HopCounts]:
    return {(watch["route"], watch["place"]): HopCounts(**watch) for watch in watches}


def _problem(watch: HopCounts) -> str | None:
    dropped = sum(watch.dropped.values()) / watch.offered
    copies, distinct = watch.copies / watch.offered, watch.distinct / max(watch.distinct_inputs, 1)
    if copies > _MOST_COPIES:
        return f"{copies:.0%} of what it says copies its input"
    if dropped > _MOST_DROPPED:
        worst = max(watch.dropped, key=lambda reason: watch.dropped[reason])
        return f"{dropped:.0%} of what it says is dropped, most for: {worst}"
    if distinct < _FEWEST_DISTINCT:
        return f"it says only {distinct:.0%} as many distinct sentences as it reads"
    return None
