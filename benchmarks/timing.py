"""Timing of several systems: the same work in turns, many times, so that all have the same noise."""

from __future__ import annotations

import statistics
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

Json = dict[str, Any]
Work = Callable[[], object]
Systems = Mapping[str, Callable[[], Work]]  # by name: a function that sets a system up and returns the work to be timed

_WARM_UPS = 2  # the first run compiles and captures, the second finds everything in place


@dataclass(frozen=True)
class Plan:
    """The device and the sizes of the measurements."""

    device: torch.device
    repeats: int = 5
    tiny: bool = False  # tiny sizes, to check that everything runs
    threads: int = 1
    joey: Path | None = None  # the Python of an environment with JoeyNMT

    @property
    def cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def precision(self) -> torch.dtype:
        return torch.bfloat16 if self.cuda else torch.float32

    def pick(self, cuda: int, cpu: int, tiny: int) -> int:
        """The size for the device."""
        return tiny if self.tiny else cuda if self.cuda else cpu


@dataclass
class Measurement:
    """One comparison; every run has `amount` units of work."""

    name: str
    unit: str
    amount: float
    shape: str  # in words, for the table
    systems: dict[str, Json] = field(default_factory=dict)
    extra: Json = field(default_factory=dict)

    def as_json(self) -> Json:
        return {
            "name": self.name,
            "unit": self.unit,
            "amount": self.amount,
            "shape": self.shape,
            "systems": self.systems,
            **self.extra,
        }


def compare(measurement: Measurement, systems: Systems, plan: Plan) -> Measurement:
    """Time every system; one that fails is recorded with its reason."""
    ready: dict[str, Work] = {}
    for name, build in systems.items():
        try:
            work = build()
            for _ in range(_WARM_UPS):
                timed(work, plan)
            ready[name] = work
        except Exception as error:
            traceback.print_exc()
            measurement.systems[name] = {"failed": f"{type(error).__name__}: {error}"[:500]}
    seconds: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(plan.repeats):
        for name, work in ready.items():
            seconds[name].append(timed(work, plan))
    measurement.systems |= {name: summary(times, measurement.amount) for name, times in seconds.items()}
    return measurement


def timed(work: Work, plan: Plan) -> float:
    """Seconds of one run, including the device."""
    synchronise(plan)
    began = time.perf_counter()
    work()
    synchronise(plan)
    return time.perf_counter() - began


def synchronise(plan: Plan) -> None:
    if plan.cuda:
        torch.cuda.synchronize()


def summary(seconds: list[float], amount: float) -> Json:
    median = statistics.median(seconds)
    return {"rate": amount / median, "median_seconds": median, "seconds": seconds}
