"""Attention over short sequences: one program handles a whole row and head, forward and backward.

The backward pass needs only the inputs. Outputs and gradients have the layout of the surrounding projections (heads
side by side), so nothing is copied.

Shapes: R rows, H heads, T target length, S source length, K head size, D width.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

LONGEST = 128
SIZES = (16, 32, 64, 128)  # of a head


@triton.jit
def _shares(q, k, mask, scale, row, S, CAUSAL: tl.constexpr, MASKED: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr):
    """Attention weights, (BT, BS) in float32."""
    target, source = tl.arange(0, BT)[:, None], tl.arange(0, BS)[None, :]
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    seen = source < S
    if CAUSAL:
        seen = seen & (source <= target)
    if MASKED:
        seen = seen & (tl.load(mask + row * S + source, mask=source < S, other=0) != 0)
    scores = tl.where(seen, scores, -float("inf"))
    shares = tl.exp(scores - tl.max(scores, 1)[:, None])
    return shares / tl.sum(shares, 1)[:, None]


@triton.jit
def _forward(
    query,
    keys,
    values,
    mask,
    out,
    scale,
    q_row,
    q_head,
    q_time,
    k_row,
    k_head,
    k_time,
    o_row,
    o_head,
    o_time,
    T,
    S,
    H,
    K: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    BT: tl.constexpr,
    BS: tl.constexpr,
):
    row, head = (tl.program_id(0) // H).to(tl.int64), tl.program_id(0) % H
    target, source, size = tl.arange(0, BT)[:, None], tl.arange(0, BS)[:, None], tl.arange(0, K)[None, :]
    q_place = row * q_row + head * q_head + target * q_time + size
    k_place = row * k_row + head * k_head + source * k_time + size
    q = tl.load(query + q_place, mask=target < T, other=0.0)
    k = tl.load(keys + k_place, mask=source < S, other=0.0)
    v = tl.load(values + k_place, mask=source < S, other=0.0)
    shares = _shares(q, k, mask, scale, row, S, CAUSAL, MASKED, BT, BS)
    attended = tl.dot(shares.to(v.dtype), v, input_precision="ieee")
    o_place = row * o_row + head * o_head + target * o_time + size
    tl.store(out + o_place, attended.to(out.dtype.element_ty), mask=target < T)


@triton.jit
def _backward(
    query,
    keys,
    values,
    mask,
    gradient,
    query_slope,
    keys_slope,
    values_slope,
    scale,
    q_row,
    q_head,
    q_time,
    k_row,
    k_head,
    k_time,
    o_row,
    o_head,
    o_time,
    dq_row,
    dq_head,
    dq_time,
    dk_row,
    dk_head,
    dk_time,
    T,
    S,
    H,
    K: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    BT: tl.constexpr,
    BS: tl.constexpr,
):
    row, head = (tl.program_id(0) // H).to(tl.int64), tl.program_id(0) % H
    target, source, size = tl.arange(0, BT)[:, None], tl.arange(0, BS)[:, None], tl.arange(0, K)[None, :]
    q_place = row * q_row + head * q_head + target * q_time + size
    k_place = row * k_row + head * k_head + source * k_time + size
    o_place = row * o_row + head * o_head + target * o_time + size
    q = tl.load(query + q_place, mask=target < T, other=0.0)
    k = tl.load(keys + k_place, mask=source < S, other=0.0)
    v = tl.load(values + k_place, mask=source < S, other=0.0)
    g = tl.load(gradient + o_place, mask=target < T, other=0.0)
    shares = _shares(q, k, mask, scale, row, S, CAUSAL, MASKED, BT, BS)
    dk_place = row * dk_row + head * dk_head + source * dk_time + size
    slope = tl.dot(tl.trans(shares.to(g.dtype)), g, input_precision="ieee")
    tl.store(values_slope + dk_place, slope.to(values_slope.dtype.element_ty), mask=source < S)
    slopes = tl.dot(g, tl.trans(v), input_precision="ieee")
    slopes = shares * (slopes - tl.sum(shares * slopes, 1)[:, None]) * scale
    slopes = slopes.to(q.dtype)
    slope = tl.dot(tl.trans(slopes), q, input_precision="ieee")
    tl.store(keys_slope + dk_place, slope.to(keys_slope.dtype.element_ty), mask=source < S)
    dq_place = row * dq_row + head * dq_head + target * dq_time + size
    slope = tl.dot(slopes, k, input_precision="ieee")
    tl.store(query_slope + dq_place, slope.to(query_slope.dtype.element_ty), mask=target < T)


def _tiles(query: Tensor, keys: Tensor, mask: Tensor | None, causal: bool) -> dict[str, Any]:
    """Compile-time constants of both kernels."""
    (_, heads, target, size), source = query.shape, keys.shape[2]
    sides = [max(16, triton.next_power_of_2(length)) for length in (target, source)]
    area = sides[0] * sides[1]
    warps = 1 if area <= 512 else 2 if area <= 1024 else 4 if area <= 8192 else 8
    flags = {"CAUSAL": causal, "MASKED": mask is not None, "BT": sides[0], "BS": sides[1], "num_warps": warps}
    return {"T": target, "S": source, "H": heads, "K": size, **flags}


def _bytes(mask: Tensor | None, instead: Tensor) -> Tensor:
    return instead if mask is None else mask.contiguous().view(torch.uint8)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, out: Tensor) -> None:
    """`q`, `k`, `v` and `out` are (R, H, T, K), with any strides but the last; `k` and `v` have the same."""
    _forward[(q.shape[0] * q.shape[1],)](
        q, k, v, _bytes(mask, q), out, q.shape[-1] ** -0.5, *q.stride()[:3], *k.stride()[:3], *out.stride()[:3],
        **_tiles(q, k, mask, causal),
    )  # fmt: skip


def _attend_back(
    inputs: tuple[Tensor, Tensor, Tensor],
    mask: Tensor | None,
    causal: bool,
    gradient: Tensor,
    slopes: tuple[Tensor, Tensor, Tensor],
) -> None:
    q, k, v = inputs
    gradient = gradient if gradient.stride(-1) == 1 else gradient.contiguous()
    _backward[(q.shape[0] * q.shape[1],)](
        q, k, v, _bytes(mask, q), gradient, *slopes, q.shape[-1] ** -0.5, *q.stride()[:3], *k.stride()[:3],
        *gradient.stride()[:3], *slopes[0].stride()[:3], *slopes[1].stride()[:3], **_tiles(q, k, mask, causal),
    )  # fmt: skip


def _split(packed: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
    """(R, T, parts*D) to views (R, H, T, K)."""
    rows, length, width = packed.shape
    return packed.view(rows, length, parts, heads, width // parts // heads).permute(2, 0, 3, 1, 4).unbind(0)


class _Self(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, packed: Tensor, mask: Tensor | None, heads: int, causal: bool) -> Tensor:
        rows, length, width = packed.shape
        out = packed.new_empty(rows, length, width // 3)
        q, k, v = _split(packed, 3, heads)
        _attend(q, k, v, mask, causal, _split(out, 1, heads)[0])
        ctx.save_for_backward(packed, mask)
        ctx.heads, ctx.causal = heads, causal
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        packed, mask = ctx.saved_tensors
        slope = torch.empty_like(packed)
        q, k, v = _split(packed, 3, ctx.heads)
        dq, dk, dv = _split(slope, 3, ctx.heads)
        _attend_back((q, k, v), mask, ctx.causal, _split(gradient.contiguous(), 1, ctx.heads)[0], (dq, dk, dv))
        return slope, None, None, None


class _Cross(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        rows, heads, length, size = query.shape
        out = query.new_empty(rows, length, heads * size)
        _attend(query, keys, values, mask, False, _split(out, 1, heads)[0])
        ctx.save_for_backward(query, keys, values, mask)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, keys, values, mask = ctx.saved_tensors
        rows, heads, length, size = query.shape
        (dq,) = _split(query.new_empty(rows, length, heads * size), 1, heads)
        dk, dv = _split(keys.new_empty(rows, keys.shape[2], 2 * heads * size), 2, heads)
        _attend_back((query, keys, values), mask, False, _split(gradient.contiguous(), 1, heads)[0], (dq, dk, dv))
        return dq, dk, dv, None


def attend_self(packed_RTD: Tensor, heads: int, mask_R11S: Tensor | None = None, causal: bool = False) -> Tensor:
    """Self-attention of packed queries, keys and values, (R, T, 3D) to (R, T, D)."""
    out: Tensor = _Self.apply(packed_RTD.contiguous(), mask_R11S, heads, causal)
    return out


def attend_cross(query_RHTK: Tensor, keys_RHSK: Tensor, values_RHSK: Tensor, mask_R11S: Tensor) -> Tensor:
    """Cross-attention, to (R, T, D). Keys and values are views with equal strides, the last of which is 1."""
    assert keys_RHSK.stride() == values_RHSK.stride() and query_RHTK.stride(3) == keys_RHSK.stride(3) == 1
    out: Tensor = _Cross.apply(query_RHTK, keys_RHSK, values_RHSK, mask_R11S)
    return out


def fits(longest: int, size: int, dtype: torch.dtype) -> bool:
    """Whether one program can hold a row of this length and head size; the limit is lower for float32."""
    most = LONGEST if dtype == torch.bfloat16 else 32
    return longest <= most and size in SIZES and size <= most
