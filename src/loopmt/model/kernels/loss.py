"""Cross-entropy over the vocabulary, including the output bias, in one pass over the logits forward and one backward.

Shapes: R rows, V vocabulary, N networks; the rows of a network are adjacent.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from loopmt.model.kernels import sums
from loopmt.text.ragged import PAD

_PAD = tl.constexpr(PAD)


@triton.jit
def _forward(
    logits,
    bias,
    target,
    losses,
    lse,
    bias_stride,
    rows,
    smoothing,
    V: tl.constexpr,
    BIAS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    logits += row.to(tl.int64) * V
    bias += (row // rows).to(tl.int64) * bias_stride
    columns = tl.arange(0, BLOCK)
    right = tl.load(target + row)
    largest = -float("inf")
    total = 0.0
    linear = 0.0
    picked = 0.0
    for start in range(0, V, BLOCK):
        inside = start + columns < V
        x = tl.load(logits + start + columns, mask=inside, other=0.0).to(tl.float32)
        if BIAS:
            x += tl.load(bias + start + columns, mask=inside, other=0.0).to(tl.float32)
        linear += tl.sum(x, 0)
        picked += tl.sum(tl.where(start + columns == right, x, 0.0), 0)
        x = tl.where(inside, x, -float("inf"))
        before = largest
        largest = tl.maximum(before, tl.max(x, 0))
        total = total * tl.exp(before - largest) + tl.sum(tl.exp(x - largest), 0)
    normaliser = largest + tl.log(total)
    loss = normaliser - (1.0 - smoothing) * picked - smoothing / V * linear
    tl.store(lse + row, normaliser)
    tl.store(losses + row, tl.where(right == _PAD, 0.0, loss))


@triton.jit
def _backward(
    logits,
    bias,
    target,
    lse,
    gradient,
    bias_parts,
    bias_stride,
    rows,
    smoothing,
    V: tl.constexpr,
    BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the gradient over the logits; each program also writes a partial sum of the bias gradient."""
    part, network = tl.program_id(1), tl.program_id(2)
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    shift = tl.zeros((1, BLOCK), tl.float32)
    if BIAS:
        shift += tl.load(bias + network.to(tl.int64) * bias_stride + columns, mask=columns < V, other=0.0).to(
            tl.float32
        )
    summed = tl.zeros((TILE, BLOCK), tl.float32)
    for start in range(0, ROWS, TILE):
        place = part * ROWS + start + tl.arange(0, TILE)[:, None]
        real = place < rows
        row = network.to(tl.int64) * rows + place
        inside = real & (columns < V)
        right = tl.load(target + row, mask=real, other=_PAD)
        scale = tl.where(right == _PAD, 0.0, tl.load(gradient + row, mask=real, other=0.0))
        normaliser = tl.load(lse + row, mask=real, other=0.0)
        x = tl.load(logits + row * V + columns, mask=inside, other=0.0).to(tl.float32)
        wanted = tl.where(columns == right, 1.0 - smoothing, 0.0) + smoothing / V
        slope = tl.where(inside, scale * (tl.exp(x + shift - normaliser) - wanted), 0.0)
        tl.store(logits + row * V + columns, slope.to(logits.dtype.element_ty), mask=inside)
        summed += slope
    if BIAS:
        place = (network * tl.num_programs(1) + part) * V + columns
        tl.store(bias_parts + place, tl.sum(summed, 0)[None, :], mask=columns < V)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, bias: Tensor | None, target: Tensor, smoothing: float) -> Tensor:
        rows, size = logits.shape
        losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
        lse = torch.empty_like(losses)
        networks = 1 if bias is None else bias.shape[0]
        block = min(4096, triton.next_power_of_2(size))
        _forward[(rows,)](
            logits, logits if bias is None else bias, target, losses, lse,
            0 if bias is None else bias.stride(0), rows // networks, smoothing,
            V=size, BIAS=bias is not None, BLOCK=block, num_warps=8 if block > 2048 else 4,
        )  # fmt: skip
        ctx.save_for_backward(logits, bias, target, lse)
        ctx.smoothing = smoothing
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        logits, bias, target, lse = ctx.saved_tensors
        (total, size), networks = logits.shape, 1 if bias is None else bias.shape[0]
        rows, span, block = total // networks, 64, 512
        parts = triton.cdiv(rows, span)
        bias_parts = lse if bias is None else lse.new_empty(networks, parts, size)
        _backward[(triton.cdiv(size, block), parts, networks)](
            logits, logits if bias is None else bias, target, lse, gradient.contiguous(), bias_parts,
            0 if bias is None else bias.stride(0), rows, ctx.smoothing,
            V=size, BIAS=bias is not None, ROWS=span, TILE=4, BLOCK=block, num_warps=4,
        )  # fmt: skip
        return logits, None if bias is None else sums.of_parts(bias_parts, bias.dtype), None, None


def cross_entropy(logits_RV: Tensor, target_R: Tensor, smoothing: float, bias_NV: Tensor | None = None) -> Tensor:
    """The label-smoothed loss of every row, in float32; 0 where the target is padding.

    The backward pass overwrites the logits with the gradient, so it can run only once.
    """
    losses: Tensor = _CrossEntropy.apply(logits_RV.contiguous(), bias_NV, target_R.contiguous(), smoothing)
    return losses
