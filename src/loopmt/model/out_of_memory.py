"""When memory runs out: telling it from other errors, and going on with halves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import torch

from loopmt.errors import ExhaustedError

_SAID_BY_CPU = ("can't allocate memory", "not enough memory")
Rows = TypeVar("Rows", bound="Sliceable")
Result = TypeVar("Result")
ERRORS = (RuntimeError, MemoryError)  # what torch and numpy raise


class Sliceable(Protocol):
    """A sequence or an array."""

    def __len__(self) -> int: ...

    def __getitem__(self, cut: slice, /) -> Any: ...


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out; the CPU's allocator has no class of its own for it."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(phrase in str(error) for phrase in _SAID_BY_CPU)


def in_halves(work: Callable[[Rows], list[Result]], rows: Rows) -> list[Result]:
    """The results of all rows; where they do not fit into memory together, of half of them at a time."""
    try:
        return work(rows)
    except ERRORS as error:
        if not is_out_of_memory(error) or len(rows) < 2:
            raise
    half = len(rows) // 2  # outside the handler: what it holds of the failed attempt must go first
    return in_halves(work, rows[:half]) + in_halves(work, rows[half:])


@contextmanager
def explain_out_of_memory() -> Iterator[None]:
    """Where nothing can be halved any more, memory that ran out is a sentence."""
    try:
        yield
    except ERRORS as error:
        if not is_out_of_memory(error):
            raise
        said = str(error).split(". ")[0] or type(error).__name__
        raise ExhaustedError(
            f"memory ran out ({said}). The last checkpoint is kept: the same command goes on from it. If other work "
            f"is on the device, wait for it, or train fewer stages side by side (--jobs)."
        ) from error
