"""The end of a block: bias, dropout, residual and layer norm, in one pass forward and one backward.

Shapes: N networks, M rows of each, D width. Weights are slices of flat rows, so each network's is a stride apart.
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

_EPSILON = tl.constexpr(1e-5)
_WARP = 256  # elements of a row per warp: more would spill registers, fewer would need synchronization
_WARPS = 2640  # of the backward pass: as many as the device runs concurrently


@triton.jit
def _joined(
    x,
    out,
    bias,
    seed,
    network,
    place,
    columns,
    inside,
    stride,
    rate,
    D: tl.constexpr,
    OUT: tl.constexpr,
    BIAS: tl.constexpr,
    DROP: tl.constexpr,
):
    """The residual after a block, and the mask by which the block's output was multiplied."""
    joined = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    share = tl.zeros(joined.shape, tl.float32) + 1.0
    if OUT:
        added = tl.load(out + place, mask=inside, other=0.0).to(tl.float32)
        if BIAS:
            added += tl.load(bias + network * stride + columns, mask=columns < D, other=0.0).to(tl.float32)
        if DROP:
            share = kept(tl.load(seed), place, rate)
        joined += added * share
    return joined, share


@triton.jit
def _forward(
    x, out, bias, scale, shift, y, seed, bias_stride, scale_stride, M, rate,
    D: tl.constexpr, OUT: tl.constexpr, BIAS: tl.constexpr, DROP: tl.constexpr, NORM: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    network = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, BLOCK)[None, :]
    inside = (row < M) & (columns < D)
    place = (network * M + row) * D + columns
    joined, _ = _joined(x, out, bias, seed, network, place, columns, inside, bias_stride, rate, D, OUT, BIAS, DROP)
    if NORM:
        centred = tl.where(columns < D, joined - (tl.sum(joined, 1) / D)[:, None], 0.0)
        spread = tl.rsqrt(tl.sum(centred * centred, 1) / D + _EPSILON)
        weight = tl.load(scale + network * scale_stride + columns, mask=columns < D, other=0.0).to(tl.float32)
        offset = tl.load(shift + network * scale_stride + columns, mask=columns < D, other=0.0).to(tl.float32)
        joined = centred * spread[:, None] * weight + offset
    tl.store(y + place, joined.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _backward(
    x, out, bias, scale, gradient, x_slope, out_slope, parts, seed, bias_stride, scale_stride, M, tiles, rate,
    D: tl.constexpr, OUT: tl.constexpr, BIAS: tl.constexpr, DROP: tl.constexpr, NORM: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Each program processes `tiles` tiles of rows and writes their partial sums of the weight gradients."""
    network = tl.program_id(1).to(tl.int64)
    columns = tl.arange(0, BLOCK)[None, :]
    weight = tl.zeros((1, BLOCK), tl.float32)
    if NORM:
        weight += tl.load(scale + network * scale_stride + columns, mask=columns < D, other=0.0).to(tl.float32)
    bias_sum = tl.zeros((ROWS, BLOCK), tl.float32)
    scale_sum = tl.zeros((ROWS, BLOCK), tl.float32)
    shift_sum = tl.zeros((ROWS, BLOCK), tl.float32)
    tile = 0
    while tile < tiles:
        row = (tl.program_id(0) * tiles + tile) * ROWS + tl.arange(0, ROWS)[:, None]
        inside = (row < M) & (columns < D)
        place = (network * M + row) * D + columns
        slope = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32)
        joined, share = _joined(
            x, out, bias, seed, network, place, columns, inside, bias_stride, rate, D, OUT, BIAS, DROP
        )
        if NORM:
            centred = tl.where(columns < D, joined - (tl.sum(joined, 1) / D)[:, None], 0.0)
            spread = tl.rsqrt(tl.sum(centred * centred, 1) / D + _EPSILON)[:, None]
            normed = centred * spread
            scale_sum += slope * normed
            shift_sum += slope
            inner = slope * weight
            mean = (tl.sum(inner, 1) / D)[:, None]
            along = (tl.sum(inner * normed, 1) / D)[:, None]
            slope = (inner - mean - normed * along) * spread
        tl.store(x_slope + place, slope.to(x_slope.dtype.element_ty), mask=inside)
        if OUT:
            if DROP:
                slope *= share
                tl.store(out_slope + place, slope.to(out_slope.dtype.element_ty), mask=inside)
            bias_sum += tl.where(inside, slope, 0.0)
        tile += 1
    part = (network * tl.num_programs(0) + tl.program_id(0)) * 3 * D + columns
    tl.store(parts + part, tl.sum(bias_sum, 0)[None, :], mask=columns < D)
    tl.store(parts + part + D, tl.sum(scale_sum, 0)[None, :], mask=columns < D)
    tl.store(parts + part + 2 * D, tl.sum(shift_sum, 0)[None, :], mask=columns < D)


class _Residual(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        out: Tensor | None,
        bias: Tensor | None,
        scale: Tensor | None,
        shift: Tensor | None,
        rate: float,
    ) -> Tensor:
        networks, rows, width = x.shape
        seed = new_seed(x.device) if rate else None
        block = triton.next_power_of_2(width)
        flags = {
            "D": width, "OUT": out is not None, "BIAS": bias is not None, "DROP": rate > 0, "NORM": scale is not None,
            "BLOCK": block, "num_warps": min(16, max(1, block // _WARP)),
        }  # fmt: skip
        y = torch.empty_like(x)
        _forward[(triton.cdiv(rows, 2), networks)](
            x, _or(out, x), _or(bias, x), _or(scale, x), _or(shift, x), y, _or(seed, x), _apart(bias), _apart(scale),
            rows, rate, ROWS=2, **flags,
        )  # fmt: skip
        ctx.save_for_backward(x, out, bias, scale, seed)
        ctx.rate, ctx.flags = rate, flags
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, out, bias, scale, seed = ctx.saved_tensors
        networks, rows, width = x.shape
        tiles = triton.cdiv(rows * networks * ctx.flags["num_warps"], _WARPS)
        programs = triton.cdiv(rows, tiles)
        parts = torch.empty(networks, programs, 3, width, dtype=torch.float32, device=x.device)
        x_slope = torch.empty_like(x)
        out_slope = torch.empty_like(x) if ctx.rate and out is not None else x_slope
        _backward[(programs, networks)](
            x, _or(out, x), _or(bias, x), _or(scale, x), gradient.contiguous(), x_slope, out_slope, parts,
            _or(seed, x), _apart(bias), _apart(scale), rows, tiles, ctx.rate, ROWS=1, **ctx.flags,
        )  # fmt: skip
        found = sums.of_parts(parts.flatten(2), x.dtype).view(networks, 3, width).unbind(1)
        normed = (None, None) if scale is None else found[1:]
        return x_slope, None if out is None else out_slope, None if bias is None else found[0], *normed, None


def _or(tensor: Tensor | None, instead: Tensor) -> Tensor:
    """Kernels need a valid pointer even for an absent tensor."""
    return instead if tensor is None else tensor


def _apart(weight: Tensor | None) -> int:
    return 0 if weight is None else weight.stride(0)


def residual_norm(
    x: Tensor,
    out: Tensor | None,
    bias_ND: Tensor | None,
    norm_ND: tuple[Tensor, Tensor] | None,
    dropout: float = 0.0,
) -> Tensor:
    """norm(x + dropout(out + bias)), where absent parts are skipped; x and out are (N, ..., D).

    The dropout seed is one number from the device's default generator.
    """
    scale, shift = norm_ND or (None, None)
    flat = x.contiguous().flatten(1, -2)
    added = None if out is None else out.contiguous().view(flat.shape)
    y: Tensor = _Residual.apply(flat, added, bias_ND, scale, shift, dropout)
    return y.view(x.shape)
