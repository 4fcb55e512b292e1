"""`loopmt score`: files of translations against a file of references, by every metric that needs no model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loopmt.errors import DataError
from loopmt.evaluation.bootstrap import Statistics, bootstrap_difference
from loopmt.evaluation.metrics import chrf_statistics, multi_bleu_statistics, sacre_bleu_statistics
from loopmt.text import moses
from loopmt.text.files import read_files

Scores = dict[str, dict[str, Any]]  # by metric


@dataclass(frozen=True)
class ScoreOptions:
    """What the user asked for."""

    hypotheses: Path
    references: Path
    against: Path | None = None
    language: str | None = None
    lowercase: bool = False
    samples: int = 1000
    seed: int = 1


def score(options: ScoreOptions) -> Scores:
    """Scores and signatures; beside another file's translations, the differences too."""
    if options.language is not None and not moses.knows(options.language):
        warnings.warn(
            f"Moses has no rules for --language {options.language} and cuts its text as it cuts English. "
            "Write a code such as fr or pt_BR.",
            stacklevel=2,
        )
    references = _read(options.references)
    measured = _measure(options, options.hypotheses, references)
    found = {name: asdict(statistics.summary()) for name, statistics in measured.items()}
    if options.against is not None:
        found["against"] = _compare(options, measured, _measure(options, options.against, references))
    return found


def _read(file: Path) -> list[str]:
    texts = list(read_files([file]))
    if not texts:
        raise DataError(f"{file} is empty; scoring needs at least one line.")
    return texts


def _measure(options: ScoreOptions, file: Path, references: Sequence[str]) -> dict[str, Statistics]:
    texts, lowercase = _read(file), options.lowercase
    if len(texts) != len(references):
        raise DataError(
            f"{file} has {len(texts)} lines and {options.references} has {len(references)}; "
            "scoring needs one hypothesis per reference, line by line."
        )
    measured = {"multi_bleu": multi_bleu_statistics(texts, references, lowercase=lowercase)}
    if options.language is not None:
        tokenised = multi_bleu_statistics(texts, references, language=options.language, lowercase=lowercase)
        measured["multi_bleu_moses"] = tokenised
    measured["sacrebleu"] = sacre_bleu_statistics(texts, references, lowercase=lowercase)
    measured["chrf"] = chrf_statistics(texts, references, lowercase=lowercase)
    return measured


def _compare(options: ScoreOptions, systems: dict[str, Statistics], controls: dict[str, Statistics]) -> dict[str, Any]:
    def compared(name: str) -> dict[str, Any]:
        interval = bootstrap_difference([systems[name]], [controls[name]], samples=options.samples, key=(options.seed,))
        return {"score": controls[name].score(), **asdict(interval)}

    return {name: compared(name) for name in systems}
