"""Predicted and observed: the plan's verdict on each direction beside the measured gain over the control.

`helps` is right if the interval of the gain is above zero, `likely harmful` if it is below zero, and `no signal` if it
is not above zero. `may help` counts as an abstention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loopmt.config import Experiment, expansions
from loopmt.path import Hop, LanguagePath
from loopmt.planning.analysis import Estimate, share
from loopmt.planning.forecast import VERDICTS, loop_of

Row = dict[str, Any]
Json = Mapping[str, Any]


def predicted_rows(experiment: Experiment, plan: Json, analysis: Json) -> list[Row]:
    """One row for every comparison, test set and direction in which the stage has loops that its control lacks.

    Only stages that descend from the planned stage are included, since the plan is about its translators.
    """
    gains = {
        (row["after"], row["control"], row["set"], LanguagePath.parse(row["loop"]).hops[0]): row["values"]["gain"]
        for row in analysis["beyond_placebo"]
        if row["rule"] == plan["rule"] and _comes_from(experiment, row["after"], plan["stage"])
    }
    return [
        {"planned_on": plan["stage"], "pilot_updates": plan["pilot_updates"], **_row(experiment, *where, loop, gain)}
        for where, gain in gains.items()
        if (loop := _added(experiment, where[0], where[1], where[3], plan))
    ]


def _comes_from(experiment: Experiment, stage: str, ancestor: str) -> bool:
    parent = experiment.stage(stage).from_
    return parent is not None and (parent == ancestor or _comes_from(experiment, parent, ancestor))


def _added(experiment: Experiment, of: str, against: str, direction: Hop, plan: Json) -> Json | None:
    """The loop with the best verdict among those that the stage has and its control lacks.

    If the control has loops too, the verdicts are those on adding longer loops to the dual one.
    """
    outlook = plan["directions"].get(str(direction), {"loops": [], "pivots": []})
    before = _loops(experiment, against, direction)
    new = {str(loop) for loop in _loops(experiment, of, direction) - before}
    planned = [loop for loop in outlook["pivots" if before else "loops"] if loop["loop"] in new]
    return min(planned, key=lambda loop: VERDICTS.index(loop["verdict"]), default=None)


def _loops(experiment: Experiment, stage: str, direction: Hop) -> set[LanguagePath]:
    expanded = expansions(experiment, experiment.stage(stage))
    paths = [path for _, expansion in expanded for path in expansion.paths]
    return {loop_of(path) for path in paths if path.loop and path.taught == direction}


def _row(experiment: Experiment, of: str, against: str, name: str, direction: Hop, loop: Json, gain: Estimate) -> Row:
    by, predicted = _prediction(loop)
    outcome = outcome_of(gain)
    return {
        "experiment": experiment.name,
        "seed": experiment.seed,
        "set": name,
        "of": of,
        "against": against,
        "direction": str(direction),
        "loop": loop["loop"],
        "verdict": loop["verdict"],
        "predicted_by": by,
        "predicted": predicted,
        "observed": gain,
        "outcome": outcome,
        "hit": is_hit(loop["verdict"], outcome),
    }


def _prediction(loop: Json) -> tuple[str, Estimate]:
    """The pilot's prediction, or without a pilot that of Theorem 1, which is more cautious than hypothesis H."""
    if loop["pilot"]:
        return "pilot", loop["pilot"]["predicted"]
    if "assumed" not in loop:
        return "-", [None, None, None]
    by = next(name for name in loop["assumed"] if name.startswith("Theorem 1"))
    return by, loop["assumed"][by]


def outcome_of(gain: Estimate) -> str:
    _, low, high = gain
    if low is not None and low > 0:
        return "gained"
    return "lost" if high is not None and high < 0 else "no difference"


def is_hit(verdict: str, outcome: str) -> bool | None:
    """None for an abstention."""
    right = {"helps": {"gained"}, "no signal": {"no difference", "lost"}, "likely harmful": {"lost"}}
    return outcome in right[verdict] if verdict in right else None


def hit_rate(rows: Sequence[Row]) -> dict[str, Any]:
    """How often the plan decided and was right, and how often two constant verdicts would have been right."""
    decided = [row for row in rows if row["hit"] is not None]
    gained = sum(row["outcome"] == "gained" for row in decided)
    numbers = [(row["predicted"][0], row["observed"][0]) for row in rows]
    signs = [predicted * gain > 0 for predicted, gain in numbers if predicted is not None and gain is not None]
    return {
        "rows": len(rows),
        "decided": len(decided),
        "abstained": len(rows) - len(decided),
        "hits": share(sum(row["hit"] for row in decided), len(decided)),
        "always_helps": share(gained, len(decided)),
        "always_no_signal": share(len(decided) - gained, len(decided)),
        "same_sign": share(sum(signs), len(signs)),
    }
