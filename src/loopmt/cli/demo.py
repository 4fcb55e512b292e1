"""`loopmt demo`: the main job on the built-in languages."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopmt.cli.options import SetOption
from loopmt.progress import visible

if TYPE_CHECKING:
    from rich.table import Table

    from loopmt.evaluation.metric import MetricFacts
    from loopmt.workflow.demo import DemoOutcome

_SHOWN = ("accuracy", "multi_bleu")


def demo(
    run: Annotated[Path, typer.Option("--run", help="Folder of the demo's run.")] = Path("loopmt-demo"),
    override: SetOption = None,
) -> None:
    """Watch three languages learn from each other, in minutes on a CPU.

    Draws English, French and Spanish from the built-in grammar, with little parallel and more monolingual text,
    trains vanilla, dual and multi-step translators and their controls, and shows what the loops brought.

    Example: loopmt demo --run ./loopmt-demo
    """
    from loopmt.progress import standard
    from loopmt.workflow.demo import demo as run_demo

    outcome = run_demo(run, override or (), standard())
    if outcome is not None:
        _print(outcome)


def _print(outcome: DemoOutcome) -> None:
    from loopmt.cli.tables import console, print_table
    from loopmt.evaluation.choice import facts_of

    out = console()
    card = outcome.scorecard
    known = {metric.name: metric for metric in facts_of(card)}
    metrics = [known[name] for name in _SHOWN]
    for metric in metrics:
        print_table(out, _scores(card, metric))
    print_table(out, _gains(card, metrics), names=2)
    print_table(out, _theory(outcome.theory))
    for example in outcome.examples:
        said = f"\n{example.hop}  {example.source}\n  vanilla     {example.before}\n  multi-step  {example.after}"
        out.print(visible(said), markup=False, highlight=False)
    page = outcome.run / "report.html"
    out.print(f"\n{outcome.seconds / 60:.1f} minutes. The page to look at: {page}", markup=False, highlight=False)
    command, run = _command(sys.argv[0]), shlex.quote(str(outcome.run))
    for why, verb in (("Next, to translate and look closer", "serve"), ("Whether more loops would help", "plan")):
        out.print(visible(f"{why}: {command} {verb} {run}"), markup=False, highlight=False, soft_wrap=True)


def _command(typed: str) -> str:
    """How `loopmt` can be typed here again: `make demo` leaves it in a folder that no shell looks into."""
    name = Path(typed).name
    if name == "__main__.py":
        return f"{_place(sys.executable)} -m loopmt"
    return _place(typed) if name == "loopmt" else "loopmt"


def _place(program: str) -> str:
    """Its name where a shell finds this very program by it, else its path, the shorter way; as a shell reads it."""
    found = shutil.which(Path(program).name)
    if found and Path(program).is_file() and Path(found).absolute() == Path(program).absolute():
        return Path(program).name
    return shlex.quote(min(program, os.path.relpath(program), key=len))


def _scores(card: dict[str, Any], metric: MetricFacts) -> Table:
    from loopmt.cli.tables import number_table

    stages = card["stages"]
    table = number_table(metric.label, "direction", *stages)
    test = next(iter(next(iter(stages.values()))["sets"]))
    for hop in next(iter(stages.values()))["sets"][test]["directions"]:
        cells = [metric.number(stage["sets"][test]["directions"][hop][metric.name]) for stage in stages.values()]
        table.add_row(hop, *cells)
    table.add_section()
    table.add_row("mean", *[metric.number(stage["sets"][test]["mean"][metric.name]) for stage in stages.values()])
    return table


def _gains(card: dict[str, Any], metrics: Sequence[MetricFacts]) -> Table:
    from loopmt.cli.tables import number_table

    table = number_table(
        "gains over the control, 95% intervals", "stage", "control", *(metric.label for metric in metrics)
    )
    for comparison in card["comparisons"]:
        cells = [metric.interval(comparison["joint"][metric.name]) for metric in metrics]
        table.add_row(comparison["of"], comparison["against"], *cells)
    return table


def _theory(rows: list[dict[str, Any]]) -> Table:
    from loopmt.cli.tables import number_table

    table = number_table(
        "the theory, checked: accuracy of the first hop before and after dual learning",
        *("loop", "before", "after, counted", "exact formula", "Theorem 1 as printed"),
    )
    for row in rows:
        numbers = [row[name] for name in ("before", "after", "exact_formula", "theorem1")]
        table.add_row(row["loop"], *[f"{number:z.4f}" for number in numbers])
    return table
