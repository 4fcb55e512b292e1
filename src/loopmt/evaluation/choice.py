"""The metrics of an experiment, and the facts about metrics that a scorecard records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from loopmt.config import Evaluate, MetricEntry
from loopmt.errors import ConfigError
from loopmt.evaluation.metric import Metric, MetricFacts
from loopmt.evaluation.metrics import METRICS


def chosen_metrics(settings: Evaluate, more: Iterable[str] = ()) -> list[Metric]:
    """The metrics of an experiment, then `more`; the first one is displayed first."""
    found = [chosen_metric(entry) for entry in settings.entries()]
    found += [one for name in more if (one := METRICS.find(name)).name not in {known.name for known in found}]
    names = [one.name for one in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(
            f"evaluate.metrics: {', '.join(sorted(twice))} occurs twice. Give each entry a different `name`."
        )
    return found


def chosen_metric(entry: MetricEntry) -> Metric:
    """A metric with the changes of its entry."""
    known = METRICS.find(entry.use)
    own = {key: value for key in ("name", "label", "digits") if (value := getattr(entry, key)) is not None}
    if entry.better is not None:
        own["higher_is_better"] = entry.better == "higher"
    if "label" in own:
        own["title"] = own["label"]
    return replace(known, **own)


# -- reading scorecards ----------------------------------------------------------------------------------------


def facts_of(card: Mapping[str, Any]) -> list[MetricFacts]:
    """The facts about a scorecard's metrics. Older scorecards lack them; their metrics are registered ones."""
    if "metrics" in card:
        keys = {field.name for field in fields(MetricFacts)}
        return [MetricFacts(**{key: one[key] for key in keys & one.keys()}) for one in card["metrics"]]
    return [METRICS.find(name).facts for name in METRICS if name in card.get("signatures", {})]


def first_metric(card: Mapping[str, Any]) -> MetricFacts:
    """The metric to show if only one can be shown."""
    return next(iter(facts_of(card)), METRICS.find("multi_bleu").facts)
