"""`mix = "auto"` in training: when the routes of a stage are measured, and the weights that are chosen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from loopmt.config import Auto, Guards, Stage, Train
from loopmt.evaluation.metric import Agree
from loopmt.evaluation.validation import HeldOut
from loopmt.learn.alarms import AlarmMonitor
from loopmt.learn.routes import Key, Route
from loopmt.planning.loop_choice import choose_loop_weights
from loopmt.planning.route_quality import (
    CandidatePath,
    RouteMeter,
    decodings,
    hops_to_estimate,
    with_shared_sources,
)
from loopmt.run import Json
from loopmt.translate.filters import SyntheticTextFilter
from loopmt.translate.walker import HopRecord, Translators

MEASURING = 0.05
"""Tokens that measurements may generate for each target token of a stage with too many routes to measure all. In time
this is less than a tenth, because the stage also generates the text that it learns from."""


@dataclass(frozen=True)
class Chooser:
    """Chooses the weights of a stage's routes by measuring them."""

    auto: Auto
    routes: Sequence[Route]
    translators: Translators
    sets: Sequence[HeldOut]
    key: Key
    guards: Guards
    agree: Agree | None
    text_filter: SyntheticTextFilter

    def __call__(self, number: int) -> tuple[Mapping[int, float], Json]:
        """The weights for round `number`, and a record for the log."""
        key = (*self.key, "choose", number)
        candidates = candidates_of(self.routes)
        sets = with_shared_sources(self.sets) if hops_to_estimate(candidates) else self.sets
        meter = RouteMeter(self.translators, sets, key, self.agree, self.text_filter, self._alarms)
        real = [route for route in self.routes if not route.synthetic]
        supervised = {route.path.taught: (route.number, self.auto.supervised) for route in real}
        choice = choose_loop_weights(meter, candidates, supervised)
        return choice.weights, choice.as_json()

    def _alarms(self, records: Iterable[tuple[int, HopRecord]]) -> Mapping[int, str]:
        """What the alarms of [guards] say against routes."""
        monitor = AlarmMonitor(self.routes, guards=self.guards)
        monitor.add(records)
        monitor.window()
        return {alarm.route: f"{alarm.hop}: {alarm.what}" for alarm in monitor.alarms()}


def candidates_of(routes: Sequence[Route]) -> list[CandidatePath]:
    return [
        CandidatePath(route.number, route.path, route.settings, route.entry_number)
        for route in routes
        if route.synthetic
    ]


def measuring_interval(stage: Stage, train: Train, routes: Sequence[Route], sets: Sequence[HeldOut]) -> int:
    """Rounds between two measurements; from sizes alone, so that a resumed stage measures in the same rounds."""
    candidates = candidates_of(routes)
    if not sets or not hops_to_estimate(candidates):
        return stage.auto.measure_every
    sentences = sum(len(pairs.sources) for pairs in sets) / len(sets)
    length = fmean(float(pairs.references.ids.lengths.mean()) + 1 for pairs in sets)
    measured = decodings(candidates) * sentences * length
    learnt = train.round * train.tokens * len({route.path.taught for route in routes})
    return max(stage.auto.measure_every, math.ceil(measured / (MEASURING * learnt)))
