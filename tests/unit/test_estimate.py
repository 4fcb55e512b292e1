"""A rough time of training from sizes alone."""

from __future__ import annotations

import pytest
import torch

from helpers.toy import EXPERIMENT
from loopmt.config import loads
from loopmt.workflow.estimate import measured_speed, rough_seconds


def test_the_time_grows_with_updates_parameters_and_generated_tokens() -> None:
    experiment = loads(EXPERIMENT, ["train.tokens=100", "stage.vanilla.updates=10"])
    vanilla = rough_seconds(experiment, experiment.stage("vanilla"), 1000, 1e6)
    assert vanilla == pytest.approx(10 * 6 * 1000 * 6 * 100 / 1e6), "six directions"
    assert rough_seconds(experiment, experiment.stage("vanilla"), 2000, 2e6) == pytest.approx(vanilla)
    dual = loads(
        EXPERIMENT, ["train.tokens=100", "compare=[]", "stage.dual.updates=10", 'stage.dual.mix=["X>Y", "X>Y>X"]']
    )
    assert rough_seconds(dual, dual.stage("dual"), 1000, 1e6) == pytest.approx(1.5 * vanilla), "half is generated"


def test_the_speed_is_that_of_this_machine() -> None:
    assert 1e8 < measured_speed(torch.device("cpu")) < 1e14
