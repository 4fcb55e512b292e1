"""The definition of a metric: a function of translations and references, and facts for displaying its scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from loopmt.errors import ConfigError, DataError, ExternalError
from loopmt.evaluation.bootstrap import FloatArray, Statistics, mean_statistics
from loopmt.external import Command, is_command
from loopmt.path import Hop
from loopmt.registry import Registry

Texts = Sequence[str]
Agree = Callable[[str, str, str, str], bool]
"""Whether a translation has the same meaning; arguments: source, its language, translation, its language."""


@dataclass(frozen=True)
class MetricInput:
    """Translations of one direction, to be scored against references."""

    hypotheses: Texts
    references: Texts
    language: str | None = None  # of both, for the Moses tokenizer; None: split at white space
    lowercase: bool = False
    sources: Texts | None = None
    hop: Hop | None = None  # if known
    agree: Agree | None = None  # the exact judge, if there is one
    checkpoint: Path | None = None  # of COMET
    timeout: float = 3600.0  # seconds for a program


@dataclass(frozen=True)
class MetricFacts:
    """How to display the scores of a metric. A scorecard records them for each of its metrics."""

    name: str
    label: str
    title: str
    higher_is_better: bool = True
    digits: int = 2
    by_direction: bool = True  # else tables show only its means

    @property
    def heading(self) -> str:
        return self.label if self.higher_is_better else f"{self.label} ↓"

    def number(self, value: float | None, sign: bool = False) -> str:
        return "-" if value is None else f"{value:{'+' if sign else ''}z.{self.digits}f}"

    def interval(self, one: Mapping[str, float]) -> str:
        low, high = (self.number(one[end], sign=True) for end in ("low", "high"))
        return f"{self.number(one['difference'], sign=True)} ({low} to {high})"

    def difference(self, one: Mapping[str, float]) -> str:
        """The difference for use in a sentence: +1.33 BLEU (+0.13 to +2.29)."""
        number, _, interval = self.interval(one).partition(" ")
        return f"{number} {self.heading} {interval}"

    def gain(self, one: Mapping[str, float]) -> int:
        """1: a significant gain, -1: a significant loss, 0: neither."""
        sign = (one["low"] > 0) - (one["high"] < 0)
        return sign if self.higher_is_better else -sign


@dataclass(frozen=True)
class Metric:
    """A function and the facts for displaying its scores.

    The function returns a number for each sentence, whose mean is the score, or `Statistics` if the corpus score is not
    a mean.
    """

    name: str
    function: Callable[[MetricInput], Statistics | Sequence[float] | FloatArray]
    label: str = ""
    title: str = ""  # of its table
    higher_is_better: bool = True
    digits: int = 2
    by_direction: bool = True
    signature: str = ""  # of means of numbers
    needs_sources: bool = False
    needs_judge: bool = False
    surface: bool = False  # compares only words or characters

    @property
    def facts(self) -> MetricFacts:
        label = self.label or _short(self.name)
        return MetricFacts(self.name, label, self.title or label, self.higher_is_better, self.digits, self.by_direction)

    @property
    def runs_anywhere(self) -> bool:
        """Whether it can be computed in another process."""
        return self.surface and self.function.__module__.startswith("loopmt.")

    def measure(self, texts: MetricInput) -> Statistics:
        if self.needs_sources and texts.sources is None:
            raise ConfigError(f'metric "{self.name}" needs the source sentences. Give them with --sources.')
        found = self.function(texts)
        statistics = found if isinstance(found, Statistics) else self._mean(found)
        if len(statistics.rows) != len(texts.hypotheses):
            raise self._wrong(f"{len(statistics.rows)} numbers for {len(texts.hypotheses)} sentences")
        return statistics

    def _mean(self, values: Any) -> Statistics:
        try:
            numbers = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise self._wrong(f"a {type(values).__name__} that is not a list of numbers") from None
        if numbers.ndim != 1 or not np.isfinite(numbers).all():
            raise self._wrong("numbers that are not one finite number for each sentence")
        return mean_statistics(numbers, self.signature or f"{self.name}|mean")

    def _wrong(self, what: str) -> ExternalError:
        return ExternalError(
            f'metric "{self.name}" returned {what}. Return one finite number for each hypothesis, or `Statistics`.'
        )


def _short(name: str) -> str:
    """The label of a function or program without one."""
    if is_command(name):
        return PurePath(Command.parse(name).words[0]).stem
    return name.rpartition(":")[2]


def _from_command(command: Command) -> Callable[[MetricInput], list[float]]:
    """A metric that runs a program on rows of source, hypothesis and reference; an unknown source is empty."""

    def function(texts: MetricInput) -> list[float]:
        sources = texts.sources or [""] * len(texts.hypotheses)
        rows = list(zip(sources, texts.hypotheses, texts.references, strict=True))
        languages = (texts.hop.source, texts.hop.target) if texts.hop else None
        return command.numbers(rows, texts.timeout, languages)

    return function


METRICS: Registry[Metric] = Registry("metric", Metric, _from_command)
metric = METRICS.register


def check_parallel(**sides: Texts) -> None:
    counts = {name: len(texts) for name, texts in sides.items()}
    if len(set(counts.values())) > 1 or 0 in counts.values():
        counted = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise DataError(f"scoring needs the same number of sentences on every side, at least one: {counted}.")
