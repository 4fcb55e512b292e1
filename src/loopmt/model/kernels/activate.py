"""Bias, activation and dropout of a feed-forward block, in one pass forward and one backward.

Shapes: N networks, M rows of each, F inner width. Biases are slices of flat rows, so each network's is a stride apart.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from loopmt.model.kernels import sums
from loopmt.model.kernels.dropout import kept, new_seed

_BLOCK, _ROWS, _PROGRAMS = 512, 4, 1024


@triton.jit
def _activated(x, ACTIVATION: tl.constexpr):
    """The activation of x and its derivative."""
    if ACTIVATION == "relu":
        y = tl.maximum(x, 0.0)
        slope = tl.where(x > 0.0, 1.0, 0.0)
    elif ACTIVATION == "gelu":
        below = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))
        y = x * below
        slope = below + x * 0.3989422804014327 * tl.exp(-0.5 * x * x)
    else:
        gate = tl.sigmoid(x)
        y = x * gate
        slope = gate * (1.0 + x * (1.0 - gate))
    return y, slope


@triton.jit
def _forward(
    x,
    bias,
    y,
    seed,
    stride,
    M,
    F,
    rate,
    ACTIVATION: tl.constexpr,
    DROP: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    network = tl.program_id(2).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = (row < M) & (columns < F)
    place = (network * M + row) * F + columns
    value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    value += tl.load(bias + network * stride + columns, mask=columns < F, other=0.0).to(tl.float32)
    out, _ = _activated(value, ACTIVATION)
    if DROP:
        out *= kept(tl.load(seed), place, rate)
    tl.store(y + place, out.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _backward(
    x,
    bias,
    gradient,
    x_slope,
    parts,
    seed,
    stride,
    M,
    F,
    tiles,
    rate,
    ACTIVATION: tl.constexpr,
    DROP: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    network = tl.program_id(2).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    shift = tl.load(bias + network * stride + columns, mask=columns < F, other=0.0).to(tl.float32)
    summed = tl.zeros((ROWS, BLOCK), tl.float32)
    tile = 0
    while tile < tiles:
        row = (tl.program_id(0) * tiles + tile) * ROWS + tl.arange(0, ROWS)[:, None]
        inside = (row < M) & (columns < F)
        place = (network * M + row) * F + columns
        slope = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32)
        value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        _, steep = _activated(value + shift, ACTIVATION)
        slope *= steep
        if DROP:
            slope *= kept(tl.load(seed), place, rate)
        tl.store(x_slope + place, slope.to(x_slope.dtype.element_ty), mask=inside)
        summed += slope
        tile += 1
    part = (network * tl.num_programs(0) + tl.program_id(0)) * F + columns
    tl.store(parts + part, tl.sum(summed, 0)[None, :], mask=columns < F)


class _BiasAct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, activation: str, rate: float) -> Tensor:
        networks, rows, width = x.shape
        seed = new_seed(x.device) if rate else x
        y = torch.empty_like(x)
        grid = (triton.cdiv(rows, _ROWS), triton.cdiv(width, _BLOCK), networks)
        ctx.flags = {"ACTIVATION": activation, "DROP": rate > 0, "ROWS": _ROWS, "BLOCK": _BLOCK, "num_warps": 4}
        _forward[grid](x, bias, y, seed, bias.stride(0), rows, width, rate, **ctx.flags)
        ctx.save_for_backward(x, bias, seed)
        ctx.rate = rate
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, bias, seed = ctx.saved_tensors
        networks, rows, width = x.shape
        columns, count = triton.cdiv(width, _BLOCK), triton.cdiv(rows, _ROWS)
        tiles = max(1, columns * count * networks // _PROGRAMS)
        programs = triton.cdiv(count, tiles)
        parts = torch.empty(networks, programs, width, dtype=torch.float32, device=x.device)
        slope = torch.empty_like(x)
        _backward[(programs, columns, networks)](
            x, bias, gradient.contiguous(), slope, parts, seed, bias.stride(0), rows, width, tiles, ctx.rate,
            **ctx.flags,
        )  # fmt: skip
        return slope, sums.of_parts(parts, bias.dtype), None, None


def bias_act(x: Tensor, bias_NF: Tensor, activation: str, dropout: float = 0.0) -> Tensor:
    """dropout(activation(x + bias)) of x (N, ..., F); relu, gelu or swish."""
    flat = x.contiguous().flatten(1, -2)
    y: Tensor = _BiasAct.apply(flat, bias_NF, activation, dropout)
    return y.view(x.shape)
