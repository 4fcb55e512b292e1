"""The choice of the next token, in one pass over the logits.

Numbers are compared lane by lane: lane i sees columns i, i + BLOCK, i + 2 * BLOCK and so on, and only at the end are
the lanes compared with each other.

Shapes: R rows, V vocabulary.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from loopmt.config import Generate
from loopmt.model import search
from loopmt.model.kernels.noise import gumbel, new_seed

_LANES = 2048
_MOST = 32  # of the likeliest are found one by one
_LOWEST = tl.constexpr(-1e38)  # finite: differences of infinities are no numbers


@triton.jit
def _scores(logits, silent, columns, V: tl.constexpr):
    x = tl.load(logits + columns, mask=columns < V, other=-float("inf")).to(tl.float32)
    return x + tl.load(silent + columns, mask=columns < V, other=0.0)


@triton.jit
def _normaliser(largest, total):
    """From the largest number of every lane and the lane's sum relative to it."""
    top = tl.max(largest, 0)
    return top + tl.log(tl.sum(total * tl.exp(largest - top), 0))


@triton.jit
def _pick(logits, silent, seed, picked, scored, coldness, V: tl.constexpr, SAMPLE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), _LOWEST, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    where = lanes
    for start in range(0, V, BLOCK):
        x = _scores(logits + row * V, silent, start + lanes, V)
        before = largest
        largest = tl.maximum(largest, x)
        total = total * tl.exp(before - largest) + tl.exp(x - largest)
        if SAMPLE:
            x = x * coldness + gumbel(tl.load(seed), row * V + start + lanes)
        where = tl.where(x > best, start + lanes, where)
        best = tl.maximum(best, x)
    winner = tl.min(tl.where(best == tl.max(best, 0), where, V), 0)
    winner = tl.minimum(winner, V - 1)  # numbers that are none equal nothing
    score = tl.load(logits + row * V + winner).to(tl.float32) + tl.load(silent + winner)
    tl.store(picked + row, winner.to(tl.int64))
    tl.store(scored + row, score - _normaliser(largest, total))


@triton.jit
def _likeliest(
    logits, silent, best, tokens, V: tl.constexpr, COUNT: tl.constexpr, BLOCK: tl.constexpr, DEPTH: tl.constexpr
):
    """Time after time the best lane gives its largest number, and is searched again for the next."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), _LOWEST, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, V, BLOCK):
        x = _scores(logits + row * V, silent, start + lanes, V)
        before = largest
        largest = tl.maximum(largest, x)
        total = total * tl.exp(before - largest) + tl.exp(x - largest)
    normaliser = _normaliser(largest, total)
    depth = tl.arange(0, DEPTH)
    last = tl.full((BLOCK,), -1, tl.int32)  # how deep each lane has given
    for number in range(COUNT):
        value = tl.max(largest, 0)
        lane = tl.argmax(largest, 0)
        x = _scores(logits + row * V, silent, depth * BLOCK + lane, V)
        given = tl.max(tl.where(lanes == lane, last, -1), 0)
        place = tl.min(tl.where((x == value) & (depth > given), depth, DEPTH), 0)
        # Of equal numbers in a lane the shallower goes first.
        left = (x < value) | ((x == value) & (depth > place))
        largest = tl.where(lanes == lane, tl.max(tl.where(left, x, _LOWEST), 0), largest)
        again = tl.max(tl.where(left & (x == value), 1, 0), 0) > 0
        last = tl.where(lanes == lane, tl.where(again, place, -1), last)
        token = tl.minimum(tl.minimum(place, DEPTH - 1) * BLOCK + lane, V - 1)
        tl.store(best + row * COUNT + number, tl.where(value > _LOWEST, value - normaliser, -float("inf")))
        tl.store(tokens + row * COUNT + number, token.to(tl.int64))


def pick(
    logits_RV: Tensor, silent_V: Tensor, how: Generate, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """As `search.pick`."""
    sampled = how.how == "sample"
    if sampled and how.top_p < 1:
        return search.pick(logits_RV, silent_V, how, generator)
    if sampled and how.top_k and how.top_k < logits_RV.shape[-1]:
        logprobs, tokens = likeliest(logits_RV, silent_V, how.top_k)
        place = search.drawn(logprobs, how, generator)[:, None]
        return tokens.gather(1, place)[:, 0], logprobs.gather(1, place)[:, 0]
    rows, size = logits_RV.shape
    picked = torch.empty(rows, dtype=torch.long, device=logits_RV.device)
    scored = torch.empty(rows, device=logits_RV.device)
    seed = new_seed(logits_RV.device, generator) if sampled else picked
    _pick[(rows,)](
        logits_RV.contiguous(), silent_V, seed, picked, scored, 1 / how.temperature,
        V=size, SAMPLE=sampled, BLOCK=_lanes(size), num_warps=8,
    )  # fmt: skip
    return picked, scored


def likeliest(logits_RV: Tensor, silent_V: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """As `search.likeliest`."""
    rows, size = logits_RV.shape
    if min(count, size) > _MOST:
        return search.likeliest(logits_RV, silent_V, count)
    count, lanes = min(count, size), _lanes(size)
    best = torch.empty(rows, count, device=logits_RV.device)
    tokens = torch.empty(rows, count, dtype=torch.long, device=logits_RV.device)
    _likeliest[(rows,)](
        logits_RV.contiguous(), silent_V, best, tokens,
        V=size, COUNT=count, BLOCK=lanes, DEPTH=triton.next_power_of_2(triton.cdiv(size, lanes)), num_warps=4,
    )  # fmt: skip
    return best, tokens


def _lanes(size: int) -> int:
    return min(_LANES, 1 << (size - 1).bit_length())
