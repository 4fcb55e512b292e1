"""Say everything that judging a run will ask for, and judge nothing: the part that wants a GPU.

    python -m benchmarks.decoding RUN --sentences 300

Called with the same settings afterwards, evaluate, plan, analyze and report find all translations in the run's folder.
They need no weights then, so they can wait until the run is on a machine where time costs nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from loopmt.config import spoken_hops
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
    """Every test set, by every finished stage: what evaluate asks for."""
    evaluation = RunEvaluation.open(folder, EvaluateOptions(pivots=paths))
    for name in evaluation.run.finished():
        KeptTranslations.of(evaluation.run, name, beam).translate(evaluation.pairs_of(name), progress)


def inputs(folder: Path, beam: int, progress: Progress) -> None:
    """The loops of the first stage on validation text: what plan asks for."""
    asked = PlanInputs.open(folder, PlanOptions(beam=beam))
    translator = CachedTranslator.of(asked.run, asked.stage.name, beam)
    translator.round_trips(asked.starts, asked.paths, progress, f"loops of {asked.stage.name}")


def walk(folder: Path, beam: int, sentences: int, progress: Progress) -> None:
    """The loops of every finished stage on every test set: what analyze asks for, and report."""
    evaluation, store = RunEvaluation.open(folder), Store.open(folder / "store")
    for stage in evaluation.run.finished():
        hops = all_hops(evaluation.experiment.languages, spoken_hops(evaluation.experiment, stage))
        translator = CachedTranslator.of(evaluation.run, stage, beam)
        for name in store.tests:
            starts = held_out_text(store, name, hops, sentences, evaluation.experiment.data.lowercase)
            translator.round_trips(starts, loops_of(hops), progress, f"loops of {stage} on {name}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--sentences", type=int, default=300, help="rows of each test set that loops are analysed on")
    parser.add_argument("--path", action="append", default=[], help='also decode through others, as in "fr>en>es"')
    options = parser.parse_args(arguments)
    progress = standard()
    translate(options.run, options.beam, [LanguagePath.parse(path) for path in options.path], progress)
    inputs(options.run, options.beam, progress)
    walk(options.run, options.beam, options.sentences, progress)


if __name__ == "__main__":
    main()
