"""CPU threads of training: measured without an effect on the weights, kept on resume, overridden by the user."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.commands import AskFor, Cli
from helpers.digests import weights_digest
from loopmt.distributed import Processes
from loopmt.learn import threads
from loopmt.learn.learner import Learner
from loopmt.learn.threads import choose_threads, fastest, set_by_user, share_cores, thread_counts
from loopmt.learn.trainer import Trainer
from loopmt.progress import Silent
from loopmt.run import Json, Run
from loopmt.workflow.doctor import busy_cores, slower_threads
from loopmt.workflow.signals import StopSignal
from loopmt.workflow.stages import TrainingContext, assemble
from loopmt.workflow.train import TrainOptions, prepare_run, train

STAGE = """
[[stage]]
name = "one"
from = "vanilla"
mix = ["X>Y", { path = "X>Y>X", generate = { by = "ema", how = "greedy" } }]
updates = 8
train = { tokens = 96, round = 4, dropout = 0.1 }
"""


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The user did not set the number of threads, and torch has two."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def assembled(options: TrainOptions, shown: list[Json]) -> Trainer:
    run, _ = prepare_run(options, Silent())
    context = TrainingContext.open(run, torch.device("cpu"), Processes())
    return assemble(context, context.experiment.stage("one"), run.stage("one"), StopSignal(), shown.append)


def trained_state(trainer: Trainer) -> dict[str, torch.Tensor]:
    """All state that an update reads or changes."""
    learner = trainer.learner
    assert isinstance(learner, Learner)
    tally = {name: getattr(learner.tally, name) for name in ("loss", "tokens", "norms", "updates", "bad_update")}
    own = {"weights": learner.weights, "gradient": learner.gradient, "tokens": learner.tokens}
    found = {**own, **learner.tensors(), **{f"tally.{name}": tensor for name, tensor in tally.items()}}
    return {name: tensor.clone() for name, tensor in {**found, "random": torch.get_rng_state()}.items()}


def state_of(options: TrainOptions) -> Json:
    assert options.run is not None
    return Run.open(options.run).stage("one").result_state()


# -- measuring -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overrides", [(), ('stage.one.mix=["X>Y>X"]',)], ids=["with ema", "generated text only"])
def test_measuring_leaves_no_trace(ask_for: AskFor, overrides: tuple[str, ...]) -> None:
    shown: list[Json] = []
    trainer = assembled(ask_for(STAGE, *overrides), shown)
    trainer.folder.folder.mkdir()
    before = trained_state(trainer)
    choose_threads(trainer, resumed=False)
    after = trained_state(trainer)
    assert before.keys() == after.keys() and ("ema" in before) == (not overrides)
    assert [name for name, tensor in before.items() if not torch.equal(tensor, after[name])] == []
    (record,) = shown
    assert record["threads"] == trainer.progress.threads == torch.get_num_threads()
    assert record["seconds_per_update"].keys() == {"1", "2"} and all(record["seconds_per_update"].values())


def test_a_measured_stage_ends_with_the_bits_of_one_that_is_not(
    ask_for: AskFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, fixed = ask_for(STAGE), ask_for(STAGE)
    assert train(measured, Silent()) and torch.get_num_threads() == 2, "put back after the stage"
    chosen = state_of(measured)["threads"]
    monkeypatch.setenv("OMP_NUM_THREADS", str(chosen))
    torch.set_num_threads(chosen)
    assert train(fixed, Silent())
    assert measured.run and fixed.run
    stages = [run / "stages" / "one" for run in (measured.run, fixed.run)]
    assert weights_digest(stages[0]) == weights_digest(stages[1])
    kinds = [[record["kind"] for record in Run.open(stage.parents[1]).stage("one").records()] for stage in stages]
    assert kinds[0] == ["threads", *kinds[1]] and "threads" not in kinds[1]


def test_the_choice_is_one_line(ask_for: AskFor, cli: Cli) -> None:
    asked = ask_for(STAGE)
    done = cli("train", asked.file, "--run", asked.run)
    assert done.code == 0, done.err
    (line,) = [line for line in done.err.splitlines() if "CPU thread" in line]
    assert "one: " in line and " s with 1, " in line and " s with 2 " in line and "OMP_NUM_THREADS" in line


@pytest.mark.parametrize(
    ("seconds", "number"),
    [
        ({1: 1.0, 2: 0.6}, 2),
        ({1: 1.0, 2: 0.97}, 1),
        ({1: 1.0, 2: 18.0}, 1),
        ({1: 1.0, 4: 0.4, 8: 0.39}, 4),
        ({1: 1}, 1),
    ],
)
def test_more_threads_must_be_faster(seconds: dict[int, float], number: int) -> None:
    assert fastest(seconds) == number


def test_the_numbers_of_threads_that_are_measured() -> None:
    assert [thread_counts(most) for most in (1, 2, 3, 8)] == [[1], [1, 2], [1, 3], [1, 4, 8]]


# -- resuming --------------------------------------------------------------------------------------------------


def paused(ask_for: AskFor, monkeypatch: pytest.MonkeyPatch, number: int) -> TrainOptions:
    """A stage that began with a number of threads, which the user set then."""
    asked = ask_for(STAGE)
    with monkeypatch.context() as then:
        then.setenv("OMP_NUM_THREADS", str(number))
        torch.set_num_threads(number)
        assert not train(replace(asked, stop_after=1e-6), Silent())
    return asked


def test_a_resumed_stage_has_the_threads_that_it_began_with(ask_for: AskFor, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, shown = paused(ask_for, monkeypatch, 1), list[Json]()
    torch.set_num_threads(2)
    trainer, seen = assembled(asked, shown), list[int]()
    trainer.hooks.show = lambda record: seen.append(torch.get_num_threads())
    assert trainer.run() and set(seen) == {1}
    assert state_of(asked)["threads"] == 1 and not [record for record in shown if record["kind"] == "threads"]


def test_the_user_may_change_the_threads_of_a_resumed_stage(ask_for: AskFor, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Json] = []
    trainer = assembled(ask_for(STAGE), shown)
    trainer.progress.threads = 1
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    choose_threads(trainer, resumed=True)
    assert (torch.get_num_threads(), trainer.progress.threads) == (2, 1), "the number that it began with stays recorded"
    (notice,) = shown
    assert all(fact in notice["text"] for fact in ("1 CPU thread", "2 CPU threads", "OMP_NUM_THREADS=2"))


def test_a_stage_of_a_version_that_recorded_no_threads(ask_for: AskFor) -> None:
    """It is not measured: it resumes with the default number."""
    shown: list[Json] = []
    trainer = assembled(ask_for(STAGE), shown)
    choose_threads(trainer, resumed=True)
    assert (torch.get_num_threads(), trainer.progress.threads, shown) == (2, 2, [])


# -- the user's own number -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_an_environment_variable_is_kept(ask_for: AskFor, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "2")
    assert set_by_user() == f"{name}=2"
    shown: list[Json] = []
    trainer = assembled(ask_for(STAGE), shown)
    choose_threads(trainer, resumed=False)
    assert (torch.get_num_threads(), trainer.progress.threads, shown) == (2, 2, [])


def test_a_number_set_in_torch_is_kept(ask_for: AskFor) -> None:
    assert set_by_user() is None
    torch.set_num_threads(3)
    assert set_by_user() == "torch.set_num_threads(3)"
    shown: list[Json] = []
    choose_threads(assembled(ask_for(STAGE), shown), resumed=False)
    assert torch.get_num_threads() == 3 and not shown


def test_processes_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    share: dict[str, Any] = {}
    monkeypatch.setattr(threads, "_share", share)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(12)), raising=False)
    torch.set_num_threads(12)
    share_cores(4)
    assert torch.get_num_threads() == 3 and set_by_user() is None, "our own number may still be measured"
    share_cores(50)
    assert torch.get_num_threads() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    torch.set_num_threads(7)
    share_cores(4)
    assert torch.get_num_threads() == 7


# -- doctor ----------------------------------------------------------------------------------------------------


def findings(busy: int | None, seconds: dict[str, float], threads_set_by: str | None = None) -> Json:
    number = max(map(int, seconds))
    cpu = {"busy_cores": busy, "usable_cores": 2, "threads": number, "step_seconds": seconds}
    return {"cpu": {**cpu, "threads_set_by": threads_set_by}}


@pytest.mark.parametrize(
    ("found", "facts"),
    [
        (findings(1, {"1": 0.1, "2": 0.58}), ("5.8 times", "2 threads", "1 of 2 cores", "`train`")),
        (findings(None, {"1": 0.1, "2": 0.2}), ("2.0 times", "2 threads")),
        (findings(0, {"1": 0.1, "2": 0.3}, "OMP_NUM_THREADS=2"), ("3.0 times", "OMP_NUM_THREADS=2", "unset")),
        (findings(1, {"1": 0.1, "2": 0.06}), ("1 of 2 cores busy",)),
        (findings(1, {"1": 0.1}), ("1 of 2 cores busy",)),
    ],
)
def test_doctor_warns_of_threads_that_wait(found: Json, facts: tuple[str, ...]) -> None:
    warning = slower_threads(found)
    assert warning and all(fact in warning for fact in facts)


@pytest.mark.parametrize("found", [findings(0, {"1": 0.1, "2": 0.06}), findings(None, {"1": 0.1})])
def test_doctor_has_nothing_to_say_of_free_cores(found: Json) -> None:
    assert slower_threads(found) is None


@pytest.mark.skipif(not Path("/proc/stat").is_file(), reason="only Linux tells which cores are busy")
def test_a_busy_core_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    core = min(os.sched_getaffinity(0))
    loop = (
        f"import os, time\nos.sched_setaffinity(0, {{{core}}})\nend = time.time() + 20\nwhile time.time() < end: pass"
    )
    with subprocess.Popen([sys.executable, "-c", loop]) as process:
        try:
            seen, until = busy_cores(), time.monotonic() + 15
            while not seen and time.monotonic() < until:
                seen = busy_cores()
            assert seen
        finally:
            process.kill()
