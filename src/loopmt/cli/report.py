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
        int, typer.Option("--sentences", min=0, help="Test sentences sent round each loop; 0: decode nothing.")
    ] = 24,
    beam: Annotated[int, typer.Option("--beam", min=1, help="Beam width on every hop; 1: greedy.")] = 4,
) -> None:
    """Write one page about runs, finished or in training: data, loops, scores, curves, theory, sentences.

    The page is a single HTML file that needs nothing else. What was not measured yet is named with the command that
    measures it. Prints the paper's tables, with the paper's values beside those of the runs.

    Example: loopmt report loopmt-demo
    """
    from loopmt.progress import standard
    from loopmt.workflow.report import ReportOptions
    from loopmt.workflow.report import report as run_report

    written, found = run_report(runs, ReportOptions(out, sentences, beam), standard())
    _print_paper([table for run in found for table in run["paper"]])
    typer.echo(visible_message(f"written to {written}; next: open it in a browser, or loopmt serve {runs[0]}"))


def _print_paper(tables: list[dict[str, Any]]) -> None:
    from loopmt.cli.tables import console, print_table

    out = console()
    for table in tables:
        print_table(out, _table(table), names=table["heads"][0][1])


def _table(table: dict[str, Any]) -> Table:
    """A head that spans columns is written above each of them: the columns may be shown apart."""
    from loopmt.cli.tables import number_table, plain

    heads = [text for text, span in table["heads"] for _ in range(span)]
    first, *columns = (f"{head}\n{column}" for head, column in zip(heads, table["columns"], strict=True))
    drawn = number_table(table["title"], first, *columns)
    drawn.caption, drawn.caption_justify = plain(table["note"]) or None, "left"
    for row in table["rows"]:
        drawn.add_row(*map(plain, row))
    return drawn
