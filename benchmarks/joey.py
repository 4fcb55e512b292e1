"""JoeyNMT in a process with its own environment, because its requirements conflict with ours."""

from __future__ import annotations

import json
import os
import subprocess
import weakref
from collections.abc import Callable
from pathlib import Path

from benchmarks.timing import Plan

from loopmt.text.batch import BatchShape
from loopmt.translate.networks import NetworkStack


def training(translators: NetworkStack, shape: BatchShape, plan: Plan) -> Callable[[], None]:
    """An update of the same network on a batch of the same shape."""
    assert plan.joey is not None, "the plan needs JoeyNMT's Python"
    setting = {
        **translators.model.model_dump(include={"layers", "heads", "width", "feed_forward", "dropout"}),
        "vocabulary": translators.layout.target_size,
        "rows": shape.rows,
        "length": shape.length,
        "threads": plan.threads,
    }
    command = [str(plan.joey), str(Path(__file__).with_name("joey_worker.py")), json.dumps(setting)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def update() -> None:
        assert worker.stdin is not None and worker.stdout is not None
        worker.stdin.write("update\n")
        worker.stdin.flush()
        if worker.stdout.readline() != "done\n":
            raise RuntimeError(f"JoeyNMT's process ended with status {worker.wait()}")

    weakref.finalize(update, _end, worker)
    return update


def _end(worker: subprocess.Popen[str]) -> None:
    worker.communicate()
