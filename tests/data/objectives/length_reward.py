"""A reward for generated sentences about as long as the real ones beside them (`length_reward` of a mix entry)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loopmt.config import MixEntry
from loopmt.learn.objectives import Objective, PathRows, StageSettings
from loopmt.text.batch import Factors


def from_settings(settings: StageSettings) -> LengthReward | None:
    return LengthReward() if any(strength_of(entry) for entry in settings.entries) else None


def strength_of(entry: MixEntry) -> float:
    strength: float | None = entry.model_dump()["length_reward"]
    return strength or 0.0


class LengthReward(Objective):
    """Factors fall with the difference in length; their mean over a path's rows is 1."""

    def round_factors(self, rows: Sequence[PathRows]) -> list[Factors]:
        return [self.factors(one) for one in rows]

    def factors(self, rows: PathRows) -> Factors:
        if rows.generated is None or not len(rows.scores):
            return np.ones(len(rows.scores), np.float32)
        differences = np.abs(rows.sources.lengths - rows.targets.lengths)
        rewards = np.exp(-strength_of(rows.entry) * differences)
        return np.asarray(rewards / rewards.mean(), np.float32)
