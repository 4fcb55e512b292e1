"""The verbs export and import."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loopmt.cli.options import RunFolder, StageOption, quoted
from loopmt.cli.tables import console, number_table, print_table
from loopmt.errors import ConfigError
from loopmt.progress import visible_message

if TYPE_CHECKING:
    from loopmt.export.parity import Parity


class To(StrEnum):
    hf = "hf"
    ct2 = "ct2"


class From(StrEnum):
    hf = "hf"


class Type(StrEnum):
    float32 = "float32"
    int8 = "int8"
    int8_float16 = "int8_float16"


def export(
    run: RunFolder,
    to: Annotated[To, typer.Option("--to", help="What to write: Hugging Face folders or CTranslate2 models.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to make: one inside it for each network.")],
    stage: StageOption = None,
    kind: Annotated[Type, typer.Option("--type", help="How CTranslate2 stores numbers; for ct2 only.")] = Type.float32,
    sentences: Annotated[
        int, typer.Option("--sentences", min=1, help="Sentences on which each direction is checked.")
    ] = 100,
    merge: Annotated[
        bool,
        typer.Option(
            "--merge", help="Of a checkpoint trained with LoRA, write the whole checkpoint instead of the adapter."
        ),
    ] = False,
) -> None:
    """Write every network of a stage for other programs, with its tokenizer, and check that it translates the same.

    The folder is written only if the check passes: the same subwords, the same greedy translations and, for Hugging
    Face, logits within 1e-4. For int8 the share of equal translations and the difference in BLEU are printed.

    Example: loopmt export loopmt-demo --to hf --out exported
    """
    from loopmt.progress import standard
    from loopmt.workflow.export import ExportOptions
    from loopmt.workflow.export import export as run_export
    from loopmt.workflow.stage_choice import stage_line

    if to is To.hf and kind is not Type.float32:
        raise ConfigError(
            f"--type {kind.value} is for --to ct2: Hugging Face folders hold float32. Leave it out, or write --to ct2."
        )
    typer.echo(visible_message(f"loopmt: {stage_line(run, stage)}"), err=True)
    parities = run_export(run, ExportOptions(to.value, out, stage, kind.value, sentences, merge), standard())
    _print_parities(parities)
    typer.echo(visible_message(f"written to {out}; how to use each folder is in its README.md"))


def import_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A Hugging Face checkpoint on this machine.")],
    direction: Annotated[str, typer.Option("--direction", help='What it translates, as in "en>fr".', callback=quoted)],
    run: Annotated[Path, typer.Option("--run", help="The run's folder; it need not exist yet.")],
    origin: Annotated[From, typer.Option("--from", help="What kind of checkpoint it is.")] = From.hf,
    prefix: Annotated[
        str, typer.Option("--prefix", help='Text before every source, such as ">>fra<<" or "<2fr>".')
    ] = "",
    source_code: Annotated[
        str | None,
        typer.Option("--source-code", help="Code of the source language in its tokenizer, such as eng_Latn."),
    ] = None,
    target_code: Annotated[
        str | None, typer.Option("--target-code", help="Code of the target language, such as fra_Latn.")
    ] = None,
) -> None:
    """Put a pretrained translator into a run, to start training from or to generate text.

    Marian and Pegasus checkpoints, and exports of loopmt, can do both, unless all directions share one network. Any
    other translation model can generate. Reads safetensors, JSON and subword models; refuses pickle files.

    Example: loopmt import opus-mt-en-fr --direction "en>fr" --run runs/mine
    """
    from loopmt.pretrained.checkpoint import ImportOptions
    from loopmt.workflow.importing import direction as parse
    from loopmt.workflow.importing import import_translator

    imported = import_translator(folder, run, ImportOptions(parse(direction), prefix, source_code, target_code))
    typer.echo(visible_message(f"imported to {imported.folder}; in the experiment:"))
    typer.echo(f'\n[[imported]]\ndirection = "{direction}"')
    if imported.model:
        keys = ", ".join(f"{key} = {json.dumps(value)}" for key, value in imported.model.items())
        typer.echo(f'use = "start"  # with [model] {keys}; or use = "generator"')
    else:
        typer.echo('use = "generator"')


def _print_parities(parities: list[Parity]) -> None:
    columns = ("sentences", "same greedy", "logits differ by", "BLEU", "difference")
    table = number_table("exported translators compared with loopmt", "direction", *columns)
    for parity in parities:
        table.add_row(
            parity.direction,
            str(parity.sentences),
            f"{parity.agreement:.1%}" + (f" (+{parity.ties} ties)" if parity.ties else ""),
            "-" if parity.logits is None else f"{parity.logits:.1e}",
            "-" if parity.bleu is None else f"{parity.bleu:.2f}",
            "-" if parity.bleu_difference is None else f"{parity.bleu_difference:+z.2f}",
        )
    print_table(console(), table)
