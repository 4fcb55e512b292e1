"""The table that says, for every hypothesis of a beam, how many rows away each of its positions was written.

Shapes: R rows, B sentences, W beams, T target length.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

_TILE = 256


@triton.jit
def _move(ancestors, parents, position, T, W: tl.constexpr, BEAMS: tl.constexpr, TIMES: tl.constexpr):
    first, now = tl.program_id(0).to(tl.int64) * W, tl.load(position).to(tl.int32)
    slot = tl.arange(0, BEAMS)
    row = first + slot
    parent = tl.load(parents + row, mask=slot < W, other=0)
    away = (parent - row).to(tl.int32)[:, None]
    start = 0
    while start <= now:
        time = (start + tl.arange(0, TIMES))[None, :]
        inside = (slot < W)[:, None] & (time <= now)
        before = tl.load(ancestors + parent[:, None] * T + time, mask=inside & (time < now), other=0)
        tl.debug_barrier()
        tl.store(ancestors + row[:, None] * T + time, before + away, mask=inside)
        start += TIMES


def move(ancestors_RT: Tensor, parents_BW: Tensor, position: Tensor) -> None:
    """Every row gets the table of the row it continues: how many rows away each of its positions was written."""
    rows, width = parents_BW.shape
    _move[(rows,)](ancestors_RT, parents_BW, position, ancestors_RT.shape[1], W=width, **tile(width))


def tile(width: int) -> dict[str, int]:
    """Sizes of a program that has all hypotheses of a sentence."""
    beams = triton.next_power_of_2(width)
    return {"BEAMS": beams, "TIMES": max(1, _TILE // beams), "num_warps": 1}
