"""`loopmt score`: judge a file of translations against a file of references."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from loopmt.cli.tables import console, plain

if TYPE_CHECKING:
    from loopmt.workflow.score import Scores

TITLES = {
    "multi_bleu": "multi-bleu",
    "multi_bleu_moses": "multi-bleu, Moses",
    "sacrebleu": "sacreBLEU",
    "chrf": "chrF2",
}


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
    as_json: Annotated[bool, typer.Option("--json", help="Print unrounded JSON instead of a table.")] = False,
) -> None:
    """Score translations: BLEU as multi-bleu.perl and as sacreBLEU compute it, and chrF, with signatures.

    Files are UTF-8, plain, .gz, .xz or .zst. multi-bleu takes the text as it is, cut at white space; with
    --against every metric gets the difference HYP minus OTHER_HYP with a paired bootstrap interval.

    Example: loopmt score dual.fr test.fr.xz --against vanilla.fr --language fr --json
    """
    from loopmt.workflow.score import ScoreOptions
    from loopmt.workflow.score import score as run_score

    result = run_score(ScoreOptions(hypotheses, references, against, language, lowercase, samples, seed))
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    else:
        _print_tables(result, against)


def _print_tables(result: Scores, against: Path | None) -> None:
    names = [name for name in TITLES if name in result]
    scores = Table("metric", "score", Column("signature", overflow="fold"))
    for name in names:
        scores.add_row(TITLES[name], f"{result[name]['score']:.2f}", plain(result[name]["signature"]))
    console().print(scores)
    if against is None:
        return
    others = result["against"]
    differences = Table("metric", "other", "difference", "95% interval", "p", title=plain(f"against {against}"))
    for name in names:
        other = others[name]
        interval = f"{other['low']:+z.2f} to {other['high']:+z.2f}"
        row = (f"{other['score']:.2f}", f"{other['difference']:+z.2f}", interval, f"{other['p_value']:.3f}")
        differences.add_row(TITLES[name], *row)
    console().print(differences)
