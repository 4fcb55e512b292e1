"""Attention with one query per row, for incremental decoding. Only visible positions are read, and no row is moved.

Exponentials are powers of 2, which the hardware computes directly; the scale of the scores compensates.

Shapes: R rows, H heads, T positions, S source length, K head size.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_TILE = 1024  # keys and values that a warp holds at once
_LOG2_E = 1.4426950408889634


@triton.jit
def _attend_more(query, k, v, seen, largest, total, summed):
    """Update the online softmax with a tile of keys and values."""
    scores = tl.sum(k.to(tl.float32) * query[None, :], 1)
    scores = tl.where(seen, scores, -float("inf"))
    before = largest
    largest = tl.maximum(before, tl.max(scores, 0))
    shares = tl.exp2(scores - largest)
    shrink = tl.exp2(before - largest)
    total = total * shrink + tl.sum(shares, 0)
    summed = summed * shrink + tl.sum(shares[:, None] * v.to(tl.float32), 0)
    return largest, total, summed


@triton.jit
def _past(
    query,
    key,
    value,
    keys,
    values,
    ancestors,
    position,
    out,
    scale,
    row_stride,
    T,
    H,
    K: tl.constexpr,
    BEAMS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, head = tl.program_id(0) // H, tl.program_id(0) % H
    now = tl.load(position).to(tl.int32)
    size = tl.arange(0, K)
    new = row.to(tl.int64) * row_stride + head * K + size
    q = tl.load(query + new).to(tl.float32) * scale
    new_key = tl.load(key + new)
    new_value = tl.load(value + new)
    own = (row.to(tl.int64) * H + head) * T * K  # from here on offsets are small
    keys += own
    values += own
    tl.store(keys + now * K + size, new_key)
    tl.store(values + now * K + size, new_value)
    largest = tl.sum(q * new_key.to(tl.float32), 0)
    total = tl.exp2(largest - largest)
    summed = new_value.to(tl.float32)
    start = 0
    while start < now:
        time = start + tl.arange(0, BLOCK)
        seen = time < now
        place = time
        if BEAMS:
            place += tl.load(ancestors + row * T + time, mask=seen, other=0) * H * T
        place = place[:, None] * K + size[None, :]
        k = tl.load(keys + place, mask=seen[:, None], other=0.0)
        v = tl.load(values + place, mask=seen[:, None], other=0.0)
        largest, total, summed = _attend_more(q, k, v, seen, largest, total, summed)
        start += BLOCK
    tl.store(out + (row.to(tl.int64) * H + head) * K + size, (summed / total).to(out.dtype.element_ty))


@triton.jit
def _source(
    query,
    keys,
    values,
    mask,
    out,
    scale,
    query_stride,
    row_stride,
    head_stride,
    time_stride,
    width,
    S,
    H,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, head = tl.program_id(0) // H, tl.program_id(0) % H
    sentence = (row // width).to(tl.int64)
    keys += sentence * row_stride + head * head_stride
    values += sentence * row_stride + head * head_stride
    size = tl.arange(0, K)
    q = tl.load(query + row.to(tl.int64) * query_stride + head * K + size).to(tl.float32) * scale
    largest = tl.sum(q, 0) * 0.0 - 1e30
    total = tl.sum(q, 0) * 0.0
    summed = q * 0.0
    start = 0
    while start < S:
        time = start + tl.arange(0, BLOCK)
        seen = tl.load(mask + sentence * S + time, mask=time < S, other=0) != 0
        place = (time * time_stride)[:, None] + size[None, :]
        k = tl.load(keys + place, mask=seen[:, None], other=0.0)
        v = tl.load(values + place, mask=seen[:, None], other=0.0)
        largest, total, summed = _attend_more(q, k, v, seen, largest, total, summed)
        start += BLOCK
    tl.store(out + (row.to(tl.int64) * H + head) * K + size, (summed / total).to(out.dtype.element_ty))


def attend_past(
    query_RH1K: Tensor,
    key_RH1K: Tensor,
    value_RH1K: Tensor,
    keys_RHTK: Tensor,
    values_RHTK: Tensor,
    position: Tensor,
    ancestors_RT: Tensor | None = None,
) -> Tensor:
    """Write the new key and value at `position` of the cache, and attend to all positions up to it.

    With `ancestors`, position t of row r is cached in row `r + ancestors[r, t]` (int32).
    The three new tensors are slices of one projection.
    """
    rows, heads, length, size = keys_RHTK.shape
    assert query_RH1K.stride() == key_RH1K.stride() == value_RH1K.stride() and query_RH1K.stride(1) == size
    assert keys_RHTK.is_contiguous() and values_RHTK.is_contiguous()
    out = query_RH1K.new_empty(rows, 1, heads, size)
    table = position if ancestors_RT is None else ancestors_RT
    _past[(rows * heads,)](
        query_RH1K, key_RH1K, value_RH1K, keys_RHTK, values_RHTK, table, position, out, size**-0.5 * _LOG2_E,
        query_RH1K.stride(0), length, H=heads, K=size, BEAMS=ancestors_RT is not None, BLOCK=_TILE // size, num_warps=1,
    )  # fmt: skip
    return out.transpose(1, 2)


def attend_source(query_RH1K: Tensor, keys_BHSK: Tensor, values_BHSK: Tensor, mask_B11S: Tensor) -> Tensor:
    """Attend to the source. Rows of one sentence are adjacent and share its keys and values."""
    (rows, heads, _, size), (sentences, _, length, _) = query_RH1K.shape, keys_BHSK.shape
    assert keys_BHSK.stride() == values_BHSK.stride() and keys_BHSK.stride(3) == 1 and query_RH1K.stride(1) == size
    out = query_RH1K.new_empty(rows, 1, heads, size)
    mask = mask_B11S.contiguous().view(torch.uint8)
    _source[(rows * heads,)](
        query_RH1K, keys_BHSK, values_BHSK, mask, out, size**-0.5 * _LOG2_E,
        query_RH1K.stride(0), *keys_BHSK.stride()[:3], rows // sentences, length,
        H=heads, K=size, BLOCK=_TILE // size, num_warps=1,
    )  # fmt: skip
    return out.transpose(1, 2)
