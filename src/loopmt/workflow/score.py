"""`loopmt score`: files of translations against a file of references."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from loopmt.config import Evaluate
from loopmt.errors import DataError
from loopmt.evaluation.bootstrap import Statistics, bootstrap_difference
from loopmt.evaluation.choice import chosen_metrics
from loopmt.evaluation.metric import Metric, MetricFacts, MetricInput
from loopmt.text import moses
from loopmt.text.files import read_files

Scores = dict[str, dict[str, Any]]  # by metric
_MOSES = "multi_bleu_moses"
_BUILT_IN = Evaluate(metrics=["multi_bleu", "sacrebleu", "chrf"])


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
    sources: Path | None = None
    comet: Path | None = None
    metrics: Sequence[str] = ()
    """Beside those that need no model."""


def metrics_of(options: ScoreOptions) -> list[Metric]:
    return chosen_metrics(_BUILT_IN, [*options.metrics, *(["comet"] if options.comet else [])])


def facts(options: ScoreOptions) -> list[MetricFacts]:
    """The facts about the metrics for printing."""
    found = {metric.name: metric.facts for metric in metrics_of(options)}
    plain = replace(found["multi_bleu"], label="multi-bleu")
    by_moses = [replace(plain, name=_MOSES, label="multi-bleu, Moses")] if options.language is not None else []
    return [plain, *by_moses, *(one for one in found.values() if one.name != plain.name)]


def score(options: ScoreOptions) -> Scores:
    """Scores and signatures; with another file's translations, the differences, too."""
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
    texts = MetricInput(
        _aligned(file, options.references, references),
        references,
        lowercase=options.lowercase,
        sources=_aligned(options.sources, options.references, references) if options.sources else None,
        checkpoint=options.comet,
    )
    measured = {}
    for metric in metrics_of(options):
        measured[metric.name] = metric.measure(texts)
        if metric.name == "multi_bleu" and options.language is not None:
            measured[_MOSES] = metric.measure(replace(texts, language=options.language))
    return measured


def _aligned(file: Path, other: Path, references: Sequence[str]) -> list[str]:
    texts = _read(file)
    if len(texts) != len(references):
        raise DataError(
            f"{file} has {len(texts)} lines and {other} has {len(references)}; "
            "scoring needs one hypothesis per reference, line by line."
        )
    return texts


def _compare(options: ScoreOptions, systems: dict[str, Statistics], controls: dict[str, Statistics]) -> dict[str, Any]:
    def compared(name: str) -> dict[str, Any]:
        interval = bootstrap_difference([systems[name]], [controls[name]], samples=options.samples, key=(options.seed,))
        return {"score": controls[name].score(), **asdict(interval)}

    return {name: compared(name) for name in systems}
