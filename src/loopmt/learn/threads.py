"""How many CPU threads train a stage: measured when it begins, then kept.

The threads of an operation wait for the slowest of them, so one busy core can make n threads slower than one. The
number of threads also decides how sums are rounded: a resumed stage keeps the number that it began with. A number that
the user sets always wins.
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
_ENOUGH = 2.0  # seconds of measuring, once each number of threads was tried
_TURNS = 10
_WORTH = 0.95  # more threads must take less than this share of the time
_BATCHES = 2


def usable_cores() -> int:
    """A container may give a process fewer cores than the machine has; only Linux tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_threads(trainer: Trainer, resumed: bool) -> None:
    """Set the number of threads of a stage that begins or is resumed, and record it in the stage's state."""
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
            f"this stage began with {_threads(recorded)} and goes on with {_threads(torch.get_num_threads())} "
            f"({setting}), which round differently: the weights are not those of an uninterrupted run."
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
    """Set the number of threads that a stage with these batches would begin with; whether it is another one."""
    before = torch.get_num_threads()
    if learner.translators.device.type == "cpu" and before > 1 and not set_by_user():
        torch.set_num_threads(fastest(time_updates(learner, batches)))
    return torch.get_num_threads() != before


def _batches(trainer: Trainer) -> list[Batch]:
    """Batches of real text; of generated text too only if the stage has no other."""
    real = [route for route in trainer.routes if not route.synthetic] or trainer.routes
    weights = {route.number: route.entry.weight for route in real}
    gathered = trainer.gatherer.round(0, weights, updates=_BATCHES)
    return pack(gathered.networks, trainer.shapes, _BATCHES, *trainer.key, "threads").batches


# -- measuring -------------------------------------------------------------------------------------------------


def set_by_user() -> str | None:
    """Where the user set the number of threads, if so. Torch does not tell its default from the same number set."""
    for name in _VARIABLES:
        if os.environ.get(name):
            return f"{name}={os.environ[name]}"
    now, cores = torch.get_num_threads(), usable_cores()
    defaults = (cores, cores // 2, _share.get("threads"))  # of logical cores, of physical ones, of our own
    return None if now in defaults else f"torch.set_num_threads({now})"


_share: dict[str, int] = {}


def share_cores(processes: int) -> None:
    """Leave this process its part of the cores, unless the user set the number of threads."""
    if not set_by_user():
        _share["threads"] = max(1, usable_cores() // processes)
        torch.set_num_threads(_share["threads"])


def thread_counts(most: int) -> list[int]:
    return sorted({1, max(1, most // 2), most})


def fastest(seconds: Mapping[int, float]) -> int:
    """The fastest number of threads. More threads than one must be worth it."""
    best = min(seconds)
    for number in sorted(seconds):
        if seconds[number] < seconds[best] * _WORTH:
            best = number
    return best


def time_updates(learner: StageLearner, batches: Sequence[Batch]) -> dict[int, float]:
    """Seconds that an update takes, by number of threads."""
    counts, rate = thread_counts(torch.get_num_threads()), learning_rate(learner.train, 1)
    steps = count()
    return mean_seconds(lambda: learner.update(batches[next(steps) // len(counts) % len(batches)], 1, rate), counts)


def mean_seconds(step: Callable[[], object], counts: Sequence[int]) -> dict[int, float]:
    """Seconds that `step` takes, by number of threads. They take turns; the first one warms up."""
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
    """Put weights, optimizer, counters and torch's random state back, bit for bit."""
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
        learner.splitting.halved.clear()  # memory is shorter while the copies are kept
        torch.set_rng_state(random)


def _threads(number: int) -> str:
    return f"{number} CPU thread{'s' * (number != 1)}"
