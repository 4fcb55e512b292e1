"""Decode all translations that the evaluation of a run needs, without scoring them: the part that needs a GPU.

    python -m benchmarks.decoding RUN --sentences 300

Afterwards evaluate, plan, analyze and report find all translations in the run folder if they have the same settings.
They need no weights then, so they can run on another machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from loopmt.config import available_hops
from loopmt.path import LanguagePath
from loopmt.planning.round_trips import held_out_text, loops_of
from loopmt.progress import Progress, standard
from loopmt.text.store import Store
from loopmt.translate.networks import all_hops
from loopmt.workflow.cached_translator import CachedTranslator
from loopmt.workflow.evaluate import EvaluateOptions, RunEvaluation
from loopmt.workflow.kept_translations import KeptTranslations
from loopmt.workflow.plan import PlanInputs, PlanOptions


def translate(folder: Path, beam: int, paths: Sequence[LanguagePath], progress: Progress) -> None:
    """Every test set by every finished stage, for evaluate."""
    evaluation = RunEvaluation.open(folder, EvaluateOptions(pivots=paths))
    for name in evaluation.run.finished():
        KeptTranslations.of(evaluation.run, name, beam).translate(evaluation.pairs_of(name), progress)


def inputs(folder: Path, beam: int, progress: Progress) -> None:
    """The loops of the first stage on validation text, for plan."""
    asked = PlanInputs.open(folder, PlanOptions(beam=beam))
    translator = CachedTranslator.of(asked.run, asked.stage.name, beam)
    translator.round_trips(asked.starts, asked.paths, progress, f"loops of {asked.stage.name}")


def round_trips(folder: Path, beam: int, sentences: int, progress: Progress) -> None:
    """The loops of every finished stage on every test set, for analyze and report."""
    evaluation, store = RunEvaluation.open(folder), Store.open(folder / "store")
    for stage in evaluation.run.finished():
        hops = all_hops(evaluation.experiment.languages, available_hops(evaluation.experiment, stage))
        translator = CachedTranslator.of(evaluation.run, stage, beam)
        for name in store.tests:
            starts = held_out_text(store, name, hops, sentences, evaluation.experiment.data.lowercase)
            translator.round_trips(starts, loops_of(hops), progress, f"loops of {stage} on {name}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--sentences", type=int, default=300, help="rows of each test set for the analysis of loops")
    parser.add_argument(
        "--path", action="append", default=[], help='also decode along a pivot path, such as "fr>en>es"'
    )
    options = parser.parse_args(arguments)
    progress = standard()
    translate(options.run, options.beam, [LanguagePath.parse(path) for path in options.path], progress)
    inputs(options.run, options.beam, progress)
    round_trips(options.run, options.beam, options.sentences, progress)


if __name__ == "__main__":
    main()
