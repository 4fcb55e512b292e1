"""An analysis and a plan as tables. An estimate is [value, low, high]."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from typing import Any

from rich.console import Console
from rich.table import Table

from loopmt.cli.predicted_table import listed, print_predicted
from loopmt.cli.tables import console, number_table, print_table
from loopmt.evaluation.means import differ
from loopmt.planning.advice import HELPS, UNCLEAR, USELESS, committed
from loopmt.progress import visible

Json = dict[str, Any]
_WIDE = 6  # loops side by side
_ZERO = {"helps": HELPS, "may help": UNCLEAR, "no signal": USELESS, "likely harmful": USELESS}
_EXPLAINED = (
    "loop: held-out sentences are translated along it and compared at the end with the original. trained as: the path "
    "of a mix that trains the direction. right: share of the direction's translations that are right. M: how often a "
    "wrong translation still returns as the original sentence, divided by how often a right one does; below 1 the "
    "loop can tell them apart."
)
_BREAK_EVEN = "break-even: of the sentences that do not return, the share that is right now; training must raise it."
_MORE_OF_A_PLAN = "--all prints the reason for each loop, intervals and bounds; plan.json holds everything."
_IN_SHORT = (
    "A loop's gain is that of its first direction: the change in the share of right translations, less the same change "
    "in the control. --all prints every pair of stages, the parameters of the theory and the paper's tables; "
    "analysis.json holds them by every threshold."
)
_NO_STEP = (
    "No finished stage started from another one, so there is nothing to compare; analysis.json holds what was measured "
    "of each stage."
)
_BRIEF = {"p": "right before", "p_d": "right after"}
_PARAMETERS = (
    *("p", "p_d", "gain", "c11", "c12", "c21", "c22", "s", "M", "breakeven"),
    *("alpha", "beta", "gamma", "kappa", "eta", "u11", "u12", "rho", "thm1"),
)
_LATENT = {
    "q1": "q1", "q2": "q2 (r of a dual loop)", "q3": "q3", "lambda": "lambda", "lambda1": "lambda1",
    "lambda2": "lambda2", "delta": "delta", "error_odds": "error odds of the other hops", "odds_limit": "below 1/delta",
    "lost_without_error": "not returned, no error", "home_with_one_error": "returned, one error",
}  # fmt: skip


def print_analysis(analysis: Json, everything: bool = False) -> None:
    """What loops did, by one rule: in short, or with every parameter; other rules are in analysis.json."""
    out, rule = console(), analysis["right"]
    if everything:
        _print_everything(out, analysis, rule)
    elif analysis["pairs"]:
        _print_summary(out, analysis, rule)
    else:
        _say(out, _NO_STEP)
    if "predicted" in analysis:
        _print_predicted(out, analysis["predicted"])


def _print_summary(out: Console, analysis: Json, rule: str) -> None:
    """The step to each stage that has a control from what it began with; to every stage, where none has one."""
    nearest = {row["after"]: row["before"] for row in reversed(analysis["pairs"])}
    beyond = {_step(row): row for row in analysis["beyond_placebo"] if row["rule"] == rule}
    controlled = {after for _, _, after, _ in beyond}
    for (_, before, after), rows in _grouped(analysis["pairs"], rule, ("set", "before", "after")):
        if before == nearest[after] and (after in controlled or not controlled):
            print_table(out, _step_table(rows, beyond))
    placebos = analysis.get("placebos", {})  # an analysis of an older version has none
    controls = {placebo["control"] for placebo in placebos.values()}
    for stage, placebo in placebos.items():
        if placebo["control"] is None and stage not in controls:
            _say(out, f"stage {stage} has no control: {placebo['why']}. Name one in [[compare]].")
    _say(out, f"{_rightness(rule)} {_IN_SHORT}")


def _rightness(rule: str) -> str:
    """What counts as right, as a sentence."""
    if rule == "exact":
        return "Right: the translation has the meaning of the source, by the exact judge of the built-in languages."
    return f"Right: a translation of sentence {rule}, or equal to the reference."


def _step(row: Json) -> tuple[str, str, str, str]:
    return row["set"], row["before"], row["after"], row["loop"]


def _step_table(rows: Sequence[Json], beyond: Mapping[tuple[str, str, str, str], Json]) -> Table:
    """A row for each loop; its gain is that over the control, where there is one."""
    name, before, after, _ = _step(rows[0])
    gains = [beyond.get(_step(row), row) for row in rows]
    control = gains[0].get("control")
    gain = f"gain over {control}" if control else "gain, no control"
    table = number_table(f"From stage {before} to {after}, on {name}", "loop", *_BRIEF.values(), f"{gain} (95%)")
    for row, other in zip(rows, gains, strict=True):
        cells = (_two(row["values"].get(parameter, [None])[0]) for parameter in _BRIEF)
        table.add_row(row["loop"], *cells, _shown(other["values"]["gain"], True))
    return table


def _print_everything(out: Console, analysis: Json, rule: str) -> None:
    """The paper's tables, then the parameters of each step of the tree."""
    for table in analysis["tables"]:
        _print_paper(out, table)
    for key, rows in _grouped(analysis["pairs"], rule, ("set", "before", "after")):
        title = f"{key[1]} to {key[2]} on {key[0]}, right: {rule}; 95% intervals"
        _print_loops(out, title, rows, {name: name for name in _PARAMETERS})
    for key, rows in _grouped(analysis["beyond_placebo"], rule, ("set", "before", "after", "control")):
        title = f"{key[1]} to {key[2]} on {key[0]}, less the same change in the control {key[3]}"
        _print_loops(out, title, rows, {name: name for name in rows[0]["values"]})
    parents = {row["before"] for row in analysis["pairs"]}
    latent = [row for row in analysis["latent"] if row["stage"] in parents]
    for key, rows in _grouped(latent, None, ("set", "stage")):
        _print_loops(out, f"{key[1]} on {key[0]}: every hop judged exactly", rows, _LATENT)
    if analysis["thresholds"]:
        print_table(out, _threshold_table(analysis["thresholds"]), names=2)


def print_plan(plan: Json, everything: bool = False) -> None:
    """Loops and what was measured of them, then directions without bitext, then the advice."""
    out = console()
    print_table(out, _loop_table(plan, everything), names=2)
    _say(out, f"{_rightness(plan['rule'])} {_chosen(plan)}{_EXPLAINED}{f' {_BREAK_EVEN}' * everything}")
    if pilots := plan.get("pilot_settings"):
        _say(out, f"Every pilot and its control: {pilots['updates']:,} updates, dropout {pilots['dropout']:g}.")
    if everything:
        _print_reasons(out, plan)
        _print_pivots(out, plan)
    if plan["zero_resource"]:
        _print_zero_resource(out, plan["zero_resource"], everything)
    print_predicted(out, plan.get("predicted", {}), everything)
    _print_recommended(out, plan.get("recommended", []))
    _say(out, f"\n{_turns(plan)}" if everything else f"\n{_MORE_OF_A_PLAN}")
    _print_advice(out, plan)


def _print_recommended(out: Console, found: Sequence[Json]) -> None:
    """What to try first, by the kind of data that each pair has."""
    if found:
        _say(out, "\nFor this kind of data, try first (docs/mixes.md has what it brought):")
    for one in found:
        _say(out, f"- {listed(one['pairs'])} ({one['data']}): {one['first']}.")


def _chosen(plan: Json) -> str:
    """Why this threshold."""
    if plan["rule"] == "exact":
        return ""
    return "This threshold is passed by the share nearest to half (or set by --threshold); `analyze` uses it too. "


def _print_reasons(out: Console, plan: Json) -> None:
    """The loops of each reason."""
    reasons: dict[str, list[str]] = {}
    for outlook in plan["directions"].values():
        for loop in outlook["loops"]:
            reasons.setdefault(f"{committed(loop, plan['worth'])}: {loop['why']}", []).append(loop["loop"])
    for reason, loops in reasons.items():
        _say(out, f"{', '.join(loops)}: {reason}")


def _print_advice(out: Console, plan: Json) -> None:
    """The verdicts, and what to do."""
    advice = plan["advice"]
    _say(out, "\nWill loops help?")
    for group in advice["groups"]:
        _say(out, f"- {group['group']}: {group['verdict']}, because {group['why'].rstrip('.')}.")
    if any(group["verdict"] == UNCLEAR for group in advice["groups"]) and plan["pilot_updates"] is None:
        _say(out, "--pilot 1000 measures what is unclear, by short training with and without loops.")
    if tried := [one["stage"] for one in advice["tried"]]:
        _say(out, f"The loops of stage {' and '.join(tried)} are tried and not proposed again.")
    if advice["longer"]:
        _say(out, f"\nTrain longer first. {' '.join(_too_early(advice))}\nAdd this stage, train, and plan again.")
        _say(out, f"\n{advice['longer']}", verbatim=True)
    if plan["mix"]:
        _say(out, f"{'Only then try loops' if advice['longer'] else 'To try loops'}: add these stages and train.")
        _say(out, f"\n{plan['mix']}", verbatim=True)
    elif not advice["longer"]:
        _say(out, "\nNo further loop is worth trying.")


def _too_early(advice: Json) -> Iterator[str]:
    if still := advice["rising"]:
        yield (
            f"Stage {still['stage']} was still rising when it ended: validation BLEU {still['bleu']:.2f} at update "
            f"{still['update']:,}, {still['earlier_bleu']:.2f} at {still['earlier_update']:,}."
        )
    if advice["weak"]:
        yield advice["weak"]


def _say(out: Console, text: str, verbatim: bool = False) -> None:
    """Print prose wrapped at words; text to be copied is not wrapped."""
    out.print(visible(text), markup=False, highlight=False, soft_wrap=verbatim)


def _shown(estimate: Sequence[Any], sign: bool = False) -> str:
    value, low, high = estimate
    centre = "-" if value is None else f"{float(value):{'+' if sign else ''}z.3f}"
    if low is None or value is None:
        return centre
    return f"{centre} ({float(low):z.2f} to {float(high):z.2f})"


def _grouped(rows: Iterable[Json], rule: str | None, keys: tuple[str, ...]) -> Iterator[tuple[list[str], list[Json]]]:
    """Rows of a rule that agree in the keys; they lie together."""
    chosen = [row for row in rows if rule is None or row["rule"] == rule]
    for key, group in groupby(chosen, key=lambda row: [row[name] for name in keys]):
        yield key, list(group)


def _print_loops(out: Console, title: str, rows: list[Json], names: dict[str, str]) -> None:
    """A row for each parameter, a column for each loop, a few loops at a time, short ones first."""
    rows = sorted(rows, key=lambda row: row["loop"].count(">"))
    for start in range(0, len(rows), _WIDE):
        part = rows[start : start + _WIDE]
        table = number_table(title, "", *(row["loop"] for row in part))
        for name, label in names.items():
            if any(name in row["values"] for row in part):
                cells = [_shown(row["values"].get(name, [None] * 3), name == "gain") for row in part]
                table.add_row(label, *cells)
        print_table(out, table)


# -- the paper's tables ----------------------------------------------------------------------------------------


def _print_paper(out: Console, tables: Json) -> None:
    where = f"{tables['before']} (p) to {tables['after']} (p^d) on {tables['set']}, unsmoothed BLEU"
    accuracy = number_table(f"Accuracy at thresholds: {where}", "pair", "", "10", "20", "paper 10", "paper 20")
    for row in tables["accuracy"]:
        if row["ours"]:  # the paper has pairs that a run may lack
            ours, theirs = map(_shown, row["ours"]), map(_two, row["paper"] or [None, None])
            accuracy.add_row(row["pair"], row["quantity"], *ours, *theirs)
    print_table(out, accuracy, names=2)
    parameters = number_table(
        f"Estimated parameters: {where}; one direction | the other",
        *("pair", "", "10", "20", "paper (en-de) 10", "paper (en-de) 20"),
    )
    for row in tables["parameters"]:
        both = [" | ".join(_two(direction[0]) for direction in cell) for cell in row["ours"]]
        printed = [" | ".join(map(_two, cell)) for cell in row["paper"]]
        parameters.add_row(row["pair"], row["quantity"], *both, *printed)
    print_table(out, parameters, names=2)


def _two(value: float | str | None) -> str:
    """Two digits; JSON has no infinity, so it arrives as a word."""
    return "-" if value is None else f"{float(value):z.2f}"


def _threshold_table(rows: Sequence[Json]) -> Table:
    """Means over loops; the way there is judged once for each loop of its direction."""
    table = number_table(
        "How wrong is the threshold? Against the exact judge, mean over loops",
        *("stage", "rule", "right by it", "right", "passed though wrong", "failed though right"),
        *("returned by it", "returned"),
    )
    by_stage: dict[str, set[str]] = {}
    for row in rows:
        by_stage.setdefault(row["stage"], set()).add(row["loop"])
    unlike = differ(by_stage.values())
    for (stage, rule), group in groupby(
        sorted(rows, key=lambda row: (row["stage"], row["rule"])), key=lambda row: (row["stage"], row["rule"])
    ):
        part = list(group)
        columns = [
            *(("right", name) for name in ("judged", "exact", "passed_though_wrong", "failed_though_right")),
            *(("home", name) for name in ("judged", "exact")),
        ]
        table.add_row(
            f"{stage} ({len(by_stage[stage])} loops)" if unlike else stage,
            rule,
            *(_mean(row[side][name][0] for row in part) for side, name in columns),
        )
    return table


def _mean(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):z.3f}" if known else "-"


# -- the plan's tables -----------------------------------------------------------------------------------------


def _loop_table(plan: Json, everything: bool) -> Table:
    """The verdict before the numbers it rests on; in short it fits a narrow terminal."""
    flown = plan["pilot_updates"] is not None
    bounds = ("can lose", "can gain", "break-even") if everything else ()
    table = number_table(
        f"Loops for stage {plan['stage']}, measured on {plan['set']}{'; 95% intervals' * everything}",
        *("direction", "loop", "trained as", "verdict", *(["pilot"] if flown else []), "right", "M", *bounds),
    )
    for direction, outlook in plan["directions"].items():
        table.add_section()
        for number, loop in enumerate(outlook["loops"]):
            pilot = [_predicted(loop["pilot"])] if flown else []
            numbers = _all_numbers(loop) if everything else [_two(loop["values"][name][0]) for name in ("p", "M")]
            names = loop["loop"], loop["trained_as"], committed(loop, plan["worth"])
            table.add_row("" if number else direction, *names, *pilot, *numbers)
    return table


def _all_numbers(loop: Json) -> list[str]:
    measured = [_shown(loop["values"][name]) for name in ("p", "M")]
    return [*measured, *(f"{bound:+z.3f}" for bound in loop["bracket"]), _two(loop["values"]["breakeven"][0])]


def _predicted(pilot: Json | None) -> str:
    return _shown(pilot["predicted"], True) if pilot else "-"


def _print_pivots(out: Console, plan: Json) -> None:
    if pivots := [pivot for outlook in plan["directions"].values() for pivot in outlook["pivots"]]:
        print_table(out, _pivot_table(pivots))


def _pivot_table(pivots: Sequence[Json]) -> Table:
    flown = any(pivot["pilot"] for pivot in pivots)
    table = number_table(
        "What a longer loop tells beyond the loop of two languages; best first in each direction",
        *("loop", "verdict", *(["pilot over dual"] if flown else [])),
        *("M beyond dual", "errors found", "false alarms", "M", "M of dual"),
    )
    for pivot in pivots:
        names = ("new_information", "coverage", "false_alarms", "M", "dual_M")
        pilot = [_predicted(pivot["pilot"])] if flown else []
        table.add_row(pivot["loop"], pivot["verdict"], *pilot, *(_shown(pivot[name]) for name in names))
    return table


def _print_zero_resource(out: Console, directions: Json, everything: bool) -> None:
    table = number_table(
        "Directions without bitext: what could train them, and what they must beat",
        *("direction", "trained as", "sources right", "or translate by", "right", "verdict"),
    )
    shown = _shown if everything else lambda estimate: _two(estimate[0])
    for direction, one in directions.items():
        table.add_section()
        ways = zip_longest(one["sources"].items(), one["through"].items(), fillvalue=("-", [None] * 3))
        for number, ((path, sources), (way, right)) in enumerate(ways):
            head, verdict = ("", "") if number else (direction, _ZERO[one["verdict"]])
            table.add_row(head, path, shown(sources), way, shown(right), verdict)
    print_table(out, table)
    for direction, one in directions.items() if everything else ():
        _say(out, f"{direction}: {_ZERO[one['verdict']]}: {one['why']}")


def _turns(plan: Json) -> str:
    """Whether the verdicts hang on the threshold."""
    same = [len({row["verdict"] for row in rows}) == 1 for rows in plan["grid"].values()]
    return (
        f"The verdict is the same at every threshold from BLEU > 10 to BLEU > 90 for {sum(same)} of {len(same)} loops "
        "(grid in plan.json)."
    )


def _print_predicted(out: Console, predicted: Json) -> None:
    for key, rows in _grouped(predicted["rows"], None, ("of", "against", "set")):
        table = number_table(
            f"Predicted against observed: gain of {key[0]} over the control {key[1]} on {key[2]}",
            *("direction", "loop", "verdict", "predicted", "observed", "right?"),
        )
        for row in rows:
            hit = "undecided" if row["hit"] is None else "yes" if row["hit"] else "no"
            gains = (_shown(row[name], True) for name in ("predicted", "observed"))
            table.add_row(row["direction"], row["loop"], row["verdict"], *gains, hit)
        print_table(out, table, names=2)
    rate = predicted["rate"]
    _say(
        out,
        f"{rate['decided']} of {rate['rows']} verdicts decided, of which {_shown(rate['hits'])} were right. "
        f"The same answer for all would be right for: helps {_shown(rate['always_helps'])}, no signal "
        f"{_shown(rate['always_no_signal'])}.",
    )
