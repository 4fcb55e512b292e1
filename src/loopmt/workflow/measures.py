"""Measurements of stages on test sets, and comparisons of two systems on the same sentences."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean

from loopmt.evaluation.bootstrap import Statistics, bootstrap_difference
from loopmt.evaluation.outputs import OutputStatistics
from loopmt.path import Hop, LanguagePath
from loopmt.run import Json

Measures = dict[str, Statistics]  # by metric
BySeed = Mapping[int, Mapping["TestPath", Measures]]


@dataclass(frozen=True)
class TestPath:
    """A direct or pivot path of a test set; tests of a group have the same rows."""

    name: str
    path: LanguagePath
    group: str

    @property
    def ends(self) -> Hop:
        return Hop(*self.path.ends)

    @property
    def direct(self) -> bool:
        """Whether it is a direction. Pivot paths count in no mean and in no comparison of stages."""
        return len(self.path.hops) == 1


@dataclass(frozen=True)
class StageMeasures:
    """The scores of a stage's translations, and its training budget."""

    tests: dict[TestPath, Measures]
    digest: str
    state: Json
    outputs: Mapping[TestPath, OutputStatistics] = field(default_factory=dict)
    """Lengths and repetitions of direct translations."""


@dataclass(frozen=True)
class RunMeasures:
    seed: int
    stages: dict[str, StageMeasures]

    def only(self, names: Collection[str]) -> RunMeasures:
        return RunMeasures(self.seed, {name: stage for name, stage in self.stages.items() if name in names})


@dataclass(frozen=True)
class PairedTest:
    """A stage and its control on one test with one seed; or a pivot path and the direct one."""

    test: TestPath
    seed: int
    of: Measures
    against: Measures


def over_direct(pivots: Sequence[TestPath], by_seed: BySeed) -> list[PairedTest]:
    """Pivot paths compared with the direct translator of the same stage, where it has one.

    They are matched by name and path: built-in languages draw other rows for every seed, so groups differ.
    """
    return [
        paired_test
        for seed, tests in by_seed.items()
        for pivot in pivots
        if (paired_test := _with_direct(pivot, seed, tests))
    ]


def _with_direct(pivot: TestPath, seed: int, tests: Mapping[TestPath, Measures]) -> PairedTest | None:
    by_path = {test.path: test for test in tests if test.name == pivot.name}
    way, direct = by_path.get(pivot.path), by_path.get(LanguagePath(pivot.path.ends))
    return PairedTest(way, seed, tests[way], tests[direct]) if way and direct else None


def differences(paired: Sequence[PairedTest], samples: int) -> Json:
    """By metric: the mean difference over the pairs, its interval, and the score of each side."""
    found = {}
    for metric in paired[0].of:
        systems, controls = (
            [paired_test.of[metric] for paired_test in paired],
            [paired_test.against[metric] for paired_test in paired],
        )
        groups, seeds = [paired_test.test.group for paired_test in paired], [paired_test.seed for paired_test in paired]
        interval = bootstrap_difference(systems, controls, samples=samples, groups=groups, seeds=seeds)
        found[metric] = {"of": average(systems), "against": average(controls), **asdict(interval)}
    return found


def average(measures: Sequence[Statistics]) -> float:
    return fmean(statistics.score() for statistics in measures)
