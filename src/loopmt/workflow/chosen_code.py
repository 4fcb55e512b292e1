"""Checks that functions which an experiment names are registered, or can be imported."""

from __future__ import annotations

from loopmt.config import Experiment, is_translator
from loopmt.evaluation.metrics import METRICS
from loopmt.evaluation.validation import LOSS
from loopmt.external import imported
from loopmt.learn.alarms import ALARMS
from loopmt.text.format import FORMATS
from loopmt.translate.filters import FILTERS
from loopmt.translate.function import find_translator
from loopmt.translate.utility import UTILITIES
from loopmt.workflow.models import find_trainable
from loopmt.workflow.trackers import TRACKERS


def check_names(experiment: Experiment) -> None:
    """Refuse unknown names before any work. Nothing is imported or run."""
    for name in [*(entry.use for entry in experiment.evaluate.entries()), *_selecting(experiment)]:
        METRICS.check(name)
    for name in experiment.guards.filters:
        FILTERS.check(name)
    for name in experiment.guards.alarms:
        ALARMS.check(name)
    for name in experiment.data.formats.values():
        FORMATS.check(name)
    for name in _trackers(experiment):
        TRACKERS.check(name)
    for name in _utilities(experiment):
        UTILITIES.check(name)


def import_for_training(experiment: Experiment) -> None:
    """Refuse names that cannot be imported or run, before hours of other work."""
    for name in _selecting(experiment):
        METRICS.find(name)
    for name in experiment.guards.filters:
        FILTERS.find(name)
    for name in experiment.guards.alarms:
        ALARMS.find(name)
    for name in experiment.data.formats.values():
        FORMATS.find(name)
    for name in _utilities(experiment):
        UTILITIES.find(name)
    for name in _objectives(experiment):
        imported(name, "objective")
    for name in _translators(experiment):
        find_translator(name)
    for name in _trainable(experiment):
        find_trainable(name)
    for name in _trackers(experiment):
        TRACKERS.find(name).check()


def training_code(experiment: Experiment) -> list[str]:
    """The names that training imports or runs."""
    guards, formats = experiment.guards, experiment.data.formats.values()
    chosen = [*guards.filters, *guards.alarms, *formats, *_utilities(experiment), *_objectives(experiment)]
    return [
        *chosen,
        *_trainable(experiment),
        *_translators(experiment),
        *_trackers(experiment),
        *_selecting(experiment),
    ]


def _objectives(experiment: Experiment) -> list[str]:
    return [name for stage in experiment.stages for name in experiment.training(stage).objectives]


def _trackers(experiment: Experiment) -> list[str]:
    return [name for stage in experiment.stages for name in experiment.training(stage).track]


def _trainable(experiment: Experiment) -> list[str]:
    return [] if experiment.model.translator is None else [experiment.model.translator]


def _translators(experiment: Experiment) -> list[str]:
    """Functions that generate on a hop."""
    given = [entry.generate for stage in experiment.stages for entry in stage.entries()]
    given += [one for stage in experiment.stages for one in (stage.auto.generate, stage.auto.teach) if one]
    settings = [one for each in given for one in (each if isinstance(each, list) else [each])]
    return [name for one in settings for name in one.generators if is_translator(name)]


def _utilities(experiment: Experiment) -> list[str]:
    """The utilities of `choose`, `keep_by` and `rewards`."""
    entries = [entry for stage in experiment.stages for entry in stage.entries()]
    choosing = [entry.choose for entry in entries if entry.candidates > 1]
    keeping = [entry.keep_by for entry in entries if entry.keep < 1]
    return list(dict.fromkeys([*choosing, *keeping, *(name for entry in entries for name in entry.rewards)]))


def _selecting(experiment: Experiment) -> list[str]:
    """The metrics that choose checkpoints."""
    names = dict.fromkeys(experiment.training(stage).select_by for stage in experiment.stages)
    return [experiment.evaluate.entry(name).use for name in names if name != LOSS]
