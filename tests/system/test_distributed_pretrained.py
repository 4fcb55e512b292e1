"""Two processes train a pretrained checkpoint as one does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from helpers.pretrained_runs import LOOPS, Make, stack_in
from loopmt.progress import Silent
from loopmt.workflow.train import TrainOptions, train


def train_with_two(request: TrainOptions) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = ["-m", "loopmt", "train", str(request.file), "--run", str(request.run)]
    words += [part for override in request.overrides for part in ("--set", override)]
    group = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, *words],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env={**group, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said


# With a large epsilon Adam does not turn rounding into steps where a gradient is 0.
EXACT = ("train.dropout=0.0", "train.learning_rate=1e-2", "train.adam=[0.9, 0.98, 1e-3]")


def assert_close(one: TrainOptions, two: TrainOptions) -> None:
    expected, found = (stack_in(request, "loops").named() for request in (one, two))
    start = stack_in(one).named()
    assert max(float((found[name] - expected[name]).abs().max()) for name in expected) < 1e-5
    assert max(float((found[name] - start[name]).abs().max()) for name in expected) > 1e-4


def test_two_processes_train_what_one_does(dual: Make) -> None:
    one, two = (dual(*EXACT, name=name, stages={"loops": LOOPS}, updates=4) for name in ("one", "two"))
    assert train(one, Silent())
    train_with_two(two)
    assert_close(one, two)


def test_a_sharded_checkpoint_trains_like_a_whole_one(triangle: Make) -> None:
    settings = {"stages": {"loops": LOOPS}, "updates": 4}
    one, two = triangle(*EXACT, name="one", **settings), triangle(*EXACT, "train.shard=true", name="two", **settings)
    assert train(one, Silent())
    train_with_two(two)
    assert_close(one, two)
