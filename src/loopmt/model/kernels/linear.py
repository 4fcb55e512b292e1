"""The linear layer of every network; gradients have the layout of the flat weights.

Autograd would compute the weight gradient transposed and copy it, and its bias reduction is slow.

Shapes: N networks, M rows of each, I width in, O width out. Biases are slices of flat rows, so each network's is a
stride apart.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from loopmt.model.kernels import sums

_BLOCK, _ROWS = 512, 4


@triton.jit
def _add(x, bias, stride, M, F, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    network = tl.program_id(2).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = (row < M) & (columns < F)
    place = (network * M + row) * F + columns
    value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    value += tl.load(bias + network * stride + columns, mask=columns < F, other=0.0).to(tl.float32)
    tl.store(x + place, value.to(x.dtype.element_ty), mask=inside)


def _product(one: Tensor, other: Tensor) -> Tensor:
    """A batched product; a plain one for a single network, which has faster kernels."""
    return torch.mm(one[0], other[0])[None] if len(one) == 1 else torch.bmm(one, other)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.biased = bias is not None
        if len(x) == 1:  # addmm includes the bias
            return F.linear(x, weight[0], None if bias is None else bias[0])
        y = torch.bmm(x, weight.transpose(1, 2))
        if bias is not None:
            (networks, rows, width), blocks = y.shape, triton.cdiv(y.shape[2], _BLOCK)
            _add[(triton.cdiv(rows, _ROWS), blocks, networks)](
                y, bias, bias.stride(0), rows, width, ROWS=_ROWS, BLOCK=_BLOCK, num_warps=4
            )
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = gradient.contiguous()
        summed = sums.of_columns(gradient, x.dtype) if ctx.biased else None
        return _product(gradient, weight), _product(gradient.transpose(1, 2), x), summed


def linear(x: Tensor, weight_NOI: Tensor, bias_NO: Tensor | None = None) -> Tensor:
    """x (N, ..., I) times each network's matrix, plus its bias if there is one."""
    y: Tensor = _Linear.apply(x.flatten(1, -2), weight_NOI, bias_NO)
    return y.view(*x.shape[:-1], -1)
