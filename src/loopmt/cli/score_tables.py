"""A scorecard as tables: a row per direction, a column per stage, then the comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.table import Table

from loopmt.cli.tables import console, number_table, plain, print_table
from loopmt.config import by_reason
from loopmt.evaluation.choice import facts_of, first_metric
from loopmt.evaluation.means import mean_over, shared
from loopmt.evaluation.metric import MetricFacts
from loopmt.learn.ledger import Spent, SyntheticShare
from loopmt.progress import visible
from loopmt.workflow.routes import told_routes
from loopmt.workflow.scorecard import setbacks, tested


def print_scorecard(card: dict[str, Any]) -> None:
    out = console()
    stages = card["stages"]
    metrics = facts_of(card)
    for name in _sets(stages):
        for metric in metrics:
            if metric.by_direction or metric == first_metric(
                card
            ):  # else in the means below, and in full in scorecard.json
                print_table(out, _scores(name, metric, stages))
    print_table(out, _means(stages, metrics, len(card["seeds"])))
    for name, stage in stages.items():
        for line in _learnt_from(name, stage.get("spent", {})):  # over seeds there is no ledger
            out.print(plain(line), highlight=False, soft_wrap=True)
    if (pivots := _pivots(stages, first_metric(card))).row_count:
        print_table(out, pivots, names=2)
    for name, stage in stages.items():
        for line in told_routes(name, stage.get("routes", {}), first_metric(card)):
            out.print(plain(line), highlight=False, soft_wrap=True)
    for comparison in card["comparisons"]:
        print_table(out, _comparison(comparison, metrics))
        for line in _conditions(comparison):
            out.print(plain(line), highlight=False, soft_wrap=True)
    for one in card["waiting"]:
        why = one.get("why", "is not compared yet")  # a scorecard of an older version does not say why
        out.print(plain(f"{one['of']} against {one['against']} {why}"), highlight=False, soft_wrap=True)
    for metric in metrics:
        for signature in sorted(set(card["signatures"].get(metric.name, {}).values())):  # unbroken, to be copied
            line = visible(f"{metric.label}: {signature}")
            out.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)
    print_setbacks(setbacks(card), first_metric(card).label)


def print_setbacks(below: Mapping[str, str], label: str) -> None:
    """Verbs that translate pass over such stages."""
    for of, against in below.items():
        line = f"{of} is worse than its control {against} in {label}, so it is not the default stage"
        console().print(plain(line), highlight=False, soft_wrap=True)


def _sets(stages: dict[str, Any]) -> list[str]:
    """Every test set that some stage was judged on: a stage of few directions is not judged on all."""
    return list(dict.fromkeys(name for stage in stages.values() for name in stage["sets"]))


def _scores(name: str, metric: MetricFacts, stages: dict[str, Any]) -> Table:
    better = "" if metric.higher_is_better else " (lower is better)"
    table = number_table(f"{metric.title} on {name}{better}", "direction", *stages)
    sets = [stage["sets"].get(name, {"directions": {}, "mean": {}}) for stage in stages.values()]
    for hop in dict.fromkeys(hop for one in sets for hop in one["directions"]):
        table.add_row(plain(hop), *(metric.number(one["directions"].get(hop, {}).get(metric.name)) for one in sets))
    table.add_section()
    _add_means(table, metric, sets)
    table.add_section()
    for path in dict.fromkeys(path for one in sets for path in one.get("pivots", {})):
        table.add_row(path, *(_pivot(metric, one.get("pivots", {}).get(path, {})) for one in sets))
    return table


def _add_means(table: Table, metric: MetricFacts, sets: list[dict[str, Any]]) -> None:
    """The mean of each stage; where they are of different directions, of how many, and over those that all share."""
    judged = [one["directions"] for one in sets]
    common = shared(judged)
    means = [metric.number(one["mean"].get(metric.name)) for one in sets]
    if common is None:
        table.add_row("mean", *means, style="bold")
        return
    table.add_row("mean (directions)", *map(_counted, means, map(len, judged)))
    if common:
        alike = (metric.number(mean_over(one, common).get(metric.name)) for one in judged)
        table.add_row(f"mean of the {len(common)} they share", *alike, style="bold")


def _pivot(metric: MetricFacts, scores: dict[str, Any]) -> str:
    """A way through other languages, and by how much it is better than the direct one."""
    over = scores.get("over_direct", {}).get(metric.name, {}).get("difference")
    shown = metric.number(scores.get(metric.name))
    return shown if over is None else f"{shown} ({metric.number(over, sign=True)})"


def _pivots(stages: dict[str, Any], first: MetricFacts) -> Table:
    """By stage and path: does going through other languages beat its direct translator, beyond chance?"""
    names = _sets(stages)
    title = f"Through other languages against direct: difference in {first.label} and 95% interval (paired bootstrap)"
    table = number_table(title, "stage", "path", *names)
    for stage, one in stages.items():
        found = [one["sets"].get(name, {}).get("pivots", {}) for name in names]
        for path in dict.fromkeys(path for pivots in found for path in pivots):
            over = [pivots.get(path, {}).get("over_direct") for pivots in found]
            if any(over):
                table.add_row(plain(stage), path, *(first.interval(one[first.name]) if one else "-" for one in over))
    return table


def _means(stages: dict[str, Any], metrics: list[MetricFacts], num_seeds: int) -> Table:
    over = f" and {num_seeds} seeds" if num_seeds > 1 else ""
    table = number_table(f"Mean over all directions{over}", "metric", *stages)
    judged = [tested(stage) for stage in stages.values()]
    common = shared(judged)
    for metric in metrics:
        means = [_mean(metric, stage) for stage in stages.values()]
        if common is None:
            table.add_row(plain(metric.heading), *means)
            continue
        table.add_row(plain(f"{metric.heading} (directions)"), *map(_counted, means, map(_directions, judged)))
        if common:
            alike = (metric.number(mean_over(one, common).get(metric.name)) for one in judged)
            table.add_row(plain(f"{metric.heading}, the {_directions(common)} they share"), *alike, style="bold")
    return table


def _mean(metric: MetricFacts, stage: dict[str, Any]) -> str:
    deviation = stage.get("deviation", {}).get(metric.name)
    spread = f" ± {metric.number(deviation)}" if deviation is not None else ""
    return metric.number(stage["mean"].get(metric.name)) + spread


def _counted(mean: str, directions: int) -> str:
    return f"{mean} ({directions})" if directions else mean


def _directions(tests: Iterable[tuple[str, str]]) -> int:
    return len({hop for _, hop in tests})


def _comparison(comparison: dict[str, Any], metrics: list[MetricFacts]) -> Table:
    own = f", each with its own {', '.join(comparison['tuned'])}" if comparison.get("tuned") else ""
    title = f"{comparison['of']} against {comparison['against']}{own}: difference and 95% interval (paired bootstrap)"
    table = number_table(title, "direction", *(metric.heading for metric in metrics), f"p ({metrics[0].label})")
    for name, one in comparison["sets"].items():
        table.add_section()
        for hop, differences in one["directions"].items():
            table.add_row(plain(f"{name} {hop}"), *_intervals(differences, metrics))
        if len(comparison["sets"]) > 1:
            table.add_row(plain(f"{name}, mean"), *_intervals(one["joint"], metrics), style="bold")
    table.add_section()
    hops = {hop for one in comparison["sets"].values() for hop in one["directions"]}
    table.add_row(f"all ({len(hops)} directions)", *_intervals(comparison["joint"], metrics), style="bold")
    return table


def _learnt_from(name: str, spent: Spent) -> Iterator[str]:
    """The text that a stage was trained with, where some of it was generated or was meant to be."""
    share = SyntheticShare.of(spent)
    if share.synthetic or share.meant:
        yield f"{name} was trained with {share.target_tokens:,} target tokens, {share.synthetic:.0%} of generated text"
    if share.missed:
        yield f"warning: {name}: {share.warning()}"


def _conditions(comparison: dict[str, Any]) -> Iterator[str]:
    """What the two stages were trained with, the directions left out, and what makes the comparison doubtful."""
    sides = ("of", "against")
    if "budget" in comparison:  # a scorecard of an older version has none
        spent = "; ".join(f"{comparison[side]}: {_budget(comparison['budget'][side])}" for side in sides)
        yield f"trained with {spent}"
    yield from (f"left out: {line}" for line in by_reason(comparison.get("excluded", {})))
    yield from (f"warning: {warning}" for warning in comparison.get("warnings", ()))


def _budget(side: dict[str, float]) -> str:
    tokens, updates, seconds = (f"{side[what]:,.0f}" for what in ("target_tokens", "updates", "seconds"))
    return f"{tokens} target tokens, {updates} updates, {seconds} s"


def _intervals(differences: dict[str, Any], metrics: list[MetricFacts]) -> list[str]:
    found = [metric.interval(differences[metric.name]) for metric in metrics]
    return [*found, f"{differences[metrics[0].name]['p_value']:.3f}"]
