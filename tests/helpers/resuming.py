"""Training in processes that are started, waited for and compared."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from helpers.stages import folder_of
from loopmt.workflow.train import TrainOptions


def outcome(request: TrainOptions) -> tuple[dict[str, torch.Tensor], list[dict[str, Any]]]:
    """Weights and log, without what only a clock can know."""
    folder = folder_of(request)
    records = [_timeless(record) for record in folder.records()]
    return dict(folder.result().tensors["weights"]), records


def _timeless(record: dict[str, Any]) -> dict[str, Any]:
    speeds = {"tokens_per_second", "learnt_per_second", "generated_per_second"}
    timed = {"seconds", "generate_share", "time_share", "window", "first_update", *speeds}
    return {key: value for key, value in record.items() if key not in timed}


def assert_same(request: TrainOptions, reference: TrainOptions) -> None:
    (weights, records), (expected, expected_records) = outcome(request), outcome(reference)
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in weights)
    assert records == expected_records


def started(request: TrainOptions, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "loopmt", "train", str(request.file), "--run", str(request.run), *options]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=alone, start_new_session=True
    )


def wait_for(ready: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Until something has happened, or the process has come to its end."""
    deadline = time.monotonic() + 300
    while not ready() and process.poll() is None:
        if time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"nothing happened: {process.communicate()[1]}")
        time.sleep(0.01)
