"""From measures to a scorecard: scores by stage, test set and direction; comparisons with their intervals.

Every score has a signature, the interval of a comparison is a paired bootstrap over the rows of the test sets, joint
over directions, and over seeds where several runs of one experiment are judged together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import stdev

from loopmt.config import Compare, Experiment, by_reason, compared_directions, setting_differences, tuned
from loopmt.evaluation.choice import first_metric
from loopmt.evaluation.means import mean_scores
from loopmt.evaluation.metric import Metric, MetricFacts
from loopmt.evaluation.outputs import OutputStatistics
from loopmt.path import Hop, LanguagePath
from loopmt.run import Json, result_bleu
from loopmt.workflow.budgets import budget_of, unequal_seconds, unequal_tokens
from loopmt.workflow.measures import (
    BySeed,
    Measures,
    PairedTest,
    RunMeasures,
    StageMeasures,
    TestPath,
    differences,
    over_direct,
)
from loopmt.workflow.routes import compared_routes

_VERSION = 1


def scorecard(
    experiment: Experiment, measures: RunMeasures, beam: int, samples: int, metrics: Sequence[Metric] = ()
) -> Json:
    """The scorecard of one run. Without `metrics`, the measured ones are registered."""
    described = {"metrics": [asdict(one.facts) for one in metrics]} if metrics else {}
    first = first_metric({**described, "signatures": _signatures(measures)})
    return {
        "version": _VERSION,
        "experiment": experiment.name,
        "languages": experiment.languages,
        "seeds": [measures.seed],
        "beam": beam,
        "validate_beam": {
            one.name: experiment.training(one).validate_beam for one in experiment.stages if one.name in measures.stages
        },
        "most_repetitive": experiment.guards.most_repetitive,
        "stages": {name: _stage(stage, measures.seed, first, samples) for name, stage in measures.stages.items()},
        "comparisons": _comparisons(experiment, [measures], samples),
        "waiting": _waiting(experiment, [measures]),
        **described,
        "signatures": _signatures(measures),
    }


def over_seeds(experiment: Experiment, runs: Sequence[RunMeasures], cards: Sequence[Json], samples: int) -> Json:
    """The scorecard of several runs of one experiment: means and deviations over seeds, and joint comparisons."""
    measured = _measured(runs)
    common = [name for name in cards[0]["stages"] if name in measured]
    return {
        **cards[0],
        "seeds": [run.seed for run in runs],
        "stages": {name: _stage_over_seeds(name, runs, cards, samples) for name in common},
        "comparisons": _comparisons(experiment, runs, samples),
        "waiting": _waiting(experiment, runs),
    }


def _stage(stage: StageMeasures, seed: int, first: MetricFacts, samples: int) -> Json:
    names = dict.fromkeys(test.name for test in stage.tests)
    state = stage.state
    return {
        "result": stage.digest,
        "update": state["update"],
        "valid_bleu": result_bleu(state),
        "seconds": state["seconds"],
        "spent": state["spent"],
        "sets": {name: _set(stage, name, seed, samples) for name in names},
        "mean": mean_scores([_scores(measures) for test, measures in stage.tests.items() if test.direct]),
        "routes": compared_routes({seed: stage.tests}, first, samples),
    }


def _set(stage: StageMeasures, name: str, seed: int, samples: int) -> Json:
    mine = {test: measures for test, measures in stage.tests.items() if test.name == name}
    directions = {str(test.path): _counted(measures) for test, measures in mine.items() if test.direct}
    pivots = {
        str(test.path): {**_counted(measures), **_over_direct(test, {seed: mine}, samples)}
        for test, measures in mine.items()
        if not test.direct
    }
    found = {"directions": directions, "mean": mean_scores(list(directions.values()), skip=("sentences",))}
    if outputs := {str(test.path): _statistics(one) for test, one in stage.outputs.items() if test.name == name}:
        found["outputs"] = outputs
    return {**found, "pivots": pivots} if pivots else found


def _statistics(outputs: OutputStatistics) -> dict[str, float]:
    return {"length_ratio": outputs.length_ratio, "repetitive": outputs.repetitive}


def _over_direct(pivot: TestPath, by_seed: BySeed, samples: int) -> Json:
    paired = over_direct([pivot], by_seed)
    return {"over_direct": differences(paired, samples)} if paired else {}


def _counted(measures: Measures) -> dict[str, float]:
    return {"sentences": len(next(iter(measures.values())).rows), **_scores(measures)}


def _scores(measures: Measures) -> dict[str, float]:
    return {metric: statistics.score() for metric, statistics in measures.items()}


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
        "mean": mean_scores([stage["mean"] for stage in stages]),
        "deviation": {metric: stdev(stage["mean"][metric] for stage in stages) for metric in stages[0]["mean"]},
        "routes": compared_routes(by_seed, first_metric(cards[0]), samples),
    }


def _set_over_seeds(sets: Sequence[Json]) -> Json:
    directions = {hop: mean_scores([one["directions"][hop] for one in sets]) for hop in sets[0]["directions"]}
    found = {"directions": directions, "mean": mean_scores([one["mean"] for one in sets])}
    if outputs := [one["outputs"] for one in sets if "outputs" in one]:
        found["outputs"] = {hop: mean_scores([one[hop] for one in outputs]) for hop in outputs[0]}
    ways = [one.get("pivots", {}) for one in sets]
    pivots = {path: mean_scores([way[path] for way in ways], skip=("over_direct",)) for path in ways[0]}
    return {**found, "pivots": pivots} if pivots else found


# -- what stages share -----------------------------------------------------------------------------------------


def tested(stage: Json) -> dict[tuple[str, str], Json]:
    """A stage's scores by test set and direction."""
    return {(name, hop): scores for name, one in stage["sets"].items() for hop, scores in one["directions"].items()}


def setbacks(card: Json) -> dict[str, str]:
    """Stages that score below their control by the first metric, beyond chance, each with its control."""
    first = first_metric(card)
    return {one["of"]: one["against"] for one in card["comparisons"] if first.gain(one["joint"][first.name]) < 0}


# -- comparisons -----------------------------------------------------------------------------------------------


def _comparisons(experiment: Experiment, runs: Sequence[RunMeasures], samples: int) -> list[Json]:
    """Comparisons whose two stages are measured in every run, on a direction that can be compared."""
    measured = _measured(runs)
    ready = [compare for compare in experiment.compare if {compare.of, compare.against} <= measured]
    return [
        _comparison(experiment, compare, runs, paired, samples)
        for compare in ready
        if (paired := _paired(experiment, compare, runs))
    ]


def _waiting(experiment: Experiment, runs: Sequence[RunMeasures]) -> list[Json]:
    """Comparisons that cannot be made: the stages they lack, or another reason."""
    measured = _measured(runs)
    lacking = [(compare, {compare.of, compare.against} - measured) for compare in experiment.compare]
    return [
        {"of": one.of, "against": one.against, "lacks": sorted(lacks), "why": why}
        for one, lacks in lacking
        if (why := f"waits for {', '.join(sorted(lacks))}" if lacks else _why_not(experiment, one, runs))
    ]


def _why_not(experiment: Experiment, compare: Compare, runs: Sequence[RunMeasures]) -> str | None:
    """Why two stages that are measured are not compared; None if they are."""
    compared, excluded = _directions(experiment, compare, runs)
    if not compared:
        return f"cannot be compared: there is no direction to compare: {'; '.join(by_reason(excluded))}"
    if not _paired(experiment, compare, runs):
        return "cannot be compared: no test set has a direction that both train"
    return None


def _measured(runs: Sequence[RunMeasures]) -> set[str]:
    """The stages that are measured in every run."""
    return set.intersection(*(set(run.stages) for run in runs))


def _comparison(
    experiment: Experiment, compare: Compare, runs: Sequence[RunMeasures], paired: Sequence[PairedTest], samples: int
) -> Json:
    names = dict.fromkeys(one.test.name for one in paired)
    return {
        "of": compare.of,
        "against": compare.against,
        "tuned": tuned(experiment, compare),
        **_conditions(experiment, compare, runs),
        "joint": differences(paired, samples),
        "sets": {name: _compared_set([one for one in paired if one.test.name == name], samples) for name in names},
    }


def _compared_set(paired: Sequence[PairedTest], samples: int) -> Json:
    """The comparison on one test set: all directions together, and each."""
    by_path: dict[LanguagePath, list[PairedTest]] = {}
    for one in paired:
        by_path.setdefault(one.test.path, []).append(one)
    return {
        "joint": differences(paired, samples),
        "directions": {str(path): differences(found, samples) for path, found in by_path.items()},
    }


def _conditions(experiment: Experiment, compare: Compare, runs: Sequence[RunMeasures]) -> Json:
    """Which directions are compared, what is left out and why, and what both stages were trained with."""
    compared, excluded = _directions(experiment, compare, runs)
    sides = dict(zip(("of", "against"), _states(compare, runs), strict=True))
    budget = {side: budget_of(states, compared) for side, states in sides.items()}
    warnings = unequal_seconds(compare.of, compare.against, budget) if compare.budget == "seconds" else []
    warnings += [f"they differ in {what}" for what in setting_differences(experiment, compare)]
    return {"compared": list(map(str, compared)), "excluded": excluded, "budget": budget, "warnings": warnings}


def _directions(
    experiment: Experiment, compare: Compare, runs: Sequence[RunMeasures]
) -> tuple[list[Hop], dict[str, str]]:
    """The directions that both stages train with equally many tokens, and the others with the reason why not.

    Stages that are compared at equal time may have different numbers of tokens.
    """
    found = compared_directions(experiment, compare)
    unequal: dict[Hop, str] = {}
    if compare.budget != "seconds":
        unequal = unequal_tokens(compare.of, compare.against, _states(compare, runs), found.compared)
    reasons = {str(hop): reason for hop, reason in {**found.excluded, **unequal}.items()}
    return [hop for hop in found.compared if hop not in unequal], reasons


def _states(compare: Compare, runs: Sequence[RunMeasures]) -> list[list[Json]]:
    """The training states of the stage and of its control, over seeds."""
    return [[run.stages[name].state for run in runs] for name in (compare.of, compare.against)]


def _paired(experiment: Experiment, compare: Compare, runs: Sequence[RunMeasures]) -> list[PairedTest]:
    compared = set(_directions(experiment, compare, runs)[0])
    stages = [(run.seed, run.stages[compare.of].tests, run.stages[compare.against].tests) for run in runs]
    return [
        PairedTest(test, seed, of[test], against[test])
        for seed, of, against in stages
        for test in of
        if test.direct and test in against and test.ends in compared
    ]
