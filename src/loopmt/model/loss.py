"""Label-smoothed cross-entropy on a CPU: torch's own, bit for bit, in the memory of the logits.

Autograd keeps half a dozen tables of rows times vocabulary, each in memory fresh from the system, and that costs more
than the arithmetic. Here a block of rows goes through all operations while the caches hold it.

Shapes: R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

_BLOCK = 2**19  # logits; two megabytes


def smoothed_losses(logits_RV: Tensor, target_R: Tensor, smoothing: float) -> Tensor:
    """`F.cross_entropy(logits, target, reduction="none", label_smoothing=smoothing)`; the logits are used up."""
    losses: Tensor = _Losses.apply(logits_RV, target_R, smoothing)  # type: ignore[no-untyped-call]
    return losses


class _Losses(torch.autograd.Function):
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
    """Of two rows at least: a single one would be summed in another order."""
    number = max(1, min(-(-table_RV.numel() // _BLOCK), len(table_RV) // 2))
    return zip(*(one.tensor_split(number) for one in (table_RV, *columns)), strict=True)
