"""Label-smoothed cross-entropy: the reference is its definition, and the fast version for CPUs has the same bits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from loopmt.model.loss import cross_entropy, cross_entropy_in_place, token_losses
from loopmt.text.ragged import PAD


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_reference_is_the_definition(smoothing: float) -> None:
    logits, target = drawn(30, 50), torch.arange(30)
    wanted = torch.full((30, 50), smoothing / 50)
    wanted[target, target] += 1 - smoothing
    torch.testing.assert_close(cross_entropy(logits, target, smoothing), -(wanted * logits.log_softmax(1)).sum(1))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_padding_has_no_loss(smoothing: float) -> None:
    target = torch.tensor([[[5, 7, PAD], [3, PAD, PAD]]])
    logits = drawn(1, 2, 3, 20).requires_grad_()
    losses = token_losses(logits * 1, target, smoothing)
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert torch.equal(losses == 0, target == PAD)
    assert torch.equal(gradient.abs().sum(-1) == 0, target == PAD)


@pytest.mark.parametrize(("rows", "size"), [(1, 7), (300, 360), (2, 600_000), (35, 50_000)])  # up to four blocks
def test_the_loss_in_place_is_the_reference(rows: int, size: int) -> None:
    target = torch.arange(rows) % size
    outcomes = []
    for compute in (cross_entropy_in_place, cross_entropy):
        leaf = drawn(rows, size).requires_grad_()
        losses = compute(leaf * 3, target, 0.1)
        (gradient,) = torch.autograd.grad((losses * drawn(rows, seed=2)).sum(), leaf)
        outcomes.append((losses.detach(), gradient))
    for ours, truth in zip(*outcomes, strict=True):
        assert torch.equal(ours, truth)
