"""Direct, or through another language: which route of a direction an evaluation found better.

No bitext teaches every direction. Where none does, `evaluate` also translates through each language that has bitext
with both, and compares. `translate --route auto` and `serve --route auto` go by what it found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loopmt.config import Experiment
from loopmt.evaluation.metric import MetricFacts
from loopmt.path import Hop, LanguagePath
from loopmt.run import Json
from loopmt.workflow.measures import BySeed, Measures, TestPath, average, differences, over_direct


def pivots_without_bitext(experiment: Experiment) -> Iterator[LanguagePath]:
    """For each direction that no bitext teaches, the ways through a language that has bitext with both."""
    bitext, languages = experiment.data.supply().bitext, experiment.languages
    for start in languages:
        for end in languages:
            if start != end and Hop(start, end) not in bitext:
                pivots = [one for one in languages if {Hop(start, one), Hop(one, end)} <= bitext]
                yield from (LanguagePath((start, pivot, end)) for pivot in pivots)


# -- what an evaluation found ----------------------------------------------------------------------------------


def compared_routes(by_seed: BySeed, first: MetricFacts, samples: int) -> Json:
    """By direction: the score of each route, the best, and by how much the best pivot is ahead of the direct one."""
    measured = _by_path(by_seed)
    directions = dict.fromkeys(Hop(*path.ends) for path in measured if len(path.hops) > 1)
    return {str(hop): _compared(hop, measured, by_seed, first, samples) for hop in directions}


def _by_path(by_seed: BySeed) -> dict[LanguagePath, list[tuple[TestPath, Measures]]]:
    found: dict[LanguagePath, list[tuple[TestPath, Measures]]] = {}
    for tests in by_seed.values():
        for test, measures in tests.items():
            found.setdefault(test.path, []).append((test, measures))
    return found


def _compared(
    hop: Hop,
    measured: Mapping[LanguagePath, Sequence[tuple[TestPath, Measures]]],
    by_seed: BySeed,
    first: MetricFacts,
    samples: int,
) -> Json:
    routes = {path: tests for path, tests in measured.items() if path.ends == (hop.source, hop.target)}
    scores = {path: average([measures[first.name] for _, measures in tests]) for path, tests in routes.items()}
    sign = 1 if first.higher_is_better else -1
    pivot = max((path for path in scores if len(path.hops) > 1), key=lambda path: sign * scores[path])
    found: Json = {
        "metric": first.name,
        "pivot": str(pivot),
        "scores": {str(path): score for path, score in scores.items()},
    }
    by_name = {test.name: test for test, _ in routes[pivot]}  # the seeds of a set have tests of their own
    paired = over_direct(list(by_name.values()), by_seed)
    if not paired:
        return {**found, "best": str(pivot), "decided": True}
    ahead = differences(paired, samples)[first.name]
    gain = first.gain(ahead)
    return {**found, "best": str(pivot) if gain > 0 else str(hop), "decided": gain != 0, "over_direct": ahead}


def told_routes(stage: str, routes: Json, first: MetricFacts) -> Iterator[str]:
    """A sentence for each direction that was translated in several ways, or in none but through another language."""
    for hop, found in routes.items():
        through = found["pivot"]
        scores = {path: f"{first.number(score)} {first.label}" for path, score in found["scores"].items()}
        if hop not in scores:
            yield f"{stage}, {hop}: {through} ({scores[through]}); there is no direct translator"
        elif not found["decided"]:
            yield f"{stage}, {hop}: direct ({scores[hop]}) and {through} ({scores[through]}) differ by chance alone"
        else:
            other = hop if found["best"] != hop else through
            ahead = first.interval(found["over_direct"])
            yield (
                f"{stage}, {hop}: {found['best']} is better ({scores[found['best']]}) than {other} ({scores[other]}); "
                f"{through} minus direct: {ahead}"
            )
