"""Scores of many languages: means of groups of directions, and matrices of source by target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from loopmt.cli.tables import number_table, plain, print_table
from loopmt.evaluation.groups import Groups, mean_of_group
from loopmt.evaluation.metric import MetricFacts
from loopmt.path import Hop

_CLOSE = 0.05  # differences that have no colour

Scores = Mapping[str, Mapping[str, Any]]  # by direction, then by metric


def languages_of(stages: Mapping[str, Any]) -> list[str]:
    """Every language of a scorecard's directions, in the order in which they occur."""
    hops = [hop for stage in stages.values() for one in stage["sets"].values() for hop in one["directions"]]
    return list(dict.fromkeys(language for hop in hops for language in hop.split(">")))


# -- a scorecard ---------------------------------------------------------------------------------------------------


def print_many(out: Console, card: Mapping[str, Any], metrics: Sequence[MetricFacts]) -> None:
    """Means of groups for every stage; a matrix of the last stage and one of each comparison."""
    stages, groups = card["stages"], Groups.of(card["stages"])
    for name in dict.fromkeys(name for stage in stages.values() for name in stage["sets"]):
        columns = {stage: one["sets"].get(name, {}).get("directions", {}) for stage, one in stages.items()}
        last, scores = [(stage, one) for stage, one in columns.items() if one][-1]
        for metric in metrics:
            print_groups(out, f"{metric.title} on {name}: means of directions", columns, metric, groups)
            found = {hop: one[metric.name] for hop, one in scores.items()}
            print_matrix(out, f"{metric.label} of {last} on {name}", found, 1)


def print_compared(out: Console, comparison: Mapping[str, Any], metric: MetricFacts, groups: Groups) -> None:
    """The joint difference with its interval, the mean difference of each group, and a matrix."""
    of, against = comparison["of"], comparison["against"]
    joint = comparison["joint"][metric.name]
    out.print(plain(f"{of} less {against}: {metric.difference(joint)}, p = {joint['p_value']:.3f}"), highlight=False)
    for name, one in comparison["sets"].items():
        found = {hop: {metric.name: each[metric.name]["difference"]} for hop, each in one["directions"].items()}
        title = f"{of} less {against} on {name}: means of differences in {metric.label}"
        print_groups(out, title, {"difference": found}, metric, Groups(list(found), groups.without))
        sign = 1 if metric.higher_is_better else -1
        values = {hop: sign * each[metric.name] for hop, each in found.items()}
        print_matrix(out, f"{of} less {against} on {name}, by direction", values, 1, signed=True)


def print_route_counts(out: Console, stages: Mapping[str, Any], metric: MetricFacts) -> None:
    """For each stage: in how many directions without bitext which route is better, and the mean of each."""
    columns = ("stage", "direct is better", "through", "within chance", "mean direct", "mean through")
    table = number_table(f"Direct, or through another language? {metric.label}, directions without bitext", *columns)
    for name, stage in stages.items():
        routes = stage.get("routes", {})
        both = {hop: one for hop, one in routes.items() if hop in one["scores"]}
        counts = Counter(("direct" if one["best"] == hop else "through") for hop, one in both.items() if one["decided"])
        means = [
            metric.number(fmean(one["scores"][hop if own else one["pivot"]] for hop, one in both.items()))
            for own in (True, False)
            if both
        ]
        undecided = len(both) - counts.total()
        if both:
            table.add_row(plain(name), *map(str, (counts["direct"], counts["through"], undecided)), *means)
    if table.row_count:
        print_table(out, table)


def print_groups(out: Console, title: str, columns: Mapping[str, Scores], metric: MetricFacts, groups: Groups) -> None:
    """A row for each group, a column for each stage; a mean over fewer directions says of how many."""
    table = number_table(title, "directions", *columns)
    for name, hops in groups.named():
        table.add_row(plain(f"{name} ({len(hops)})"), *(_mean(one, hops, metric) for one in columns.values()))
    print_table(out, table)


def _mean(scores: Scores, hops: Sequence[str], metric: MetricFacts) -> str:
    mean, count = mean_of_group({hop: one[metric.name] for hop, one in scores.items()}, hops)
    return metric.number(mean) + (f" (of {count})" if 0 < count < len(hops) else "")


def print_matrix(out: Console, title: str, values: Mapping[str, float], digits: int, signed: bool = False) -> None:
    """Sources in rows, targets in columns. Signed values are coloured: they are differences, positive is better."""
    hops = [Hop(*hop.split(">")) for hop in values]
    languages = list(dict.fromkeys(language for hop in hops for language in (hop.source, hop.target)))
    table = Table(title=plain(title), title_justify="left", title_style="bold", header_style="bold", padding=(0, 0))
    table.add_column("from \\ to")
    for language in languages:
        table.add_column(plain(language), justify="right", min_width=5)
    for source in languages:
        cells = (values.get(f"{source}>{target}") for target in languages)
        table.add_row(plain(source), *(_cell(value, digits, signed) for value in cells))
    print_table(out, table)


def _cell(value: float | None, digits: int, signed: bool) -> str:
    if value is None:
        return ""
    text = f"{value:{'+' if signed else ''}z.{digits}f}"
    if not signed or abs(value) < _CLOSE:
        return text
    return f"[{'green' if value > 0 else 'red'}]{text}[/]"
