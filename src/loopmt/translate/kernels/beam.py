"""In-place updates of the state of a search. One program handles all hypotheses of a sentence.

When rows of a table are permuted, all are read before a barrier and written after it.

Shapes: B sentences, W beams, T target length, C choices after each hypothesis.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from loopmt.model.kernels.ancestors import tile
from loopmt.text.ragged import EOS, PAD
from loopmt.translate import beam_search
from loopmt.translate.beam_search import BeamState, BeamStep, SingleState

_EOS, _PAD = tl.constexpr(EOS), tl.constexpr(PAD)
_LOWEST = tl.constexpr(-1e38)  # of valid scores; lower ones mark absent hypotheses
_WIDEST = 16  # beams, at most, whose choices fit into a warp


@triton.jit
def _append(prefixes, scores, ended, tokens, longest, position, picked, scored, B, T, BLOCK: tl.constexpr):
    row, now = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.load(position)
    there = row < B
    over = tl.load(ended + row, mask=there, other=1) != 0
    token = tl.where(over, _PAD, tl.load(picked + row, mask=there, other=0))
    score = tl.load(scores + row, mask=there, other=0.0)
    score = tl.where(over, score, score + tl.load(scored + row, mask=there, other=0.0))
    over = over | (token == _EOS) | (tl.load(longest + row, mask=there, other=0) <= now + 1)
    tl.store(prefixes + row.to(tl.int64) * T + now, token, mask=there)
    tl.store(scores + row, score, mask=there)
    tl.store(ended + row, over.to(tl.uint8), mask=there)
    tl.store(tokens + row, token, mask=there)


@triton.jit
def _best(scores, logprobs, choices, first, W: tl.constexpr, C: tl.constexpr, PLACES: tl.constexpr, BEST: tl.constexpr):
    """Scores, tokens and beams of the 2W best continuations, best first."""
    place, number = tl.arange(0, PLACES), tl.arange(0, BEST)
    there = place < W * C
    total = tl.load(scores + first + place // C, mask=there, other=0.0)
    total += tl.load(logprobs + first * C + place, mask=there, other=0.0)
    total = tl.where(there, tl.maximum(total, _LOWEST), -float("inf"))
    tokens = tl.load(choices + first * C + place, mask=there, other=0).to(tl.int32)
    score = tl.full((BEST,), -float("inf"), tl.float32)
    token = tl.zeros((BEST,), tl.int32)
    beam = tl.zeros((BEST,), tl.int32)
    for turn in range(2 * W):
        largest, winner = tl.max(total, 0, return_indices=True)
        score = tl.where(number == turn, largest, score)
        token = tl.where(number == turn, tl.max(tl.where(place == winner, tokens, 0), 0), token)
        beam = tl.where(number == turn, winner // C, beam)
        total = tl.where(place == winner, -float("inf"), total)
    return score, token, beam


@triton.jit
def _end(
    prefixes, finished, finished_scores, first, now, penalty, score, ending, beam,
    T, W: tl.constexpr, BEAMS: tl.constexpr, TIMES: tl.constexpr,
):  # fmt: skip
    """Merge hypotheses that end into the finished ones; of equal scores the older come first."""
    slot = tl.arange(0, BEAMS)
    there = (slot < W)[:, None]
    new = tl.where(ending, tl.div_rn(score, penalty), -float("inf"))
    old = tl.load(finished_scores + first + slot, mask=slot < W, other=-float("inf"))
    old_slot = slot + tl.sum((new[None, :] > old[:, None]).to(tl.int32), 1)
    better = (old[:, None] >= new[None, :]) & there
    new_slot = tl.sum(better.to(tl.int32), 0) + tl.cumsum(ending.to(tl.int32), 0) - 1
    stays = old_slot[None, :] == slot[:, None]
    comes = ending[None, :] & (new_slot[None, :] == slot[:, None])
    kept = tl.max(tl.where(stays, slot[None, :], -1), 1)
    parent = tl.max(tl.where(comes, beam[None, :], 0), 1)
    value = tl.max(tl.where(stays, old[None, :], -float("inf")), 1)
    value = tl.maximum(value, tl.max(tl.where(comes, new[None, :], -float("inf")), 1))
    was_there = (kept >= 0)[:, None]
    start = 0
    while start <= now:
        time = (start + tl.arange(0, TIMES))[None, :]
        inside = there & (time <= now)
        ids = tl.load(finished + (first + kept)[:, None] * T + time, mask=inside & was_there, other=0)
        more = tl.load(prefixes + (first + parent)[:, None] * T + time, mask=inside & (time < now), other=0)
        ids = tl.where(was_there, ids, tl.where(time == now, _EOS, more))
        tl.debug_barrier()
        tl.store(finished + (first + slot)[:, None] * T + time, ids, mask=inside)
        start += TIMES
    tl.store(finished_scores + first + slot, value, mask=slot < W)


@triton.jit
def _go_on(
    prefixes, scores, tokens, parents, first, now, score, token, going, beam,
    T, W: tl.constexpr, BEAMS: tl.constexpr, TIMES: tl.constexpr,
):  # fmt: skip
    slot = tl.arange(0, BEAMS)
    number = tl.cumsum(going.to(tl.int32), 0) - 1
    takes = going[None, :] & (number[None, :] == slot[:, None])
    value = tl.max(tl.where(takes, score[None, :], -float("inf")), 1)
    token_now = tl.max(tl.where(takes, token[None, :], 0), 1)
    parent = tl.max(tl.where(takes, beam[None, :], 0), 1)
    start = 0
    while start <= now:
        time = (start + tl.arange(0, TIMES))[None, :]
        inside = (slot < W)[:, None] & (time <= now)
        ids = tl.load(prefixes + (first + parent)[:, None] * T + time, mask=inside & (time < now), other=0)
        ids = tl.where(time == now, token_now[:, None], ids)
        tl.debug_barrier()
        tl.store(prefixes + (first + slot)[:, None] * T + time, ids, mask=inside)
        start += TIMES
    tl.store(scores + first + slot, tl.where(value > _LOWEST, value, -float("inf")), mask=slot < W)
    tl.store(tokens + first + slot, token_now, mask=slot < W)
    tl.store(parents + first + slot, first + parent, mask=slot < W)


@triton.jit
def _grow(
    prefixes, scores, finished, finished_scores, tokens, longest, position, penalty, logprobs, choices, parents,
    T, W: tl.constexpr, C: tl.constexpr,
    PLACES: tl.constexpr, BEST: tl.constexpr, BEAMS: tl.constexpr, TIMES: tl.constexpr,
):  # fmt: skip
    sentence, now = tl.program_id(0).to(tl.int64), tl.load(position).to(tl.int32)
    first = sentence * W
    if tl.load(longest + sentence) > now:
        score, token, beam = _best(scores, logprobs, choices, first, W, C, PLACES, BEST)
        chosen = tl.arange(0, BEST) < 2 * W
        ending = chosen & (token == _EOS) & (score > _LOWEST)
        if tl.max(ending.to(tl.int32), 0) > 0:
            divisor = tl.load(penalty)
            _end(prefixes, finished, finished_scores, first, now, divisor, score, ending, beam, T, W, BEAMS, TIMES)
        going = chosen & (token != _EOS)
        _go_on(prefixes, scores, tokens, parents, first, now, score, token, going, beam, T, W, BEAMS, TIMES)
    else:
        slot = tl.arange(0, BEAMS)
        tl.store(parents + first + slot, first + slot, mask=slot < W)


def extended(kept: SingleState, longest_B: Tensor, position: Tensor, picked_B: Tensor, scored_B: Tensor) -> SingleState:
    """`beam_search.extended`, in place."""
    prefixes, scores, ended, tokens = kept
    _append[(triton.cdiv(len(prefixes), 128),)](
        prefixes,
        scores,
        ended.view(torch.uint8),
        tokens,
        longest_B,
        position,
        picked_B,
        scored_B,
        *prefixes.shape,
        BLOCK=128,
    )
    return kept


def extended_beams(kept: BeamState, now: BeamStep) -> tuple[BeamState, Tensor]:
    """`beam_search.extended_beams`, in place."""
    (rows, width, length), choices = kept[0].shape, now.choices_RC.shape[1]
    if width > _WIDEST:
        return beam_search.extended_beams(kept, now)
    parents = torch.empty(rows, width, dtype=torch.long, device=kept[0].device)
    _grow[(rows,)](
        *kept, *now, parents, length, W=width, C=choices,
        PLACES=triton.next_power_of_2(width * choices), BEST=triton.next_power_of_2(2 * width), **tile(width),
    )  # fmt: skip
    return kept, parents
