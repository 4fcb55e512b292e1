"""What a captured graph does, without a graph: the work is done again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch


@dataclasses.dataclass
class Again:
    """What a graph does, without a graph."""

    replay: Callable[[], None]


def recorder(work: Callable[[], None]) -> Again:
    """A real recorder runs the work before it captures it, and puts the random numbers back, but nothing else."""
    before = torch.get_rng_state()
    work()
    torch.set_rng_state(before)
    return Again(work)
