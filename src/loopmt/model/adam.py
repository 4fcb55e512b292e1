"""Adam on flat rows: what one step reads and writes. How it is computed depends on the device."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Adam:
    """Its constants."""

    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float


@dataclass(frozen=True)
class AdamStep:
    """One step of N networks of P weights, in place; a network that is not `good` stays as it was."""

    weights: Tensor  # (N, P), and so the next three
    first: Tensor
    second: Tensor
    gradient: Tensor  # empty afterwards
    scale: Tensor  # (N,), of the gradient
    good: Tensor  # (N,)
    steps: Tensor  # (N,), this one counted
    rate: Tensor
    adam: Adam
