"""`loopmt score`: judge a file of translations against a file of references."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from loopmt.cli.options import CometOption, MetricOption
from loopmt.cli.tables import console, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loopmt.evaluation.metric import MetricFacts
    from loopmt.workflow.score import Scores


def score(
    hypotheses: Annotated[Path, typer.Argument(metavar="HYP", help="Translations, one sentence per line.")],
    references: Annotated[Path, typer.Argument(metavar="REF", help="References, one sentence per line.")],
    against: Annotated[
        Path | None, typer.Option(metavar="OTHER_HYP", help="Another system's translations to compare with.")
    ] = None,
    language: Annotated[
        str | None, typer.Option(metavar="XX", help="Also BLEU on Moses tokens of this language, such as fr.")
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lower-case both sides first.")] = False,
    samples: Annotated[int, typer.Option(min=1, help="Number of bootstrap samples for --against.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 1,
    metric: MetricOption = None,
    comet: CometOption = None,
    sources: Annotated[
        Path | None, typer.Option("--sources", metavar="SRC", help="The sources, for metrics that need them.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print unrounded JSON instead of a table.")] = False,
) -> None:
    """Score translations: BLEU as multi-bleu.perl and as sacreBLEU compute it, and chrF, with signatures.

    Files are UTF-8, plain, .gz, .xz or .zst. multi-bleu splits the text at white space. With --against, every metric
    also gets the difference HYP minus OTHER_HYP with its interval (paired bootstrap).

    --metric adds metrics: a built-in name, "module:function" or "command:PROGRAM ARGS...".

    Example: loopmt score dual.fr test.fr.xz --against vanilla.fr --language fr --json
    """
    from loopmt.workflow.score import ScoreOptions, facts
    from loopmt.workflow.score import score as run_score

    options = ScoreOptions(
        hypotheses, references, against, language, lowercase, samples, seed, sources, comet, tuple(metric or ())
    )
    result = run_score(options)
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    else:
        _print_tables(result, facts(options), against)


def _print_tables(result: Scores, metrics: Sequence[MetricFacts], against: Path | None) -> None:
    scores = Table("metric", "score", Column("signature", overflow="fold"))
    for one in metrics:
        found = result[one.name]
        scores.add_row(plain(one.heading), one.number(found["score"]), plain(found["signature"]))
    console().print(scores)
    if against is None:
        return
    others = result["against"]
    differences = Table("metric", "other", "difference", "95% interval", "p", title=plain(f"against {against}"))
    for one in metrics:
        other = others[one.name]
        difference, low, high = (one.number(other[key], sign=True) for key in ("difference", "low", "high"))
        row = (one.number(other["score"]), difference, f"{low} to {high}", f"{other['p_value']:.3f}")
        differences.add_row(plain(one.heading), *row)
    console().print(differences)
