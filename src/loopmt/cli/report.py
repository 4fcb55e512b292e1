"""The verb that writes a page about runs: report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loopmt.progress import visible_message

if TYPE_CHECKING:
    from rich.table import Table


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, shown side by side.", metavar="RUN...")],
    out: Annotated[
        Path | None, typer.Option("--out", help="The file; default: RUN/report.html, of several runs report.html.")
    ] = None,
    sentences: Annotated[
        int, typer.Option("--sentences", min=0, help="Test sentences translated along each loop, as examples; 0: none.")
    ] = 24,
    beam: Annotated[int, typer.Option("--beam", min=1, help="Beam width on every hop; 1: greedy.")] = 4,
    paper: Annotated[
        bool, typer.Option("--paper", help="Also the tables of the paper, its values beside those of the runs.")
    ] = False,
) -> None:
    """Write a page about one run or several: scores, comparisons, curves, data, loops, example sentences.

    The page is a single HTML file that needs nothing else. Runs may still be training. For everything that was not
    measured yet, the page names the command that measures it. Prints the comparisons of the experiment.

    Example: loopmt report loopmt-demo
    """
    from loopmt.progress import standard
    from loopmt.workflow.report import ReportOptions
    from loopmt.workflow.report import report as run_report

    written, found = run_report(runs, ReportOptions(out, sentences, beam, paper), standard())
    for run in found:
        _print_comparisons(run)
    if paper:
        _print_paper([table for run in found for table in run["paper"]])
    typer.echo(visible_message(f"written to {written}; next: open it in a browser, or loopmt serve {runs[0]}"))


def _print_comparisons(run: dict[str, Any]) -> None:
    """The gains of the stages over their controls."""
    from loopmt.cli.tables import console, plain
    from loopmt.evaluation.choice import first_metric

    first = first_metric(run["scores"] or {})
    for one in run["scores"]["comparisons"] if run["scores"] else []:
        hops = {hop for found in one["sets"].values() for hop in found["directions"]}
        difference = f"{first.difference(one['joint'][first.name])}, mean of {len(hops)} directions"
        console().print(plain(f"{run['name']}: {one['of']} less {one['against']}: {difference}"), highlight=False)


def _print_paper(tables: list[dict[str, Any]]) -> None:
    from loopmt.cli.tables import console, print_table

    out = console()
    for table in tables:
        print_table(out, _table(table), names=table["heads"][0][1])


def _table(table: dict[str, Any]) -> Table:
    """A heading over several columns is repeated above each, because columns may be printed apart."""
    from loopmt.cli.tables import number_table, plain

    heads = [text for text, span in table["heads"] for _ in range(span)]
    first, *columns = (f"{head}\n{column}" for head, column in zip(heads, table["columns"], strict=True))
    drawn = number_table(table["title"], first, *columns)
    drawn.caption, drawn.caption_justify = plain(table["note"]) or None, "left"
    for row in table["rows"]:
        drawn.add_row(*map(plain, row))
    return drawn
