"""The translations of test sets that `evaluate` keeps in a run: where they are, and others in their place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loopmt.path import LanguagePath
from loopmt.workflow.evaluate import EvaluateOptions, RunEvaluation
from loopmt.workflow.kept_translations import KeptTranslations


def kept_files(run: Path, stage: str, path: str = "", beam: int = 1) -> list[Path]:
    """The files of a stage, or of one of its directions on the test set `test`."""
    names = f"{path.replace('>', '-')}.*.txt" if path else "*.txt"
    return sorted((run / "stages" / stage / "translations").glob(f"*-beam{beam}/test/{names}"))


def replace_translations(run: Path, stage: str, path: str, translations: Sequence[str], beam: int = 1) -> None:
    """As if the stage had translated the test set so."""
    walk = LanguagePath.parse(path)
    options = EvaluateOptions(beam=beam, pivots=[walk] if len(walk.hops) > 1 else [])
    evaluation = RunEvaluation.open(run, options)
    (pairs,) = [pairs for pairs in evaluation.pairs if pairs.test.path == walk and pairs.test.name == "test"]
    for file in kept_files(run, stage, path, beam):
        file.unlink()
    KeptTranslations.of(evaluation.run, stage, beam).keep(pairs, translations)
