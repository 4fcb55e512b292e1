"""When memory runs out: telling it from other errors, and going on with halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

_SAID_BY_CPU = ("can't allocate memory", "not enough memory")
Row = TypeVar("Row")
Result = TypeVar("Result")
ERRORS = (RuntimeError, MemoryError)  # what torch and numpy raise


def exhausted(error: BaseException) -> bool:
    """Whether an error says that memory ran out; the CPU's allocator has no class of its own for it."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(phrase in str(error) for phrase in _SAID_BY_CPU)


def by_halves(work: Callable[[Sequence[Row]], list[Result]], rows: Sequence[Row]) -> list[Result]:
    """The results of all rows; where they do not fit into memory together, of half of them at a time."""
    try:
        return work(rows)
    except ERRORS as error:
        if not exhausted(error) or len(rows) < 2:
            raise
    half = len(rows) // 2  # outside the handler: what it holds of the failed attempt must go first
    return by_halves(work, rows[:half]) + by_halves(work, rows[half:])
