"""Two processes give the results of one, sharded or not, and resume after both were killed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from helpers.facts import lacks
from loopmt.distributed import Processes
from loopmt.errors import ConfigError
from loopmt.progress import Silent
from loopmt.run import Run, StageFolder
from loopmt.workflow.train import TrainOptions, train

ASK = Callable[..., TrainOptions]
# Sums in another order: losses differ by 1e-7, until on some processor a ReLU falls on its other side (4e-5 was seen).
# Other batches make it 0.05 or more.
ROUNDING = 1e-4
SUPERVISED = """
[[stage]]
name = "supervised"
mix = ["X>Y"]
updates = 20
train = { tokens = 256, round = 5, log_every = 5, validate_every = 10, validate_sentences = 4 }
"""
LOOPS = """
[[stage]]
name = "loops"
from = "vanilla"
mix = ["X>Y", { path = "X>Y>X", samples = 2, combine = "logmeanexp", generate = { by = "ema", how = "greedy" } }]
updates = 8
train = { tokens = 256, round = 2, log_every = 2, validate_every = 4, validate_sentences = 4, ema = 0.5 }
"""
FILTERED = """
[[stage]]
name = "filtered"
from = "vanilla"
mix = [
    "X>Y",
    { path = "X>Y>X", keep = 0.7, same_rows = true, generate = { how = "greedy" } },
    { path = "X>Y>X", samples = 2, reward = "likelihood", credit = "all", kl = 0.1, generate = { top_k = 1 } },
    { path = "X>Z<Y", generate = { how = "greedy" } },
]
updates = 8
train = { tokens = 256, round = 2, log_every = 2, validate_every = 4, validate_sentences = 4, subword_dropout = 0.1 }
"""
SHARED = """
[[stage]]
name = "shared"
mix = ["X>Y", { path = "X>Y>X", weight = 0.5, generate = { by = "ema", how = "greedy" } }]
updates = 12
train = { tokens = 64, round = 2, log_every = 2, validate_every = 4, validate_sentences = 4, ema = 0.5 }
"""
AS_ON_CUDA = """
import os, time
from loopmt import run
from loopmt.__main__ import main
from loopmt.learn import resume

begin, quick = resume.CheckpointWriter.__init__, run.{slow}_checkpoint

def slowly(*arguments):
    time.sleep(1.5)
    return quick(*arguments)

resume.CheckpointWriter.__init__ = lambda self, folder, background: begin(self, folder, True)
if os.environ["RANK"] == "{rank}":
    run.{slow}_checkpoint = slowly
main()
"""  # checkpoints are written in the background


def folder_of(request: TrainOptions, name: str) -> StageFolder:
    assert request.run is not None
    return Run(request.run).stage(name)


def command(request: TrainOptions) -> list[str]:
    return ["loopmt", *arguments(request)]


def arguments(request: TrainOptions) -> list[str]:
    overrides = [part for override in request.overrides for part in ("--set", override)]
    return ["train", str(request.file), "--run", str(request.run), *overrides]


@contextmanager
def two(request: TrainOptions, script: str | None = None) -> Iterator[list[subprocess.Popen[str]]]:
    """Two processes as torchrun starts them, of loopmt or of a script around it."""
    what = ["-m", *command(request)] if script is None else ["-c", script, *arguments(request)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, *what],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **group, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def finish(request: TrainOptions, script: str | None = None) -> None:
    with two(request, script) as processes:
        said = [process.communicate(timeout=300) for process in processes]
        assert [process.returncode for process in processes] == [0, 0], said
        assert said[0][0] == f"finished; next: loopmt evaluate {request.run}\n"
        assert said[1] == ("", ""), "one of them speaks for both"


def wait_for(ready: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 300
    while not ready() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def kill_halfway(request: TrainOptions, name: str) -> None:
    folder = folder_of(request, name)
    with two(request) as processes:
        wait_for(lambda: folder.begun and len(folder.records()) >= 3, processes[0])
    assert not folder.finished


def losses(request: TrainOptions, name: str) -> list[dict[str, float]]:
    return [record["loss"] for record in folder_of(request, name).records() if record["kind"] == "train"]


def assert_close(one: TrainOptions, other: TrainOptions, name: str) -> None:
    ours, theirs = losses(one, name), losses(other, name)
    assert len(ours) == len(theirs) > 0
    for mine, yours in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(yours, abs=ROUNDING)
    counted = [
        [_counts(record) for record in folder_of(request, name).records() if record["kind"] == "train"]
        for request in (one, other)
    ]
    assert counted[0] == counted[1], "tokens, drops and all else that is counted"


def _counts(record: dict[str, Any]) -> list[Any]:
    watched = ("route", "hop", "offered", "dropped", "offered_tokens", "kept_tokens", "copies")
    guards = [[guard[key] for key in watched] for guard in record["guards"]]
    return [record[key] for key in ("update", "tokens", "generated_tokens", "padding")] + guards


def same_weights(one: TrainOptions, other: TrainOptions, name: str) -> bool:
    mine, yours = (folder_of(request, name).result().tensors["weights"] for request in (one, other))
    return all(torch.equal(mine[key], yours[key]) for key in mine)


def test_two_processes_train_what_one_does_and_resume_after_both_were_killed(ask_for: ASK) -> None:
    one, both, killed = ask_for(SUPERVISED + LOOPS), ask_for(SUPERVISED + LOOPS), ask_for(LOOPS)
    assert train(one, Silent())
    finish(both)
    assert_close(one, both, "supervised")
    assert_close(one, both, "loops")
    kill_halfway(killed, "loops")
    finish(killed)
    assert same_weights(both, killed, "loops"), "bit for bit"
    assert losses(both, "loops") == losses(killed, "loops")


def test_two_processes_in_parts_that_do_not_divide_a_batch_train_what_one_does(ask_for: ASK) -> None:
    one, six = ask_for(SUPERVISED + LOOPS), ask_for(SUPERVISED + LOOPS, "train.accumulate=3")
    assert train(one, Silent())
    finish(six)
    assert_close(one, six, "supervised")
    assert_close(one, six, "loops")


def test_two_processes_keep_and_cut_what_one_does_and_resume(ask_for: ASK) -> None:
    """The rows with the lowest cross-entropies are selected among all processes. R-Drop computes batches twice.

    Rewards compare samples that different processes drew: always the likeliest, since draws differ by process.
    """
    stage = FILTERED.replace("train = {", "train = { rdrop = 1.0,")
    one, both, killed = (ask_for(stage) for _ in range(3))
    assert train(one, Silent())
    finish(both)
    assert_close(one, both, "filtered")
    kill_halfway(killed, "filtered")
    finish(killed)
    assert same_weights(both, killed, "filtered"), "bit for bit"


@pytest.mark.parametrize(("slow", "rank", "average"), [("write", 0, 2), ("read", 1, 1)])
def test_no_process_reads_a_missing_checkpoint(ask_for: ASK, slow: str, rank: int, average: int) -> None:
    """It is missing while the first process writes it, and after the stage is finished."""
    request = ask_for(SUPERVISED, f"stage.supervised.train.average={average}", parent=False)
    finish(request, AS_ON_CUDA.format(slow=slow, rank=rank))
    assert folder_of(request, "supervised").finished


def test_torchrun_can_be_stopped(ask_for: ASK) -> None:
    """The signal that torchrun forwards to both, perhaps twice, ends the round and saves."""
    request = ask_for(LOOPS, "stage.loops.updates=2000")
    folder = folder_of(request, "loops")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "--"]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([*torchrun, *command(request)], stderr=subprocess.PIPE, text=True, env=alone) as process:
        try:
            wait_for(lambda: folder.begun and len(folder.records()) >= 1, process)
        finally:
            process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    assert "training paused: SIGINT was received. The same command resumes it." in said
    assert folder.updates()[-1] > 0


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_sharded_network_trains_like_an_unsharded_one(ask_for: ASK, norm: str) -> None:
    """After a kill, one run resumes in two processes, its copy unsharded in one."""
    settings = ["model.sharing=all", f"model.norm={norm}"]
    whole, sharded = (ask_for(SHARED, *settings, *shard, parent=False) for shard in ([], ["train.shard=true"]))
    assert train(whole, Silent())
    folder = folder_of(sharded, "shared")
    with two(sharded) as processes:
        wait_for(lambda: folder.begun and len(folder.records()) >= 4, processes[0])
    assert not folder.finished
    assert folder.updates()[-1] > 0
    assert sharded.run is not None
    exported = TrainOptions(sharded.file, sharded.run.with_name("twin"), settings)
    shutil.copytree(sharded.run, sharded.run.with_name("twin"))
    assert train(exported, Silent())
    assert_close(whole, exported, "shared")
    if norm == "post":
        finish(sharded)
        assert_close(whole, sharded, "shared")


def test_a_sharded_network_has_the_same_objectives(ask_for: ASK) -> None:
    """With a second pass, log-probabilities, and rewards of what each process drew."""
    rewarded = '{ path = "X>Y>X", samples = 2, reward = "likelihood", credit = "all", weight = 0.5 }'
    stages = SHARED.replace("train = {", "train = { rdrop = 1.0, dropout = 0.1,").replace(
        "]\nupd", f", {rewarded}]\nupd"
    )
    whole, sharded = (ask_for(stages, "model.sharing=all", *more, parent=False) for more in ([], ["train.shard=true"]))
    finish(whole)
    finish(sharded)
    assert_close(whole, sharded, "shared")
    one, other = (_measured(request, "shared") for request in (whole, sharded))
    assert len(one) == len(other) and all(found == pytest.approx(other[name], rel=0.01) for name, found in one.items())


def _measured(request: TrainOptions, name: str) -> dict[str, float]:
    """Rewards, ratios and the like of every line of the log."""
    records = [record for record in folder_of(request, name).records() if record["kind"] == "train"]
    return {
        f"{number} {measure} {path}": value
        for number, record in enumerate(records)
        for measure, own in record["measured"].items()
        for path, value in own.items()
    }


def test_sharding_needs_processes(ask_for: ASK) -> None:
    request = ask_for(SHARED, "model.sharing=all", "train.shard=true", parent=False)
    with pytest.raises(ConfigError) as caught:
        train(request, Silent())
    assert not lacks(
        str(caught.value),
        'stage "shared": train.shard spreads the network over processes, and this is a single one. Start them with '
        "`torchrun --nproc-per-node N -m -- loopmt train ...`, or set train.shard = false.",
    )


def test_operations_of_a_single_process_are_the_identity() -> None:
    alone = Processes.join(torch.device("cpu"))
    assert (alone.rank, alone.size, alone.is_main, alone.many, alone.in_group) == (0, 1, True, False, False)
    assert alone.all_gather("x") == ["x"]
    assert alone.broadcast("x") == "x"
    assert alone.all_reduce(torch.ones(2)).tolist() == [1, 1]
    alone.barrier()
    alone.leave()
