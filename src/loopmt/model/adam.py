"""Adam on flat rows of weights: the reference, and a faster version for CPUs.

The CUDA kernel is `model.kernels.adam`. The tests compare both fast versions with `adam_step`, and `adam_step` with
`torch.optim.AdamW`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from loopmt.model.kernels.registry import has_kernel


@dataclass(frozen=True)
class Adam:
    """The hyperparameters of Adam."""

    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float


@dataclass(frozen=True)
class AdamStep:
    """One in-place step of N networks of P weights; networks that are not `good` do not change."""

    weights: Tensor  # (N, P), like the next three
    first: Tensor
    second: Tensor
    gradient: Tensor  # zero after the step
    scale: Tensor  # (N,), multiplies the gradient
    good: Tensor  # (N,), whether the gradient is finite
    steps: Tensor  # (N,), including this one
    rate: Tensor
    adam: Adam


@has_kernel("loopmt.model.kernels.adam:adam_step")
def adam_step(step: AdamStep) -> None:
    """The reference: Adam with decoupled weight decay."""
    adam, steps, good, rate = step.adam, step.steps.clamp_min(1), step.good, step.rate
    gradient = step.gradient.mul_(step.scale[:, None]).masked_fill_(~good[:, None], 0)
    step.first.lerp_(gradient, ((1 - adam.beta1) * good)[:, None])
    step.second.lerp_(gradient.square_(), ((1 - adam.beta2) * good)[:, None])
    size = (rate * good / (1 - adam.beta1**steps))[:, None]
    root = torch.sqrt(step.second).mul_((1 - adam.beta2**steps).rsqrt()[:, None]).add_(adam.epsilon)
    if adam.weight_decay:
        step.weights.mul_((1 - rate * adam.weight_decay * good)[:, None])
    step.weights.sub_(torch.mul(step.first, size).div_(root))
    gradient.zero_()


def fused_adam_step(step: AdamStep) -> None:
    """The same step in one pass, by torch's fused CPU kernel; it synchronizes, because it reads `good`."""
    adam = step.adam
    for row in step.good.nonzero()[:, 0].tolist():
        torch._fused_adamw_(
            [step.weights[row]], [step.gradient[row]], [step.first[row]], [step.second[row]], [], [step.steps[row]],
            lr=float(step.rate), beta1=adam.beta1, beta2=adam.beta2, eps=adam.epsilon, weight_decay=adam.weight_decay,
            amsgrad=False, maximize=False, grad_scale=1 / step.scale[row],
        )  # fmt: skip
    step.gradient.zero_()
