"""Which metrics an experiment has, and what a scorecard says of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from loopmt.config import Evaluate, MetricEntry
from loopmt.errors import ConfigError
from loopmt.evaluation import metrics
from loopmt.evaluation.metric import Metric, MetricFacts

METRICS = metrics.METRICS  # with all that are built in


def chosen_metrics(settings: Evaluate, more: Iterable[str] = ()) -> list[Metric]:
    """The metrics of an experiment, and others; the first is the one that is shown first."""
    found = [_chosen(entry) for entry in settings.entries()]
    found += [one for name in more if (one := METRICS.find(name)).name not in {known.name for known in found}]
    names = [one.name for one in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"evaluate.metrics: {', '.join(sorted(twice))} occurs twice. Give each a `name` of its own.")
    return found


def _chosen(entry: MetricEntry) -> Metric:
    known = METRICS.find(entry.use)
    own = {key: value for key in ("name", "label", "digits") if (value := getattr(entry, key)) is not None}
    if entry.better is not None:
        own["higher_is_better"] = entry.better == "higher"
    if "label" in own:
        own["title"] = own["label"]
    return replace(known, **own)


# -- reading scorecards ----------------------------------------------------------------------------------------


def facts_as_json(metrics: Iterable[Metric]) -> dict[str, dict[str, Any]]:
    return {one.name: asdict(one.facts) for one in metrics}


def facts_of(card: Mapping[str, Any]) -> dict[str, MetricFacts]:
    """What a scorecard says of its metrics, the first first. Older ones say nothing: they have registered ones."""
    if "metrics" in card:
        keys = {field.name for field in fields(MetricFacts)}
        return {name: MetricFacts(**{key: one[key] for key in keys & one.keys()}) for name, one in card["metrics"].items()}
    known = [name for name in METRICS if name in card.get("signatures", {})]
    return {name: METRICS.find(name).facts for name in known}
