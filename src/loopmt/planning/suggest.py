"""A suggested mix, as a piece of an experiment file to paste: the loops worth trying, by direction, and a control."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence

from loopmt.config import Auto, Compare, ComparedDirections, Experiment, MixEntry, Stage, compared_directions
from loopmt.path import Hop, LanguagePath
from loopmt.planning.analysis import Estimate
from loopmt.planning.forecast import DirectionForecast, training_path
from loopmt.planning.loop_choice import FAR_BELOW
from loopmt.planning.zero_resource import ZeroResource

LOOPS = 1 / Auto().supervised - 1
"""The total weight of the loops to a direction whose bitext has weight 1, as with `mix = "auto"`."""

Quality = Mapping[Hop, Mapping[LanguagePath, Estimate]]


def suggest_weights(
    outlooks: Mapping[Hop, DirectionForecast],
    quality: Quality,
    fed: Callable[[LanguagePath], bool],
    untrained: Sequence[ZeroResource] = (),
) -> dict[LanguagePath, float]:
    """Paths to train on with their weights; those that teach one direction sum to LOOPS (bitext: 1).

    A loop is taken if its verdict is `helps` or `may help` and the data can feed it; a longer one only if it adds
    evidence to the dual loop. Weights are proportional to route quality, which is how often the generated source is
    right; a route with less than half the quality of the best gets none. Directions not taught yet get all paths that
    can teach them, weighted in the same way.
    """
    weights: dict[LanguagePath, float] = {}
    for direction, outlook in outlooks.items():
        paths = [path for path in map(training_path, _chosen(outlook)) if fed(path)]
        weights |= _shared({path: quality.get(direction, {}).get(path) for path in paths})
    for one in untrained:
        weights |= _shared({path: rate for path, rate in one.sources.items() if one.promising and fed(path)})
    return weights


def _shared(quality: Mapping[LanguagePath, Estimate | None]) -> dict[LanguagePath, float]:
    """The weights of paths that teach one direction."""
    rates = {path: _rate(estimate) for path, estimate in quality.items()}
    best = max(rates.values(), default=0.0)
    rates = {path: rate for path, rate in rates.items() if rate >= FAR_BELOW * best}
    total = sum(rates.values())
    return {path: max(0.01, round(LOOPS * rate / total, 2)) for path, rate in rates.items()}


def _chosen(outlook: DirectionForecast) -> list[LanguagePath]:
    pivots = {pivot.loop: pivot for pivot in outlook.pivots}
    return [
        one.loop
        for one in outlook.prospects
        if one.promising and (one.loop not in pivots or pivots[one.loop].promising)
    ]


def _rate(quality: Estimate | None) -> float:
    """The quality as a number: 0.5 if it is unknown, and at least 0.01."""
    return 0.5 if quality is None or quality[0] is None else max(quality[0], 0.01)


def as_toml(weights: Mapping[LanguagePath, float], start: str, updates: int, experiment: Experiment) -> str | None:
    """The control, the stage and their comparison, ready to paste; None if no loop is worth trying.

    If the loops train only directions without bitext, there is no comparable control without loops, so the text has
    only the stage.
    """
    if not weights:
        return None
    taken = [stage.name for stage in experiment.all_stages]
    name = free_name("loops", taken)
    control = free_name(f"{name}-control", taken)
    entries = [
        f'    {{ path = "{path}", weight = {weight:g} }},  # trains {path.taught}' for path, weight in weights.items()
    ]
    head = [f'from = "{start}"', f"updates = {updates}"]
    found = _compared(weights, start, (name, control), experiment)
    lines = ["[[stage]]", f'name = "{name}"', *head, "mix = [", '    "X>Y",', *entries, "]"]
    if found.compared:
        lines = [
            "[[stage]]  # the control: the same updates without loops",
            f'name = "{control}"',
            *head,
            'mix = ["X>Y"]',
            "",
            *lines,
            "",
        ]
        lines += ["[[compare]]", f'of = "{name}"', f'against = "{control}"']
    if found.compared and found.one_sided:
        lines.append(f"directions = {json.dumps(list(map(str, found.compared)))}")
    return "\n".join(lines) + "\n"


def _compared(
    weights: Mapping[LanguagePath, float], start: str, names: tuple[str, str], experiment: Experiment
) -> ComparedDirections:
    """The directions on which the suggested stage and its control can be compared."""
    bitext = MixEntry(path="X>Y")
    loops = [MixEntry(path=str(path), weight=weight) for path, weight in weights.items()]
    stages = [
        Stage(name=name, from_=start, mix=mix, updates=1)
        for name, mix in zip(names, ([bitext, *loops], [bitext]), strict=True)
    ]
    known = experiment.model_copy(update={"stages": [*experiment.stages, *stages]})
    return compared_directions(known, Compare(of=names[0], against=names[1]))


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, with the first free number if it is taken."""
    if name not in taken:
        return name
    return next(f"{name}-{number}" for number in range(2, len(taken) + 3) if f"{name}-{number}" not in taken)
