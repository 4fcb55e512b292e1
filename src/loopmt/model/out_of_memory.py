"""Out-of-memory errors: how to recognize them, and how to retry with half of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import torch

from loopmt.errors import ExhaustedError

_CPU_MESSAGES = ("can't allocate memory", "not enough memory")
Rows = TypeVar("Rows", bound="Sliceable")
Result = TypeVar("Result")
ERRORS = (RuntimeError, MemoryError)  # what torch and numpy raise


class Sliceable(Protocol):
    """A sequence or an array that can be sliced."""

    def __len__(self) -> int: ...

    def __getitem__(self, cut: slice, /) -> Any: ...


def is_out_of_memory(error: BaseException) -> bool:
    """Whether it means out of memory. The CPU allocator raises a plain RuntimeError, recognized by its message."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(phrase in str(error) for phrase in _CPU_MESSAGES)


def in_halves(work: Callable[[Rows], list[Result]], rows: Rows) -> list[Result]:
    """The results of all rows; rows that do not fit into memory together are split in halves."""
    try:
        return work(rows)
    except ERRORS as error:
        if not is_out_of_memory(error) or len(rows) < 2:
            raise
    half = len(rows) // 2  # outside the handler, which keeps tensors of the failed attempt alive
    return in_halves(work, rows[:half]) + in_halves(work, rows[half:])


@contextmanager
def explain_out_of_memory() -> Iterator[None]:
    """Turn an out-of-memory error into an `ExhaustedError`, for work that cannot be halved."""
    try:
        yield
    except ERRORS as error:
        if not is_out_of_memory(error):
            raise
        cause = str(error).split(". ")[0] or type(error).__name__
        raise ExhaustedError(
            f"out of memory ({cause}). The last checkpoint is kept, and the same command resumes from it. If other "
            f"programs use the device, wait for them, or train fewer stages in parallel (--jobs)."
        ) from error
