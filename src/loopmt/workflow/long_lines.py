"""Lines that are longer than the text that a run was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loopmt.config import Experiment, Stage
from loopmt.errors import DamagedError
from loopmt.path import LanguagePath
from loopmt.run import Run
from loopmt.text.manifest import Manifest
from loopmt.text.vocab import Vocab
from loopmt.workflow.stage_choice import choose_stage

_USUAL = 0.999  # share of the training rows


@dataclass(frozen=True)
class LongLines:
    """Finds lines of a language with more subwords than nearly all of the training text."""

    vocab: Vocab
    language: str
    longest: int

    @classmethod
    def of(cls, run: Run, experiment: Experiment, stage: Stage, language: str) -> LongLines | None:
        """None if the lengths are unknown, or if a pretrained checkpoint has learned from other text than the run's."""
        if experiment.model.pretrained is not None:
            return None
        try:
            lengths = _lengths(Manifest.load(run.folder / "manifest.json"), language)
        except DamagedError:
            return None
        if not lengths.sum():
            return None
        usual = int(np.searchsorted(lengths.cumsum(), _USUAL * lengths.sum()))
        return cls(Vocab.load(run.folder / "vocab"), language, min(usual, experiment.training(stage).max_length))

    def warning(self, texts: Sequence[str], first: int) -> str | None:
        """A warning about the first of these lines that is too long; `first` is the number of the first line."""
        for number, ids in enumerate(self.vocab.encode(texts, self.language), first):
            if len(ids) > self.longest:
                return (
                    f"line {number:,} has {len(ids):,} subwords, and nearly all training text in {self.language} has "
                    f"at most {self.longest:,} a line. Longer lines are often translated badly. If they hold several "
                    "sentences, add --split. Later long lines are not named."
                )
        return None


def long_lines(folder: Path, stage: str | None, path: str) -> LongLines | None:
    """For the language that a path begins with."""
    run = Run.open(folder)
    experiment = run.experiment()
    chosen = choose_stage(run, experiment, stage)
    return LongLines.of(run, experiment, chosen, LanguagePath.parse(path).languages[0])


def _lengths(manifest: Manifest, language: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """How many rows have so many subwords."""
    found = [corpus.lengths[language] for corpus in manifest.corpora if language in corpus.lengths]
    total = np.zeros(max(map(len, found), default=0), dtype=np.int64)
    for lengths in found:
        total[: len(lengths)] += lengths
    return total
