"""The ancestor table of a beam: for every hypothesis, the row offset at which each of its positions is cached.

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
    """Give every row the ancestors of the row it continues, as offsets from itself."""
    rows, width = parents_BW.shape
    _move[(rows,)](ancestors_RT, parents_BW, position, ancestors_RT.shape[1], W=width, **tile(width))


def tile(width: int) -> dict[str, int]:
    """Tile sizes of a program that handles all hypotheses of a sentence."""
    beams = triton.next_power_of_2(width)
    return {"BEAMS": beams, "TIMES": max(1, _TILE // beams), "num_warps": 1}
