"""Verbs that translate: translate and evaluate."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from loopmt.cli.options import JsonOption, RunFolder, StageOption


def translate(
    run: RunFolder,
    path: Annotated[str, typer.Argument(help='A direction "en>fr", or several hops "en>fr>es".')],
    files: Annotated[list[Path] | None, typer.Argument(help="Text files; default: standard input.")] = None,
    stage: StageOption = None,
    beam: Annotated[int, typer.Option("--beam", min=1, help="Beam width; 1: greedy.")] = 4,
    nbest: Annotated[int, typer.Option("--nbest", min=1, help="Show so many of the beam, with scores.")] = 1,
    sample: Annotated[bool, typer.Option("--sample", help="Sample instead of searching.")] = False,
    temperature: Annotated[float, typer.Option("--temperature", min=0.01, help="Of sampling.")] = 1.0,
    top_k: Annotated[int, typer.Option("--top-k", min=0, help="Sample among the k likeliest.")] = 0,
    top_p: Annotated[float, typer.Option("--top-p", min=0.01, max=1, help="Sample within this mass.")] = 1.0,
    length_penalty: Annotated[float, typer.Option("--length-penalty", min=0, help="Of the beam.")] = 1.0,
    seed: Annotated[int, typer.Option("--seed", help="Of sampling.")] = 1,
) -> None:
    """Translate text: exactly one line out for each line in.

    With --nbest N every line becomes N lines: number, score and text, separated by tabs.

    Example: echo "The cat sleeps." | loopmt translate runs/demo "en>fr"
    """
    from loopmt.config import Generate
    from loopmt.progress import standard
    from loopmt.workflow.translate import load, read_texts

    how = "sample" if sample else "beam" if beam > 1 else "greedy"
    settings = Generate(
        how=how, beam=beam, temperature=temperature, top_k=top_k, top_p=top_p, length_penalty=length_penalty
    )
    translator = load(run, stage)
    texts = read_texts(files or [])
    found = translator.nbest(texts, path, settings, nbest, seed, standard() if sys.stdout.isatty() or files else None)
    for number, candidates in enumerate(found):
        if nbest == 1:
            sys.stdout.write(candidates[0].text + "\n")
        else:
            sys.stdout.writelines(f"{number}\t{one.score:.4f}\t{one.text}\n" for one in candidates)


def evaluate(
    run: RunFolder,
    stage: StageOption = None,
    beam: Annotated[int, typer.Option("--beam", min=1, help="Beam width.")] = 4,
    samples: Annotated[int, typer.Option("--samples", min=10, help="Bootstrap samples.")] = 1000,
    as_json: JsonOption = False,
) -> None:
    """Score every direction and stage of a run on all its test sets.

    Writes RUN/scorecard.json and the translations, and prints a table with the comparisons.

    Example: loopmt evaluate runs/demo
    """
    from loopmt.progress import standard
    from loopmt.workflow.evaluate import evaluate as run_evaluate
    from loopmt.workflow.evaluate import print_scorecard

    scorecard = run_evaluate(run, [stage] if stage else None, beam, samples, standard())
    if as_json:
        typer.echo(json.dumps(scorecard))
    else:
        print_scorecard(scorecard)
