"""The learning rate of every update, by schedule, warmup and budget."""

from __future__ import annotations

import pytest

from loopmt.config import Train
from loopmt.learn.schedule import learning_rate


@pytest.mark.parametrize(
    ("schedule", "warmup", "rates"),
    [
        ("inverse_sqrt", 4, {1: 0.25, 2: 0.5, 4: 1.0, 16: 0.5, 64: 0.25}),
        ("constant", 4, {1: 0.25, 4: 1.0, 16: 1.0}),
        ("constant", 0, {1: 1.0, 16: 1.0}),
        ("inverse_sqrt", 0, {1: 1.0, 4: 0.5}),
        ("linear", 4, {1: 0.25, 4: 1.0, 8: 0.6, 13: 0.1, 14: 0.0, 99: 0.0}),
        ("linear", 0, {1: 13 / 14, 13: 1 / 14, 14: 0.0}),
        ("linear", 20, {10: 0.5, 13: 0.65}),
    ],
)
def test_learning_rate(schedule: str, warmup: int, rates: dict[int, float]) -> None:
    settings = Train.model_validate({"learning_rate": 1.0, "warmup": warmup, "schedule": schedule})
    assert {update: learning_rate(settings, update, 13) for update in rates} == pytest.approx(rates)
    waiting = settings.model_copy(update={"max_updates": 13})
    assert {update: learning_rate(waiting, update) for update in rates} == pytest.approx(rates), "until patience ends"
