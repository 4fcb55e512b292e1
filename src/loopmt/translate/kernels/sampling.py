"""The choice of the next token, in one pass over the logits.

Lane i reduces columns i, i + BLOCK, i + 2 * BLOCK and so on; the lanes are reduced at the end.

Shapes: R rows, V vocabulary.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from loopmt.config import Generate
from loopmt.model.kernels.dropout import gumbel, new_seed
from loopmt.translate import beam_search

_MOST = 32  # most likely tokens that are selected one by one
_LOWEST = tl.constexpr(-1e38)  # finite, because differences of infinities are NaN


@triton.jit
def _exp(x):
    """A faster `tl.exp` that flushes tiny results to 0, which does not change sums of exponentials."""
    return tl.exp2(x * 1.4426950408889634)


@triton.jit
def _scores(logits, columns, V: tl.constexpr):
    return tl.load(logits + columns, mask=columns < V, other=-float("inf")).to(tl.float32)


@triton.jit
def _normaliser(largest, total):
    """Logsumexp, from the maximum of every lane and the lane's sum relative to it."""
    top = tl.max(largest, 0)
    return top + tl.log(tl.sum(total * _exp(largest - top), 0))


@triton.jit
def _pick(logits, seed, picked, scored, coldness, V: tl.constexpr, SAMPLE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), _LOWEST, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    where = lanes
    for start in range(0, V, BLOCK):
        x = _scores(logits + row * V, start + lanes, V)
        before = largest
        largest = tl.maximum(largest, x)
        total = total * _exp(before - largest) + _exp(x - largest)
        if SAMPLE:
            x = x * coldness + gumbel(tl.load(seed), row * V + start + lanes)
        where = tl.where(x > best, start + lanes, where)
        best = tl.maximum(best, x)
    winner = tl.min(tl.where(best == tl.max(best, 0), where, V), 0)
    winner = tl.minimum(winner, V - 1)  # NaN equals nothing
    score = tl.load(logits + row * V + winner).to(tl.float32)
    tl.store(picked + row, winner.to(tl.int64))
    tl.store(scored + row, score - _normaliser(largest, total))


@triton.jit
def _likeliest(
    logits, best, tokens,
    V: tl.constexpr, COUNT: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """The most likely tokens lie in the COUNT lanes with the largest maxima, so only those are read again."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * V
    lanes = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), _LOWEST, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, V, 4 * BLOCK):  # four tiles share one rescaling of the sum
        a, b = _scores(logits, start + lanes, V), _scores(logits, start + BLOCK + lanes, V)
        c, d = _scores(logits, start + 2 * BLOCK + lanes, V), _scores(logits, start + 3 * BLOCK + lanes, V)
        before = largest
        largest = tl.maximum(largest, tl.maximum(tl.maximum(a, b), tl.maximum(c, d)))
        added = _exp(a - largest) + _exp(b - largest) + _exp(c - largest) + _exp(d - largest)
        total = total * _exp(before - largest) + added
    normaliser = _normaliser(largest, total)
    chosen = tl.full((WIDE,), V, tl.int32)
    for turn in range(COUNT):
        lane = tl.argmax(largest, 0)
        chosen = tl.where(tl.arange(0, WIDE) == turn, lane, chosen)
        largest = tl.where(lanes == lane, -float("inf"), largest)
    columns = tl.reshape(chosen[:, None] + BLOCK * tl.arange(0, DEPTH)[None, :], (WIDE * DEPTH,))
    x = tl.where(columns < V, tl.maximum(_scores(logits, columns, V), _LOWEST), -float("inf"))
    place = tl.arange(0, WIDE * DEPTH)
    for turn in range(COUNT):
        value, winner = tl.max(x, 0, return_indices=True)
        tl.store(best + row * COUNT + turn, tl.where(value > _LOWEST, value - normaliser, -float("inf")))
        tl.store(tokens + row * COUNT + turn + 0 * place, columns.to(tl.int64), mask=place == winner)
        x = tl.where(place == winner, -float("inf"), x)


def pick(logits_RV: Tensor, how: Generate, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """`beam_search.pick`."""
    sampled = how.how == "sample"
    if sampled and how.top_p < 1:
        return beam_search.pick(logits_RV, how, generator)
    if sampled and how.top_k and how.top_k < logits_RV.shape[-1]:
        logprobs, tokens = likeliest(logits_RV, how.top_k)
        place = beam_search.drawn(logprobs, how, generator)[:, None]
        return tokens.gather(1, place)[:, 0], logprobs.gather(1, place)[:, 0]
    rows, size = logits_RV.shape
    picked = torch.empty(rows, dtype=torch.long, device=logits_RV.device)
    scored = torch.empty(rows, device=logits_RV.device)
    seed = new_seed(logits_RV.device, generator) if sampled else picked
    _pick[(rows,)](
        logits_RV.contiguous(), seed, picked, scored, 1 / how.temperature,
        V=size, SAMPLE=sampled, BLOCK=_lanes(size, 2048), num_warps=8,
    )  # fmt: skip
    return picked, scored


def likeliest(logits_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`beam_search.likeliest`."""
    rows, size = logits_RV.shape
    if min(count, size) > _MOST:
        return beam_search.likeliest(logits_RV, count)
    count, lanes = min(count, size), _lanes(size, max(512, triton.next_power_of_2(size) // 64))
    best = torch.empty(rows, count, device=logits_RV.device)
    tokens = torch.empty(rows, count, dtype=torch.long, device=logits_RV.device)
    wide, depth = triton.next_power_of_2(count), triton.next_power_of_2(triton.cdiv(size, lanes))
    _likeliest[(rows,)](
        logits_RV.contiguous(), best, tokens,
        V=size, COUNT=count, BLOCK=lanes, WIDE=wide, DEPTH=depth, num_warps=max(1, lanes // 256),
    )  # fmt: skip
    return best, tokens


def _lanes(size: int, most: int) -> int:
    return min(most, 1 << (size - 1).bit_length())
