"""The divergence between two predictions of the same targets."""

from __future__ import annotations

from torch import Tensor


def symmetric_divergence(one_NBTV: Tensor, other_NBTV: Tensor) -> Tensor:
    """The mean of KL(one || other) and KL(other || one) at every position: both share the same difference."""
    return ((one_NBTV.exp() - other_NBTV.exp()) * (one_NBTV - other_NBTV)).sum(-1) / 2
