"""The learning rate schedule."""

from __future__ import annotations

import math

from loopmt.config import Train


def learning_rate(train: Train, update: int, budget: int | None = None) -> float:
    """The rate of update `update`, counted from 1: linear warmup, then the schedule, up to the budget."""
    assert train.learning_rate is not None and train.warmup is not None, "Experiment.training() fills these"
    if update < train.warmup:
        return train.learning_rate * update / train.warmup
    if train.schedule == "constant":
        return train.learning_rate
    if train.schedule == "linear":
        last = train.max_updates if budget is None else budget
        return train.learning_rate * max(0, last + 1 - update) / max(1, last + 1 - train.warmup)
    return train.learning_rate * math.sqrt(max(train.warmup, 1) / update)
