"""Direct or through another language: which route of a direction an evaluation found better.

For each direction without bitext, `evaluate` also translates through every language that has bitext with both, and
compares. `translate --route auto` and `serve --route auto` use the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loopmt.config import Experiment
from loopmt.evaluation.metric import MetricFacts
from loopmt.path import Hop, LanguagePath
from loopmt.run import Json
from loopmt.workflow.measures import BySeed, Measures, TestPath, average, differences, over_direct


def pivots_without_bitext(experiment: Experiment) -> Iterator[LanguagePath]:
    """For each direction without bitext, the paths through a language that has bitext with both."""
    bitext, languages = experiment.data.supply().bitext, experiment.languages
    for start in languages:
        for end in languages:
            if start != end and Hop(start, end) not in bitext:
                pivots = [one for one in languages if {Hop(start, one), Hop(one, end)} <= bitext]
                yield from (LanguagePath((start, pivot, end)) for pivot in pivots)


# -- what an evaluation found ----------------------------------------------------------------------------------


def compared_routes(by_seed: BySeed, first: MetricFacts, samples: int) -> Json:
    """By direction: the score of each route, the best one, and the lead of the best pivot over the direct route."""
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


def told_routes(stages: Mapping[str, Json], first: MetricFacts) -> Iterator[str]:
    """For each direction, the stage and the route that score best, beside the best of the other kind.

    A stage's own best is direct, unless another route is ahead beyond chance.
    """
    for hop in dict.fromkeys(hop for routes in stages.values() for hop in routes):
        ways = [
            (score, name, path)
            for name, routes in stages.items()
            for path, score in routes.get(hop, {"scores": {}})["scores"].items()
        ]
        chosen = [way for way in ways if way[2] == stages[way[1]][hop]["best"]]
        best, direct = _best(chosen, first), _best([way for way in ways if way[2] == hop], first)
        assert best is not None, "every stage has a best route"
        if first.higher_is_better and first.number(best[0]) == first.number(0.0):
            yield f"{hop}: no stage translates it yet, by any route ({first.number(0.0)} {first.label})."
            continue
        shown = f"{hop}: use {_way(hop, best[2])} with stage {best[1]} ({first.number(best[0])} {first.label})"
        if direct is None:
            yield f"{shown}. No stage translates it directly."
        elif best[2] == hop:
            through = _best([way for way in ways if way[2] != hop], first)
            yield f"{shown}. {_beside('Through another language', through, first)}{_tied(stages, best[1], hop)}"
        else:
            yield f"{shown}. {_beside('The best direct translator', direct, first)}{_tied(stages, best[1], hop)}"


Way = tuple[float, str, str]
"""Score, stage and route."""


def _best(ways: Sequence[Way], first: MetricFacts) -> Way | None:
    sign = 1 if first.higher_is_better else -1
    return max(reversed(ways), key=lambda way: sign * way[0], default=None)  # of equals, the last stage


def _way(hop: str, path: str) -> str:
    return "the direct translator" if path == hop else path


def _beside(what: str, way: Way | None, first: MetricFacts) -> str:
    return f"{what} scores {first.number(way[0])} at best (stage {way[1]})." if way else ""


def _tied(stages: Mapping[str, Json], stage: str, hop: str) -> str:
    found = stages[stage][hop]
    return "" if found["decided"] else f" In stage {stage} the two differ within chance."
