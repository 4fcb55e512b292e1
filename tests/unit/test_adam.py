"""Adam: the reference takes the steps of torch's AdamW, and the fast version for CPUs those of the reference."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from loopmt.model.adam import Adam, AdamStep, adam_step, fused_adam_step

DECAYS = pytest.mark.parametrize("decay", [0.0, 0.01])


def drawn(seed: int) -> list[Tensor]:
    """Four tables of three networks."""
    return list(torch.rand(4, 3, 500, generator=torch.Generator().manual_seed(seed)))


@DECAYS
def test_the_reference_is_adamw(decay: float) -> None:
    weights, first, second, _ = drawn(1)
    first.zero_(), second.zero_()
    truth = weights.clone().requires_grad_()
    optimizer = torch.optim.AdamW([truth], 1e-2, (0.9, 0.98), 1e-6, weight_decay=decay)
    for number in range(1, 6):
        gradient = drawn(number)[3] - 0.5
        truth.grad = gradient.clone()
        optimizer.step()
        ones, steps = torch.ones(3), torch.full((3,), float(number))
        rate, adam = torch.tensor(1e-2), Adam(0.9, 0.98, 1e-6, decay)
        adam_step(AdamStep(weights, first, second, gradient, ones, ones.bool(), steps, rate, adam))
        assert not gradient.any(), "empty for the next update"
    torch.testing.assert_close(weights, truth.detach(), rtol=1e-5, atol=1e-6)


@DECAYS
def test_the_version_for_cpus_is_the_reference(decay: float) -> None:
    states = [drawn(1), drawn(1)]
    good, steps = torch.tensor([True, False, True]), torch.tensor([1.0, 4.0, 900.0])
    for (weights, first, second, gradient), step in zip(states, (adam_step, fused_adam_step), strict=True):
        gradient[1] = torch.nan  # of a network that is left out
        scale, rate = torch.tensor([0.5, 1.0, 2.0]), torch.tensor(1e-2)
        adam = Adam(0.9, 0.98, 1e-9, decay)
        step(AdamStep(weights, first, second, gradient, scale, good, steps, rate, adam))
    for one, other in zip(*states, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
