"""Deterministic sums over rows: programs write partial sums, which are then added in a fixed order.

Shapes: N networks, M rows of each, F width, P programs.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK, _ROWS, _PROGRAMS = 512, 4, 1024


@triton.jit
def _columns(x, parts, M, F, tiles, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Each program processes `tiles` tiles of rows and writes their sum."""
    network = tl.program_id(2).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    tile = 0
    while tile < tiles:
        row = (tl.program_id(0) * tiles + tile) * ROWS + tl.arange(0, ROWS)[:, None]
        inside = (row < M) & (columns < F)
        total += tl.load(x + (network * M + row) * F + columns, mask=inside, other=0.0).to(tl.float32)
        tile += 1
    part = (network * tl.num_programs(0) + tl.program_id(0)) * F + columns
    tl.store(parts + part, tl.sum(total, 0)[None, :], mask=columns < F)


@triton.jit
def _parts(parts, out, P, F, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    network = tl.program_id(1).to(tl.int64)
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    start = 0
    while start < P:
        row = start + tl.arange(0, ROWS)[:, None]
        inside = (row < P) & (columns < F)
        total += tl.load(parts + (network * P + row) * F + columns, mask=inside, other=0.0)
        start += ROWS
    summed = tl.sum(total, 0)[None, :].to(out.dtype.element_ty)
    tl.store(out + network * F + columns, summed, mask=columns < F)


def of_parts(parts_NPF: Tensor, dtype: torch.dtype) -> Tensor:
    """(N, F)."""
    networks, count, width = parts_NPF.shape
    out = torch.empty(networks, width, dtype=dtype, device=parts_NPF.device)
    _parts[(triton.cdiv(width, 32), networks)](parts_NPF, out, count, width, ROWS=128, BLOCK=32, num_warps=8)
    return out


def of_columns(x_NMF: Tensor, dtype: torch.dtype) -> Tensor:
    """The sum over rows, (N, F), accumulated in float32."""
    networks, rows, width = x_NMF.shape
    columns, count = triton.cdiv(width, _BLOCK), triton.cdiv(rows, _ROWS)
    tiles = max(1, columns * count * networks // _PROGRAMS)
    programs = triton.cdiv(count, tiles)
    parts = torch.empty(networks, programs, width, dtype=torch.float32, device=x_NMF.device)
    _columns[(programs, columns, networks)](x_NMF, parts, rows, width, tiles, ROWS=_ROWS, BLOCK=_BLOCK, num_warps=4)
    return of_parts(parts, dtype)
