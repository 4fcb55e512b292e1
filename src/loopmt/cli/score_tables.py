"""A scorecard as tables: a row per direction, a column per stage, then routes and comparisons."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from loopmt.cli.matrices import languages_of, print_compared, print_many, print_route_counts
from loopmt.cli.tables import console, number_table, plain, print_table
from loopmt.config import by_reason
from loopmt.evaluation.choice import facts_of, first_metric
from loopmt.evaluation.groups import Groups
from loopmt.evaluation.means import MANY_LANGUAGES, mean_over, shared
from loopmt.evaluation.metric import MetricFacts
from loopmt.learn.ledger import Spent, SyntheticShare
from loopmt.progress import visible
from loopmt.workflow.routes import told_routes
from loopmt.workflow.scorecard import setbacks, tested


def print_scorecard(card: dict[str, Any], everything: bool = False, named: Collection[str] = ()) -> None:
    """Scores by direction, routes, comparisons. `named` metrics were requested by name."""
    out, first = console(), first_metric(card)
    stages, metrics = card["stages"], [one for one in facts_of(card) if everything or _is_shown(one, card, named)]
    many = len(languages_of(stages)) >= MANY_LANGUAGES and not everything
    if many:
        _print_of_many(out, card, metrics, first)
    for name in () if many else _sets(stages):
        for metric in metrics:
            if metric.by_direction or metric == first:  # else in the means below, and in full in scorecard.json
                shown = everything or metric != first or len(_sets(stages)) > 1
                print_table(out, _scores(name, metric, stages, set() if shown else _compared_routes(stages)))
    if everything or _means_are_new(card, metrics):
        print_table(out, _means(stages, metrics, len(card["seeds"])))
    if not many:
        _print_routes(out, stages, first, everything)
    for name in _sets(stages) if everything else ():
        print_table(out, _outputs(name, stages))
    _print_lines(out, [*_repetitive(card), *_other_search(card)])
    for comparison in card["comparisons"]:
        if not many:
            print_table(out, _comparison(comparison, metrics))
        _print_lines(out, _conditions(comparison))
    for one in card["waiting"]:
        why = one.get("why", "is not compared yet")  # a scorecard of an older version does not say why
        _print_lines(out, [f"{one['of']} against {one['against']} {why}"])
    for name, stage in stages.items():
        _print_lines(out, _learnt_from(name, stage.get("spent", {})))  # over seeds there is no ledger
    for metric in metrics:
        for signature in sorted(set(card["signatures"].get(metric.name, {}).values())):  # unbroken, to be copied
            line = visible(f"{metric.label}: {signature}")
            out.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)
    print_setbacks(setbacks(card), first.label)


def _print_of_many(out: Console, card: dict[str, Any], metrics: Sequence[MetricFacts], first: MetricFacts) -> None:
    """For five languages or more: groups and matrices. `--verbose` and scorecard.json list every direction."""
    stages = card["stages"]
    print_many(out, card, [metric for metric in metrics if metric.by_direction or metric == first])
    print_route_counts(out, stages, first)
    for comparison in card["comparisons"]:
        print_compared(out, comparison, first, Groups.of(stages))
    _print_lines(out, ["--verbose lists every direction, with intervals and routes."])


def _is_shown(metric: MetricFacts, card: dict[str, Any], named: Collection[str]) -> bool:
    """sacreBLEU is nearly the same as BLEU, so it is printed on request only."""
    return metric.by_direction or metric == first_metric(card) or metric.name in named


def _means_are_new(card: dict[str, Any], metrics: Sequence[MetricFacts]) -> bool:
    """Whether the tables above lack the means: with one test set and one seed they have them."""
    several = len(_sets(card["stages"])) > 1 or len(card["seeds"]) > 1
    return several or any(not metric.by_direction and metric != first_metric(card) for metric in metrics)


def _print_lines(out: Console, lines: Iterable[str]) -> None:
    for line in lines:
        out.print(plain(line), highlight=False)


def print_setbacks(below: Mapping[str, str], label: str) -> None:
    """Stages below their control, which verbs that translate skip."""
    for of, against in below.items():
        line = f"Stage {of} scores below its control {against} in {label}. Other verbs use it only with --stage {of}."
        _print_lines(console(), [line])


# -- direct, or through another language? ----------------------------------------------------------------------


def _print_routes(out: Console, stages: dict[str, Any], first: MetricFacts, everything: bool) -> None:
    """For every direction with several routes: the scores of each stage, and the route to use."""
    table = number_table(
        f"Direct, or through another language? {first.label} on all test sets",
        *("direction", "stage", "direct", "through", "score", "better"),
    )
    for hop in dict.fromkeys(hop for stage in stages.values() for hop in stage.get("routes", {})):
        table.add_section()
        for name, stage in stages.items():
            if found := stage.get("routes", {}).get(hop):
                direct, pivot = (first.number(found["scores"].get(path)) for path in (hop, found["pivot"]))
                table.add_row(plain(hop), plain(name), direct, found["pivot"], pivot, _better(hop, found))
    if table.row_count:
        print_table(out, table, names=2)
    if everything and (pivots := _pivots(stages, first)).row_count:
        print_table(out, pivots, names=2)
    _print_lines(out, told_routes({name: stage.get("routes", {}) for name, stage in stages.items()}, first))


def _better(hop: str, found: dict[str, Any]) -> str:
    if hop not in found["scores"]:
        return "only way"
    return ("direct" if found["best"] == hop else "through") if found["decided"] else "within chance"


# -- scores ----------------------------------------------------------------------------------------------------


def _sets(stages: dict[str, Any]) -> list[str]:
    """Every test set that some stage has scores on."""
    return list(dict.fromkeys(name for stage in stages.values() for name in stage["sets"]))


def _compared_routes(stages: dict[str, Any]) -> set[str]:
    """Paths that the table of routes shows."""
    return {found["pivot"] for stage in stages.values() for found in stage.get("routes", {}).values()}


def _scores(name: str, metric: MetricFacts, stages: dict[str, Any], hidden: Collection[str]) -> Table:
    better = "" if metric.higher_is_better else " (lower is better)"
    table = number_table(f"{metric.title} on {name}{better}", "direction", *stages)
    sets = [stage["sets"].get(name, {"directions": {}, "mean": {}}) for stage in stages.values()]
    for hop in dict.fromkeys(hop for one in sets for hop in one["directions"]):
        table.add_row(plain(hop), *(metric.number(one["directions"].get(hop, {}).get(metric.name)) for one in sets))
    table.add_section()
    _add_means(table, metric, sets)
    table.add_section()
    for path in dict.fromkeys(path for one in sets for path in one.get("pivots", {}) if path not in hidden):
        table.add_row(path, *(_pivot(metric, one.get("pivots", {}).get(path, {})) for one in sets))
    return table


def _add_means(table: Table, metric: MetricFacts, sets: list[dict[str, Any]]) -> None:
    """The mean of each stage. If their directions differ, also their number, and the mean over common directions."""
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
    """A pivot path, and its lead over the direct one."""
    over = scores.get("over_direct", {}).get(metric.name, {}).get("difference")
    shown = metric.number(scores.get(metric.name))
    return shown if over is None else f"{shown} ({metric.number(over, sign=True)})"


def _pivots(stages: dict[str, Any], first: MetricFacts) -> Table:
    """By stage and path: whether the pivot path beats the direct translator, beyond chance."""
    names = _sets(stages)
    title = f"Through other languages less direct: {first.label} and 95% interval (paired bootstrap)"
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
    own = f" (each has its own {', '.join(comparison['tuned'])})" if comparison.get("tuned") else ""
    title = f"{comparison['of']} less {comparison['against']}{own}: difference and 95% interval"
    table = number_table(title, "direction", *(metric.heading for metric in metrics), f"p ({metrics[0].label})")
    several = len(comparison["sets"]) > 1
    for name, one in comparison["sets"].items():
        table.add_section()
        for hop, differences in one["directions"].items():
            table.add_row(plain(f"{name} {hop}" if several else hop), *_intervals(differences, metrics))
        if several:
            table.add_row(plain(f"{name}, mean"), *_intervals(one["joint"], metrics), style="bold")
    table.add_section()
    hops = {hop for one in comparison["sets"].values() for hop in one["directions"]}
    table.add_row(f"mean of {len(hops)}", *_intervals(comparison["joint"], metrics), style="bold")
    return table


def _outputs(name: str, stages: dict[str, Any]) -> Table:
    """How long translations are, and how many repeat themselves."""
    title = f"{name}: characters of outputs per character of references, share of outputs that repeat themselves"
    table = number_table(title, "direction", *stages)
    found = [stage["sets"].get(name, {}).get("outputs", {}) for stage in stages.values()]
    for hop in dict.fromkeys(hop for outputs in found for hop in outputs):
        table.add_row(hop, *(_statistics(outputs.get(hop)) for outputs in found))
    return table


def _statistics(one: dict[str, float] | None) -> str:
    return "-" if one is None else f"{one['length_ratio']:.2f}, {one['repetitive']:.0%}"


def _repetitive(card: dict[str, Any]) -> Iterator[str]:
    """Warnings about outputs that repeat themselves; a scorecard of an older version has no limit."""
    for stage, one in card["stages"].items():
        for name, found in one["sets"].items():
            for hop, outputs in found.get("outputs", {}).items():
                if outputs["repetitive"] > card.get("most_repetitive", 1.0):
                    share = f"{outputs['repetitive']:.0%} of the outputs repeat themselves"
                    yield f"warning: stage {stage}, {name}, {hop}: {share}, which scores may hide. Read some of them."


def _other_search(card: dict[str, Any]) -> Iterator[str]:
    """Which stages were validated with another search; a scorecard of an older version does not say it."""
    beams: dict[int, list[str]] = {}
    for stage, beam in card.get("validate_beam", {}).items():
        if beam != card["beam"]:
            beams.setdefault(beam, []).append(stage)
    for beam, stages in beams.items():
        search = "greedy search" if beam == 1 else f"beam {beam}"
        used = f"{search} (train.validate_beam = {beam}), these scores beam {card['beam']}"
        yield f"Checkpoints of {', '.join(stages)} were chosen with {used}."


def _learnt_from(name: str, spent: Spent) -> Iterator[str]:
    """The training text of a stage, if some of it was generated or was meant to be."""
    share = SyntheticShare.of(spent)
    if share.synthetic or share.meant:
        yield f"Stage {name}: {share.synthetic:.0%} of its {share.target_tokens:,} target tokens are generated text."
    if share.missed:
        yield f"warning: {name}: {share.warning()}"


def _conditions(comparison: dict[str, Any]) -> Iterator[str]:
    """The budgets of both stages, the excluded directions, and doubts about the comparison."""
    sides = ("of", "against")
    if "budget" in comparison:  # a scorecard of an older version has none
        spent = "; ".join(f"{comparison[side]}: {_budget(comparison['budget'][side])}" for side in sides)
        yield f"Trained: {spent}."
    yield from (f"Not compared: {line}." for line in by_reason(comparison.get("excluded", {})))
    yield from (f"warning: {warning}" for warning in comparison.get("warnings", ()))


def _budget(side: dict[str, float]) -> str:
    tokens, updates, seconds = (f"{side[what]:,.0f}" for what in ("target_tokens", "updates", "seconds"))
    return f"{tokens} target tokens, {updates} updates, {seconds} s"


def _intervals(differences: dict[str, Any], metrics: list[MetricFacts]) -> list[str]:
    found = [metric.interval(differences[metric.name]) for metric in metrics]
    return [*found, f"{differences[metrics[0].name]['p_value']:.3f}"]
