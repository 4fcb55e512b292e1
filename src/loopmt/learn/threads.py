"""The number of CPU threads of a stage. It is measured when the stage begins, then kept.

The threads of an operation wait for the slowest one, so one busy core can make n threads slower than one. The number of
threads also affects the rounding of sums, so a resumed stage keeps its number. A number set by the user takes
precedence.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import torch

from loopmt.learn.learner import StageLearner
from loopmt.learn.schedule import learning_rate
from loopmt.learn.trainer import Trainer
from loopmt.text.batch import Batch
from loopmt.text.packing import pack

_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_ENOUGH = 2.0  # seconds of measuring, after each number of threads was tried
_TURNS = 10
_SPEEDUP = 0.95  # more threads are used only if they take less than this share of the time
_BATCHES = 2


def usable_cores() -> int:
    """Cores that this process may use; a container may restrict them, which only Linux reports."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_threads(trainer: Trainer, resumed: bool) -> None:
    """Set the number of threads of a stage and record it in the training state."""
    recorded = trainer.progress.threads
    if trainer.translators.device.type != "cpu":
        return
    if resumed and recorded and recorded != torch.get_num_threads():
        _resume_with(recorded, trainer)
    elif not resumed and not set_by_user() and not trainer.processes.in_group:
        _measure_and_set(trainer)
    trainer.progress.threads = recorded or torch.get_num_threads()


def _resume_with(recorded: int, trainer: Trainer) -> None:
    if setting := set_by_user():
        trainer.notice(
            f"this stage began with {_threads(recorded)} and resumes with {_threads(torch.get_num_threads())} "
            f"({setting}), which changes rounding: the weights will differ from those of an uninterrupted run."
        )
    else:
        torch.set_num_threads(recorded)


def _measure_and_set(trainer: Trainer) -> None:
    batches = _batches(trainer) if torch.get_num_threads() > 1 else []
    if not batches:
        return
    with unchanged(trainer.learner):
        seconds = time_updates(trainer.learner, batches)
    torch.set_num_threads(fastest(seconds))
    times: dict[str, Any] = {str(number): spent for number, spent in seconds.items()}
    trainer.write({"kind": "threads", "update": 0, "threads": fastest(seconds), "seconds_per_update": times})


def use_fastest(learner: StageLearner, batches: Sequence[Batch]) -> bool:
    """Measure and set the number of threads for these batches. Return whether it changed."""
    before = torch.get_num_threads()
    if learner.translators.device.type == "cpu" and before > 1 and not set_by_user():
        torch.set_num_threads(fastest(time_updates(learner, batches)))
    return torch.get_num_threads() != before


def _batches(trainer: Trainer) -> list[Batch]:
    """Batches of real text, or of all routes if the stage has no route of real text only."""
    real = [route for route in trainer.routes if not route.synthetic] or trainer.routes
    weights = {route.number: route.entry.weight for route in real}
    gathered = trainer.gatherer.round(0, weights, updates=_BATCHES)
    return pack(gathered.networks, trainer.shapes, _BATCHES, *trainer.key, "threads").batches


# -- measuring -------------------------------------------------------------------------------------------------


def set_by_user() -> str | None:
    """How the user set the number of threads, if at all. Setting torch's default cannot be detected."""
    for name in _VARIABLES:
        if os.environ.get(name):
            return f"{name}={os.environ[name]}"
    now, cores = torch.get_num_threads(), usable_cores()
    defaults = (cores, cores // 2, _share.get("threads"))  # logical cores, physical cores, our own share
    return None if now in defaults else f"torch.set_num_threads({now})"


_share: dict[str, int] = {}


def share_cores(processes: int) -> None:
    """Use this process's share of the cores, unless the user set the number of threads."""
    if not set_by_user():
        _share["threads"] = max(1, usable_cores() // processes)
        torch.set_num_threads(_share["threads"])


def thread_counts(most: int) -> list[int]:
    return sorted({1, max(1, most // 2), most})


def fastest(seconds: Mapping[int, float]) -> int:
    """The fastest number of threads; more threads must be clearly faster."""
    best = min(seconds)
    for number in sorted(seconds):
        if seconds[number] < seconds[best] * _SPEEDUP:
            best = number
    return best


def time_updates(learner: StageLearner, batches: Sequence[Batch]) -> dict[int, float]:
    """Seconds per update for each number of threads."""
    counts, rate = thread_counts(torch.get_num_threads()), learning_rate(learner.train, 1)
    steps = count()
    return mean_seconds(lambda: learner.update(batches[next(steps) // len(counts) % len(batches)], 1, rate), counts)


def mean_seconds(step: Callable[[], object], counts: Sequence[int]) -> dict[int, float]:
    """Mean seconds of `step` for each number of threads, measured in turns after a warm-up."""
    with threads_restored():
        for number in counts:
            _seconds(step, number)
        spent, turns = dict.fromkeys(counts, 0.0), 0
        while not turns or (turns < _TURNS and sum(spent.values()) < _ENOUGH):
            turns += 1
            for number in counts:
                spent[number] += _seconds(step, number)
        return {number: spent[number] / turns for number in counts}


def _seconds(step: Callable[[], object], number: int) -> float:
    torch.set_num_threads(number)
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


@contextmanager
def threads_restored() -> Iterator[None]:
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def unchanged(learner: StageLearner) -> Iterator[None]:
    """Restore weights, optimizer, counters and torch's random state bit for bit."""
    random = torch.get_rng_state()
    weights = {name: tensor.clone() for name, tensor in learner.translators.named().items()}
    optimizer = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    try:
        yield
    finally:
        learner.translators.load(weights)
        learner.load(optimizer)
        learner.tally.clear()
        learner.tally.bad_update.fill_(-1)
        learner.splitting.halved.clear()  # the copies made here use memory
        torch.set_rng_state(random)


def _threads(number: int) -> str:
    return f"{number} CPU thread{'s' * (number != 1)}"
