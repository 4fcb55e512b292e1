"""`loopmt demo`: the main job on the built-in languages."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopmt.cli.options import SetOption
from loopmt.progress import visible

if TYPE_CHECKING:
    from rich.table import Table

    from loopmt.workflow.demo import DemoOutcome

_INTRODUCTION = (
    "English, French and Spanish: 900 sentence pairs of English with each of the others, and none between French and "
    "Spanish. Three stages train one small network: `vanilla` on the bitext alone; from there `longer`, the control, "
    "on the bitext alone again, and `loops`, in which French and Spanish learn from each other through English. It "
    "takes about 6 minutes on two idle CPU cores. Watch a French sentence become Spanish."
)
_METRIC = "accuracy"


def demo(
    run: Annotated[Path, typer.Option("--run", help="Folder of the demo's run.")] = Path("loopmt-demo"),
    override: SetOption = None,
) -> None:
    """Watch two languages that share no sentence pair learn each other through a third.

    Draws English, French and Spanish from the built-in grammar, trains a few minutes on two CPU cores, and compares the
    loops with as much training on the bitext alone. The same command resumes it.

    Example: loopmt demo --run ./loopmt-demo
    """
    from loopmt.progress import standard
    from loopmt.workflow.demo import demo as run_demo

    progress = standard()
    for line in textwrap.wrap(_INTRODUCTION, 80):
        progress.say(line)
    outcome = run_demo(run, override or (), progress)
    if outcome is not None:
        _print(outcome)


def _print(outcome: DemoOutcome) -> None:
    from loopmt.cli.tables import console, print_table
    from loopmt.workflow.demo import CONTROL, LOOPS

    out = console()
    print_table(out, _scores(outcome.scorecard))
    for example in outcome.examples:
        text = f"\n{example.hop}  {example.source}\n  {CONTROL:<7} {example.control}\n  {LOOPS:<7} {example.loops}"
        out.print(visible(text), markup=False, highlight=False)
    out.print(f"\n{_sentences(outcome.scorecard)}", markup=False, highlight=False)
    page, command, run = outcome.run / "report.html", _command(sys.argv[0]), shlex.quote(str(outcome.run))
    out.print(f"\n{outcome.seconds / 60:.1f} minutes. Open {page} for the details.", markup=False, highlight=False)
    for why, verb in (("To type sentences of your own", "serve"), ("Whether more loops would help", "plan")):
        out.print(visible(f"{why}: {command} {verb} {run}"), markup=False, highlight=False, soft_wrap=True)


def _sentences(card: dict[str, Any]) -> str:
    """The result in plain sentences: where loops help, and where they do not."""
    from statistics import fmean

    from loopmt.workflow.demo import CONTROL, LOOPS, PAIR

    def share(stage: str, hops: Iterable[str]) -> str:
        directions = next(iter(card["stages"][stage]["sets"].values()))["directions"]
        return f"{fmean(directions[hop][_METRIC] for hop in hops):.0%}"

    first, second = ((str(hop),) for hop in PAIR)
    taught = next(iter(card["stages"][LOOPS]["sets"].values()))["directions"].keys() - {*first, *second}
    return (
        f"Without a single pair of French and Spanish, loops through English translate {share(LOOPS, first)} of the "
        f"French and {share(LOOPS, second)} of the Spanish test sentences exactly right; as much more training on the "
        f"bitext alone: {share(CONTROL, first)} and {share(CONTROL, second)}.\n"
        f"Where there is bitext, the mean of the {len(taught)} directions is {share(LOOPS, taught)} with loops and "
        f"{share(CONTROL, taught)} without."
    )


def _command(typed: str) -> str:
    """How `loopmt` can be typed here: `make demo` installs it in a folder that is not on the PATH."""
    name = Path(typed).name
    if name == "__main__.py":
        return f"{_place(sys.executable)} -m loopmt"
    return _place(typed) if name == "loopmt" else "loopmt"


def _place(program: str) -> str:
    """The program's name if the shell finds it on the PATH, else its shorter path, quoted for a shell."""
    found = shutil.which(Path(program).name)
    if found and Path(program).is_file() and Path(found).absolute() == Path(program).absolute():
        return Path(program).name
    return shlex.quote(min(program, os.path.relpath(program), key=len))


def _scores(card: dict[str, Any]) -> Table:
    from loopmt.cli.tables import number_table

    stages = card["stages"]
    table = number_table("exactly right translations of the test set", "direction", *stages)
    test = next(iter(next(iter(stages.values()))["sets"]))
    for hop in next(iter(stages.values()))["sets"][test]["directions"]:
        table.add_row(hop, *(f"{stage['sets'][test]['directions'][hop][_METRIC]:.0%}" for stage in stages.values()))
    return table
