"""Tables of stages and of gains: a row for each stage or comparison, a column for each thing measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from benchmarks.pages.cells import grid, interval, points, span
from benchmarks.pages.raw import gain, over_pivot, records, score

SETS = ("test", "test-long", "newstest2011", "flores-dev")
POOR = ("fr>es", "es>fr")
WITH_ENGLISH = ("en>fr", "en>es", "fr>en", "es>en")


@dataclass(frozen=True)
class Stage:
    """A stage of a scorecard, and what the table calls it."""

    card: str
    name: str
    note: str = ""

    @property
    def label(self) -> str:
        return f"{self.name}, {self.note}" if self.note else self.name


@dataclass(frozen=True)
class Pair:
    """A comparison of a scorecard; against `pivot-decoding`: direct translators over decoding through English."""

    card: str
    of: str
    against: str
    note: str = ""

    @property
    def label(self) -> str:
        against = "decoding through English" if self.against == "pivot-decoding" else self.against
        return f"{self.of} over {against}{f', {self.note}' if self.note else ''}"


Row = TypeVar("Row")
StageColumn = tuple[str, Callable[[Stage], str]]
PairColumn = tuple[str, Callable[[Pair], str]]


def stages(columns: Sequence[StageColumn], rows: Sequence[Stage]) -> str:
    return grid(["stage", *(head for head, _ in columns)], ([row.label, *_cells(columns, row)] for row in rows))


def gains(columns: Sequence[PairColumn], rows: Sequence[Pair]) -> str:
    return grid(["gain", *(head for head, _ in columns)], ([row.label, *_cells(columns, row)] for row in rows))


def _cells(columns: Sequence[tuple[str, Callable[[Row], str]]], row: Row) -> Iterator[str]:
    return (cell(row) for _, cell in columns)


def of(name: str, *stages: str, note: str = "") -> list[Stage]:
    return [Stage(name, stage, note) for stage in stages]


def over(name: str, *pairs: str, note: str = "") -> list[Pair]:
    """Pairs written `of/against`."""
    return [Pair(name, of, against, note) for of, _, against in (pair.partition("/") for pair in pairs)]


def updates() -> StageColumn:
    """Of one network, in this stage alone; of several seeds, each."""

    def cell(row: Stage) -> str:
        found = [one["scorecard"]["stages"][row.name]["update"] for one in records(row.card)]
        return f"{found[0]:,}" if len(set(found)) == 1 else ", ".join(f"{update:,}" for update in found)

    return "updates", cell


def seconds() -> StageColumn:
    """By the clock, beside the other trainings on the device."""
    return "seconds", lambda row: span([one["stages"][row.name]["seconds"] for one in records(row.card)])


def mean(test: str) -> StageColumn:
    return test, lambda row: points(score(row.card, row.name, test))


def means(*tests: str) -> list[StageColumn]:
    return [mean(test) for test in tests or SETS]


def direction(head: str, test: str, *paths: str) -> StageColumn:
    """The mean of some directions, or of ways through others."""

    def cell(row: Stage) -> str:
        found = [score(row.card, row.name, test, path) for path in paths]
        known = [one for one in found if one is not None]
        return points(fmean(known) if len(known) == len(found) else None)

    return head, cell


def gain_of(head: str, test: str, path: str | None = None, metric: str = "multi_bleu") -> PairColumn:
    def cell(row: Pair) -> str:
        if row.against != "pivot-decoding":
            return interval(gain(row.card, row.of, row.against, test, path, metric))
        return interval(over_pivot(row.card, row.of, test, (path or "").replace(">", ">en>"), metric))

    return head, cell


def gain_means(*tests: str) -> list[PairColumn]:
    return [gain_of(test, test) for test in tests or SETS]


def poor_gains(rows: Sequence[Pair], metric: str = "multi_bleu") -> str:
    """Comparisons in both directions of the poor pair, on every test set."""
    lines = [
        [row.label, hop, *(cell(row) for _, cell in (gain_of(test, test, hop, metric) for test in SETS))]
        for row in rows
        for hop in POOR
    ]
    return grid(["gain", "direction", *SETS], lines)
