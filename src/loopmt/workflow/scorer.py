"""The metrics of an evaluation, applied to the translations of a stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from loopmt.config import Experiment
from loopmt.errors import ConfigError
from loopmt.evaluation.bootstrap import Statistics
from loopmt.evaluation.choice import chosen_metrics
from loopmt.evaluation.metric import Agree, Metric, MetricInput
from loopmt.text.parallel import default_jobs, ordered_map
from loopmt.workflow.stages import exact_agreement

_WORTH_PROCESSES = 20_000  # sentences; fewer are scored before processes have started


@dataclass(frozen=True)
class Scorer:
    """Metrics, with what some of them need besides the texts."""

    metrics: Sequence[Metric]
    agree: Agree | None = None
    checkpoint: Path | None = None
    timeout: float = 3600.0

    @classmethod
    def of(cls, experiment: Experiment, more: Sequence[str] = (), checkpoint: Path | None = None) -> Scorer:
        """The metrics of an experiment and `more`; with a checkpoint, COMET too."""
        settings, agree = experiment.evaluate, exact_agreement(experiment)
        known = chosen_metrics(settings, [*more, *(["comet"] if checkpoint else [])])
        metrics = [metric for metric in known if agree or not metric.needs_judge]
        if not metrics:
            names = ", ".join(metric.name for metric in known)
            raise ConfigError(f"evaluate.metrics: {names} needs the built-in languages. Name another metric, too.")
        if checkpoint is None and settings.comet is not None:
            checkpoint = Path(settings.comet)
        return cls(metrics, agree, checkpoint, settings.timeout)

    def measures(self, texts: Sequence[MetricInput]) -> Iterator[dict[str, Statistics]]:
        """The measures by metric, one direction after the other; in several processes if that is faster."""
        apart = [metric for metric in self.metrics if metric.runs_anywhere]
        jobs = min(default_jobs(), len(texts)) if sum(len(one.hypotheses) for one in texts) >= _WORTH_PROCESSES else 1
        sent = (replace(one, sources=None) for one in texts)
        for one, found in zip(texts, ordered_map(partial(measured, apart), sent, jobs), strict=True):
            yield self._rest(one, found)

    def _rest(self, texts: MetricInput, found: Mapping[str, Statistics]) -> dict[str, Statistics]:
        texts = replace(texts, agree=self.agree, checkpoint=self.checkpoint, timeout=self.timeout)
        return {one.name: found.get(one.name) or one.measure(texts) for one in self.metrics}


def measured(metrics: Sequence[Metric], texts: MetricInput) -> dict[str, Statistics]:
    """The measures by metric; a function at module level, so that other processes can import it."""
    return {metric.name: metric.measure(texts) for metric in metrics}
