"""Label-smoothed cross-entropy: the reference, and a faster, bit-identical version for CPUs.

The CUDA kernel is `model.kernels.loss`. The tests compare both fast versions with `cross_entropy`.

Shapes: N networks, B sentences, T target length, R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from loopmt.text.ragged import PAD

_BLOCK = 2**19  # logits; two megabytes


def token_losses(logits_NBTV: Tensor, target_NBT: Tensor, smoothing: float) -> Tensor:
    """The loss of every token, in float32; 0 where the target is padding. The logits may be overwritten."""
    logits, target = logits_NBTV.flatten(0, -2).float(), target_NBT.flatten()
    learning_on_cpu = logits.is_cpu and logits.requires_grad and not torch.compiler.is_compiling()
    compute = cross_entropy_in_place if smoothing and learning_on_cpu else cross_entropy
    return compute(logits, target, smoothing).view_as(target_NBT).masked_fill(target_NBT == PAD, 0.0)


def cross_entropy(logits_RV: Tensor, target_R: Tensor, smoothing: float) -> Tensor:
    """The reference: the share `smoothing` of the target's mass is spread evenly over the vocabulary."""
    return F.cross_entropy(logits_RV, target_R, reduction="none", label_smoothing=smoothing)


def cross_entropy_in_place(logits_RV: Tensor, target_R: Tensor, smoothing: float) -> Tensor:
    """The same loss, computed on a CPU; overwrites the logits.

    Autograd allocates about six tables of rows times vocabulary, which costs more than the arithmetic. Here a block of
    rows goes through all operations while it is in the cache.
    """
    losses: Tensor = _InPlace.apply(logits_RV, target_R, smoothing)  # type: ignore[no-untyped-call]
    return losses


class _InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits_RV: Tensor, target_R: Tensor, smoothing: float) -> Tensor:
        losses = []
        for logits, target in _blocks(logits_RV, target_R):
            likelihoods = logits.copy_(torch.log_softmax(logits, 1))
            of_target = -likelihoods.gather(1, target[:, None])[:, 0]
            of_all = -likelihoods.sum(1)
            losses.append((1 - smoothing) * of_target + of_all * (smoothing / logits.shape[1]))
        ctx.likelihoods_RV, ctx.target_R, ctx.smoothing = logits_RV, target_R, smoothing
        return torch.cat(losses)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        gradient_RV, ctx.likelihoods_RV = ctx.likelihoods_RV, None
        size, smoothing = gradient_RV.shape[1], ctx.smoothing
        for place, target, gradient in _blocks(gradient_RV, ctx.target_R, gradients[0]):
            spread = (-(gradient * (smoothing / size)))[:, None].repeat(1, size)
            spread.scatter_add_(1, target[:, None], -(gradient * (1 - smoothing))[:, None])
            place.copy_(torch._log_softmax_backward_data(spread, place, 1, place.dtype))
        return gradient_RV, None, None


def _blocks(table_RV: Tensor, *columns: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Blocks of rows. Each has at least two: torch sums a single row in another order."""
    number = max(1, min(-(-table_RV.numel() // _BLOCK), len(table_RV) // 2))
    return zip(*(one.tensor_split(number) for one in (table_RV, *columns)), strict=True)
