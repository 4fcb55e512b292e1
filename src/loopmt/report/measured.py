"""The results of `loopmt analyze` and `loopmt plan`, in the order in which the page shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, zip_longest

from loopmt.config import Experiment
from loopmt.path import LanguagePath
from loopmt.planning.analysis import Estimate
from loopmt.planning.predicted import hit_rate, predicted_rows
from loopmt.run import Json

GREEK = ("alpha", "beta", "gamma", "kappa", "eta")
COLUMNS = ("p", "p_d", "gain", "M", "breakeven", *GREEK)
_PLAIN = "BLEU > "


def thresholds(analysis: Json) -> list[Json]:
    """Accuracy by threshold: for every test set and direction a line for each stage, and the exact one as a level."""
    found: dict[tuple[str, str], Json] = {}
    for row in analysis["pairs"]:
        direction = str(LanguagePath.parse(row["loop"]).hops[0])
        head = {"set": row["set"], "direction": direction, "lines": {}, "exact": {}}
        one = found.setdefault((row["set"], direction), head)
        for stage, name in ((row["before"], "p"), (row["after"], "p_d")):
            _enter(one, stage, row["rule"], row["values"][name])
    for one in found.values():
        one["lines"] = {stage: sorted(points) for stage, points in one["lines"].items()}
    return list(found.values())


def _enter(one: Json, stage: str, rule: str, estimate: Estimate) -> None:
    if rule == "exact":
        one["exact"][stage] = estimate[0]
    elif rule.startswith(_PLAIN):
        point = [float(rule.removeprefix(_PLAIN)), *estimate]
        line = one["lines"].setdefault(stage, [])
        if point not in line:  # every loop of a direction tells the same of its first hop
            line.append(point)


def main_rule(analysis: Json) -> str:
    """The rule that `analyze` prints. Analyses of older versions do not name it."""
    rules: list[str] = analysis["rules"]
    if "right" in analysis:
        return str(analysis["right"])
    return next((rule for rule in ("exact", f"{_PLAIN}20") if rule in rules), rules[0])


def parameters(experiment: Experiment, analysis: Json) -> list[Json]:
    """For every step and test set the theory's parameters of each loop: short loops first, steps of the tree first."""
    rule = main_rule(analysis)
    placebo = {_key(row): (row["control"], row["values"]) for row in analysis["beyond_placebo"] if row["rule"] == rule}
    tree = [(stage.from_, stage.name) for stage in experiment.all_stages]
    found = [
        {
            **dict(zip(("set", "before", "after"), key, strict=True)),
            "direct": key[1:] in tree,
            "rule": rule,
            "control": next((placebo[_key(row)][0] for row in rows if _key(row) in placebo), None),
            "rows": [
                {"loop": row["loop"], "sentences": row["sentences"], "values": row["values"],
                 "placebo": placebo.get(_key(row), (None, None))[1]}
                for row in sorted(rows, key=lambda row: row["loop"].count(">"))
            ],
        }
        for key, rows in _steps(row for row in analysis["pairs"] if row["rule"] == rule)
    ]  # fmt: skip
    names = [stage.name for stage in experiment.all_stages]
    return sorted(found, key=lambda step: (not step["direct"], names.index(step["after"])))


def _key(row: Json) -> tuple[str, str, str, str]:
    return row["set"], row["before"], row["after"], row["loop"]


def _steps(rows: Iterable[Json]) -> Iterator[tuple[tuple[str, ...], list[Json]]]:
    ordered = sorted(rows, key=lambda row: _key(row)[:3])
    for key, group in groupby(ordered, key=lambda row: _key(row)[:3]):
        yield key, list(group)


def plan_rows(plan: Json) -> Json:
    """The plan's verdict on every loop, and the suggested mix."""
    rows = [
        {"direction": direction, **{name: loop[name] for name in ("loop", "values", "bracket", "verdict", "why")},
         "pilot": loop["pilot"]["predicted"] if loop["pilot"] else None}
        for direction, outlook in plan["directions"].items()
        for loop in outlook["loops"]
    ]  # fmt: skip
    untrained = [
        {"direction": direction, **one, "ways": list(zip_longest(one["sources"].items(), one["through"].items()))}
        for direction, one in plan.get("zero_resource", {}).items()  # a plan made by an earlier version has none
    ]
    head = {name: plan[name] for name in ("stage", "set", "rule", "mix", "pilot_updates")}
    return {**head, "rows": rows, "untrained": untrained}


def predicted(experiment: Experiment, plan: Json, analysis: Json) -> Json | None:
    """The plan's verdicts beside the measured gains; None where no comparison measures them."""
    rows = predicted_rows(experiment, plan, analysis)
    return {"rows": rows, "rate": hit_rate(rows)} if rows else None
