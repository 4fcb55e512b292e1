"""From measures to a scorecard: scores by stage, test set and direction; comparisons with their intervals.

Every score has a signature, the interval of a comparison is a paired bootstrap over the rows of the test sets, joint
over directions, and over seeds where several runs of one experiment are judged together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any, TypeVar

from loopmt.config import Compare, Experiment, compared_directions, setting_differences, tuned
from loopmt.evaluation.bootstrap import Statistics, bootstrap_difference
from loopmt.evaluation.choice import first_metric
from loopmt.evaluation.metric import Metric
from loopmt.path import Hop, LanguagePath
from loopmt.run import Json, result_bleu
from loopmt.workflow.budgets import budget_of, unequal_tokens

_VERSION = 1
Measures = dict[str, Statistics]  # by metric
Key = TypeVar("Key")


@dataclass(frozen=True)
class TestPath:
    """One way through the languages of a test set; tests of a group have the same rows."""

    name: str
    path: LanguagePath
    group: str

    @property
    def ends(self) -> Hop:
        return Hop(*self.path.ends)

    @property
    def direct(self) -> bool:
        """Else it leads through other languages: a matter of its own, in no mean and in no comparison of stages."""
        return len(self.path.hops) == 1


@dataclass(frozen=True)
class StageMeasures:
    """What a stage's translations are worth, and what it took to train it."""

    tests: dict[TestPath, Measures]
    digest: str
    state: Json


@dataclass(frozen=True)
class RunMeasures:
    seed: int
    stages: dict[str, StageMeasures]

    def only(self, names: Collection[str]) -> RunMeasures:
        return RunMeasures(self.seed, {name: stage for name, stage in self.stages.items() if name in names})


def scorecard(
    experiment: Experiment, measures: RunMeasures, beam: int, samples: int, metrics: Sequence[Metric] = ()
) -> Json:
    """One run. Without `metrics`, those that were measured are registered ones."""
    return {
        "version": _VERSION,
        "experiment": experiment.name,
        "languages": experiment.languages,
        "seeds": [measures.seed],
        "beam": beam,
        "stages": {name: _stage(stage, measures.seed, samples) for name, stage in measures.stages.items()},
        "comparisons": _comparisons(experiment, [measures], samples),
        "waiting": _waiting(experiment, [measures]),
        **({"metrics": [asdict(one.facts) for one in metrics]} if metrics else {}),
        "signatures": _signatures(measures),
    }


def over_seeds(experiment: Experiment, runs: Sequence[RunMeasures], cards: Sequence[Json], samples: int) -> Json:
    """Several runs of one experiment: means and deviations over seeds, and comparisons joint over them."""
    measured = _measured(runs)
    common = [name for name in cards[0]["stages"] if name in measured]
    return {
        **cards[0],
        "seeds": [run.seed for run in runs],
        "stages": {name: _stage_over_seeds(name, runs, cards, samples) for name in common},
        "comparisons": _comparisons(experiment, runs, samples),
        "waiting": _waiting(experiment, runs),
    }


def _stage(stage: StageMeasures, seed: int, samples: int) -> Json:
    names = dict.fromkeys(test.name for test in stage.tests)
    state = stage.state
    return {
        "result": stage.digest,
        "update": state["update"],
        "valid_bleu": result_bleu(state),
        "seconds": state["seconds"],
        "spent": state["spent"],
        "sets": {name: _set(stage, name, seed, samples) for name in names},
        "mean": _mean([_scores(measures) for test, measures in stage.tests.items() if test.direct]),
    }


def _set(stage: StageMeasures, name: str, seed: int, samples: int) -> Json:
    mine = {test: measures for test, measures in stage.tests.items() if test.name == name}
    directions = {str(test.path): _counted(measures) for test, measures in mine.items() if test.direct}
    pivots = {
        str(test.path): {**_counted(measures), **_over_direct(test, {seed: mine}, samples)}
        for test, measures in mine.items()
        if not test.direct
    }
    found = {"directions": directions, "mean": _mean(list(directions.values()), skip=("sentences",))}
    return {**found, "pivots": pivots} if pivots else found


def _over_direct(pivot: TestPath, by_seed: Mapping[int, Mapping[TestPath, Measures]], samples: int) -> Json:
    """A way through other languages set against the direct translator of the same stage, if it has one."""
    paired = [paired_test for seed, tests in by_seed.items() if (paired_test := _with_direct(pivot, seed, tests))]
    return {"over_direct": _differences(paired, samples)} if paired else {}


def _with_direct(pivot: TestPath, seed: int, tests: Mapping[TestPath, Measures]) -> PairedTest | None:
    """Found by name and path: built-in languages draw other rows for every seed, so the groups differ between seeds."""
    by_path = {test.path: test for test in tests if test.name == pivot.name}
    way, direct = by_path[pivot.path], by_path.get(LanguagePath(pivot.path.ends))
    return PairedTest(way, seed, tests[way], tests[direct]) if direct else None


def _counted(measures: Measures) -> dict[str, float]:
    return {"sentences": len(next(iter(measures.values())).rows), **_scores(measures)}


def _scores(measures: Measures) -> dict[str, float]:
    return {metric: statistics.score() for metric, statistics in measures.items()}


def _mean(scores: Sequence[Mapping[str, Any]], skip: Collection[str] = ()) -> dict[str, float]:
    metrics = [metric for metric in scores[0] if metric not in skip] if scores else []
    return {metric: fmean(one[metric] for one in scores) for metric in metrics}


def _signatures(measures: RunMeasures) -> Json:
    """By metric and language translated into."""
    found: dict[str, dict[str, str]] = {}
    for stage in measures.stages.values():
        for test, metrics in stage.tests.items():
            for metric, statistics in metrics.items():
                found.setdefault(metric, {})[test.ends.target] = statistics.signature
    return found


def _stage_over_seeds(name: str, runs: Sequence[RunMeasures], cards: Sequence[Json], samples: int) -> Json:
    stages = [card["stages"][name] for card in cards]
    by_seed = {run.seed: run.stages[name].tests for run in runs}
    pivots = [test for test in next(iter(by_seed.values())) if not test.direct]
    sets = {test_set: _set_over_seeds([stage["sets"][test_set] for stage in stages]) for test_set in stages[0]["sets"]}
    for pivot in pivots:
        sets[pivot.name]["pivots"][str(pivot.path)].update(_over_direct(pivot, by_seed, samples))
    return {
        "sets": sets,
        "mean": _mean([stage["mean"] for stage in stages]),
        "deviation": {metric: stdev(stage["mean"][metric] for stage in stages) for metric in stages[0]["mean"]},
    }


def _set_over_seeds(sets: Sequence[Json]) -> Json:
    directions = {hop: _mean([one["directions"][hop] for one in sets]) for hop in sets[0]["directions"]}
    found = {"directions": directions, "mean": _mean([one["mean"] for one in sets])}
    ways = [one.get("pivots", {}) for one in sets]
    pivots = {path: _mean([way[path] for way in ways], skip=("over_direct",)) for path in ways[0]}
    return {**found, "pivots": pivots} if pivots else found


# -- what stages share -----------------------------------------------------------------------------------------


def tested(stage: Json) -> dict[tuple[str, str], Json]:
    """A stage's scores by test set and direction."""
    return {(name, hop): scores for name, one in stage["sets"].items() for hop, scores in one["directions"].items()}


def shared(judged: Sequence[Mapping[Key, Json]]) -> list[Key] | None:
    """What all stages were judged on; None where that is all there is, and their means can stand side by side."""
    some = [one for one in judged if one]
    common = [key for key in some[0] if all(key in one for one in some)] if some else []
    return None if all(len(one) == len(common) for one in some) else common


def mean_over(scores: Mapping[Key, Json], keys: Sequence[Key]) -> dict[str, float]:
    """A stage's mean over what it shares with others; empty where it was not judged on that."""
    return _mean([scores[key] for key in keys if key in scores], skip=("sentences",))


def setbacks(card: Json) -> dict[str, str]:
    """The stages that are worse than their control by the first metric, beyond chance, each with its control."""
    first = first_metric(card)
    return {one["of"]: one["against"] for one in card["comparisons"] if first.gain(one["joint"][first.name]) < 0}


# -- comparisons -----------------------------------------------------------------------------------------------


def _comparisons(experiment: Experiment, runs: Sequence[RunMeasures], samples: int) -> list[Json]:
    """Those whose two stages are measured in every run, on a direction that can be compared."""
    measured = _measured(runs)
    ready = [compare for compare in experiment.compare if {compare.of, compare.against} <= measured]
    return [
        _comparison(experiment, compare, runs, paired, samples)
        for compare in ready
        if (paired := _duels(experiment, compare, runs))
    ]


def _waiting(experiment: Experiment, runs: Sequence[RunMeasures]) -> list[Json]:
    """The comparisons that cannot be made, the stages they lack, and else why not."""
    measured = _measured(runs)
    lacking = [(compare, {compare.of, compare.against} - measured) for compare in experiment.compare]
    return [
        {"of": one.of, "against": one.against, "lacks": sorted(lacks), "why": _why_not(experiment, one, lacks)}
        for one, lacks in lacking
        if lacks or not _duels(experiment, one, runs)
    ]


def _why_not(experiment: Experiment, compare: Compare, lacks: Collection[str]) -> str:
    if lacks:
        return f"waits for {', '.join(sorted(lacks))}"
    if not compared_directions(experiment, compare).compared:
        return "cannot be compared: there is no direction that both train"
    return "cannot be compared: no test set has a direction that both train"


def _measured(runs: Sequence[RunMeasures]) -> set[str]:
    """The stages that every run has."""
    return set.intersection(*(set(run.stages) for run in runs))


def _comparison(
    experiment: Experiment, compare: Compare, runs: Sequence[RunMeasures], paired: Sequence[PairedTest], samples: int
) -> Json:
    names = dict.fromkeys(paired_test.test.name for paired_test in paired)
    paths = dict.fromkeys(paired_test.test.path for paired_test in paired)

    def differences(chosen: Iterable[PairedTest]) -> Json:
        return _differences(list(chosen), samples)

    return {
        "of": compare.of,
        "against": compare.against,
        "tuned": tuned(experiment, compare),
        **_conditions(experiment, compare, runs),
        "joint": differences(paired),
        "sets": {
            name: {
                "joint": differences(paired_test for paired_test in paired if paired_test.test.name == name),
                "directions": {
                    str(path): differences(found)
                    for path in paths
                    if (
                        found := [
                            paired_test
                            for paired_test in paired
                            if (paired_test.test.name, paired_test.test.path) == (name, path)
                        ]
                    )
                },
            }
            for name in names
        },
    }


@dataclass(frozen=True)
class PairedTest:
    """A stage and its control on one test, with one seed; or a way through other languages and the direct one."""

    test: TestPath
    seed: int
    of: Measures
    against: Measures


def _conditions(experiment: Experiment, compare: Compare, runs: Sequence[RunMeasures]) -> Json:
    """Which directions are compared, what is left out and why, and what both stages were trained with."""
    directions = compared_directions(experiment, compare)
    budget = {
        side: budget_of([run.stages[name].state for run in runs], directions.compared)
        for side, name in (("of", compare.of), ("against", compare.against))
    }
    unlike = [f"they differ in {what}" for what in setting_differences(experiment, compare)]
    return {
        "compared": list(map(str, directions.compared)),
        "excluded": {str(hop): reason for hop, reason in directions.excluded.items()},
        "budget": budget,
        "warnings": [*unequal_tokens(compare.of, compare.against, budget), *unlike],
    }


def _duels(experiment: Experiment, compare: Compare, runs: Sequence[RunMeasures]) -> list[PairedTest]:
    compared = set(compared_directions(experiment, compare).compared)
    stages = [(run.seed, run.stages[compare.of].tests, run.stages[compare.against].tests) for run in runs]
    return [
        PairedTest(test, seed, of[test], against[test])
        for seed, of, against in stages
        for test in of
        if test.direct and test in against and test.ends in compared
    ]


def _differences(paired: Sequence[PairedTest], samples: int) -> Json:
    """By metric: the mean difference over the duels, its interval, and what each side scores."""
    found = {}
    for metric in paired[0].of:
        systems, controls = (
            [paired_test.of[metric] for paired_test in paired],
            [paired_test.against[metric] for paired_test in paired],
        )
        groups, seeds = [paired_test.test.group for paired_test in paired], [paired_test.seed for paired_test in paired]
        interval = bootstrap_difference(systems, controls, samples=samples, groups=groups, seeds=seeds)
        found[metric] = {"of": _average(systems), "against": _average(controls), **asdict(interval)}
    return found


def _average(measures: Sequence[Statistics]) -> float:
    return fmean(statistics.score() for statistics in measures)
