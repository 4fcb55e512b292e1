"""`loopmt score`: judge a file of translations against a file of references."""

from __future__ import annotations

import gzip
import json
import lzma
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from loopmt.cli.tables import plain
from loopmt.errors import DataError

if TYPE_CHECKING:
    from loopmt.judge.bootstrap import Statistics

Result = dict[str, dict[str, Any]]
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
    samples: Annotated[int, typer.Option(min=1, help="Bootstrap samples for --against.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print unrounded JSON instead of a table.")] = False,
) -> None:
    """Score translations: BLEU as multi-bleu.perl and as sacreBLEU compute it, and chrF, with signatures.

    Files are UTF-8, plain, .gz or .xz. multi-bleu takes the text as it is, cut at white space; with
    --against every metric gets the difference HYP minus OTHER_HYP with a paired bootstrap interval.

    Example: loopmt score dual.fr test.fr.xz --against vanilla.fr --language fr --json
    """
    reference_texts = read_lines(references)
    measured = _measure(hypotheses, references, reference_texts, language, lowercase)
    result: Result = {name: asdict(statistics.summary()) for name, statistics in measured.items()}
    if against is not None:
        controls = _measure(against, references, reference_texts, language, lowercase)
        result["against"] = _compare(measured, controls, samples, seed)
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    else:
        _print_tables(result, against)


def _measure(
    path: Path, reference_path: Path, references: list[str], language: str | None, lowercase: bool
) -> dict[str, Statistics]:
    from loopmt.judge.score import chrf_statistics, multi_bleu_statistics, sacre_bleu_statistics

    texts = read_lines(path)
    if len(texts) != len(references):
        raise DataError(
            f"{path} has {len(texts)} lines and {reference_path} has {len(references)}; "
            "scoring needs one hypothesis per reference, line by line."
        )
    measured = {"multi_bleu": multi_bleu_statistics(texts, references, lowercase=lowercase)}
    if language is not None:
        tokenised = multi_bleu_statistics(texts, references, language=language, lowercase=lowercase)
        measured["multi_bleu_moses"] = tokenised
    measured["sacrebleu"] = sacre_bleu_statistics(texts, references, lowercase=lowercase)
    measured["chrf"] = chrf_statistics(texts, references, lowercase=lowercase)
    return measured


def _compare(
    systems: dict[str, Statistics], controls: dict[str, Statistics], samples: int, seed: int
) -> dict[str, Any]:
    from loopmt.judge.bootstrap import bootstrap_difference

    def compared(name: str) -> dict[str, Any]:
        interval = bootstrap_difference([systems[name]], [controls[name]], samples=samples, key=(seed,))
        return {"score": controls[name].score(), **asdict(interval)}

    return {name: compared(name) for name in systems}


def _print_tables(result: Result, against: Path | None) -> None:
    names = [name for name in TITLES if name in result]
    scores = Table("metric", "score", Column("signature", overflow="fold"))
    for name in names:
        scores.add_row(TITLES[name], f"{result[name]['score']:.2f}", plain(result[name]["signature"]))
    Console().print(scores)
    if against is None:
        return
    others = result["against"]
    differences = Table("metric", "other", "difference", "95% interval", "p", title=plain(f"against {against}"))
    for name in names:
        other = others[name]
        interval = f"{other['low']:+.2f} to {other['high']:+.2f}"
        row = (f"{other['score']:.2f}", f"{other['difference']:+.2f}", interval, f"{other['p_value']:.3f}")
        differences.add_row(TITLES[name], *row)
    Console().print(differences)


def read_lines(path: Path) -> list[str]:
    """The sentences of a UTF-8 file, plain, .gz or .xz; only a line feed ends a sentence."""
    openers: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".xz": lzma.decompress}
    try:
        content = openers.get(path.suffix, bytes)(path.read_bytes())
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file; scoring needs a file with one sentence per line.") from error
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}.") from error
    if not content:
        raise DataError(f"{path} is empty; scoring needs at least one line.")
    lines = content.removesuffix(b"\n").split(b"\n")
    return [_decode(line, path, number) for number, line in enumerate(lines, start=1)]


def _decode(line: bytes, path: Path, number: int) -> str:
    try:
        return line.removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}, line {number}: not UTF-8 ({error.reason}); convert the file first.") from error
