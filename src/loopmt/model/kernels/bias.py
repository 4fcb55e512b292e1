"""The bias of a projection: added in place, its gradient summed in one pass.

Shapes: N networks, M rows of each, F width. Biases are rows of flat tensors, so networks are a stride apart.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

_BLOCK, _ROWS, _PROGRAMS = 512, 4, 1024


@triton.jit
def _forward(x, bias, stride, M, F, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    network = tl.program_id(2).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = (row < M) & (columns < F)
    place = (network * M + row) * F + columns
    value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    value += tl.load(bias + network * stride + columns, mask=columns < F, other=0.0).to(tl.float32)
    tl.store(x + place, value.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _summed(gradient, parts, M, F, tiles, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Each program goes over `tiles` tiles of rows and leaves their sum."""
    network = tl.program_id(2).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    tile = 0
    while tile < tiles:
        row = (tl.program_id(0) * tiles + tile) * ROWS + tl.arange(0, ROWS)[:, None]
        inside = (row < M) & (columns < F)
        total += tl.load(gradient + (network * M + row) * F + columns, mask=inside, other=0.0).to(tl.float32)
        tile += 1
    part = (network * tl.num_programs(0) + tl.program_id(0)) * F + columns
    tl.store(parts + part, tl.sum(total, 0)[None, :], mask=columns < F)


class _Biased(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, added: bool) -> Tensor:
        networks, rows, width = x.shape
        ctx.dtype = bias.dtype
        if added:
            return x.view_as(x)
        ctx.mark_dirty(x)
        _forward[(triton.cdiv(rows, _ROWS), triton.cdiv(width, _BLOCK), networks)](
            x, bias, bias.stride(0), rows, width, ROWS=_ROWS, BLOCK=_BLOCK, num_warps=4
        )
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        networks, rows, width = gradient.shape
        columns, count = triton.cdiv(width, _BLOCK), triton.cdiv(rows, _ROWS)
        tiles = max(1, columns * count * networks // _PROGRAMS)
        programs = triton.cdiv(count, tiles)
        parts = torch.empty(networks, programs, width, dtype=torch.float32, device=gradient.device)
        _summed[(programs, columns, networks)](
            gradient.contiguous(), parts, rows, width, tiles, ROWS=_ROWS, BLOCK=_BLOCK, num_warps=4
        )
        return gradient, parts.sum(1).to(ctx.dtype), None


def biased(x_NMF: Tensor, bias_NF: Tensor, added: bool = False) -> Tensor:
    """x + bias, in the place of x; if it was `added` already, only its gradient is left to find."""
    y: Tensor = _Biased.apply(x_NMF, bias_NF, added)
    return y
