"""From source ids to target ids: greedy, sampling and beam over one step function.

Sentences are sorted by length, decoded in large batches, and the rows that have ended are dropped from the batch as
it goes. Nothing here knows languages; it sees the weights of one network and ids.

Shapes: B sentences, W beams, T target length, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from loopmt.config import Generate
from loopmt.model.transformer import Cache, Memory, Transformer, Weights
from loopmt.model.weights import EOS, PAD

Ids = Sequence[int] | npt.NDArray[np.generic]
_CHECK_EVERY = 8  # steps between two looks at which rows have ended; a look waits for the device


@dataclass(frozen=True)
class Limits:
    """How long an output may get, and how much is decoded at once."""

    growth: float = 2.0
    extra: int = 10
    longest: int = 512
    batch_tokens: int = 16_384  # source tokens with padding, beams not counted
    batch_rows: int = 512

    def length(self, source_length: int) -> int:
        return min(self.longest, math.ceil(self.growth * source_length) + self.extra)


@dataclass
class Output:
    """One translation: its ids without the end, its log-probability, and whether it ended by itself."""

    ids: list[int]
    score: float
    ended: bool


@dataclass(frozen=True)
class Speaker:
    """One network ready to speak: its computation, its weights, and the ids it must never say."""

    transformer: Transformer
    weights: Weights
    silent: Tensor  # (V,), -inf at ids that are no text, 0 elsewhere

    @torch.no_grad()
    def read(self, source_BS: Tensor) -> Memory:
        states = self.transformer.encode(self.weights, source_BS[None])
        return self.transformer.memory(self.weights, states, source_BS[None])

    @torch.no_grad()
    def step(self, memory: Memory, cache: Cache, tokens_B: Tensor, position: int) -> Tensor:
        logits = self.transformer.step(self.weights, memory, cache, tokens_B[None], position)[0]
        return logits.float() + self.silent


def decode(
    speaker: Speaker,
    sources: Sequence[Ids],
    how: Generate,
    limits: Limits,
    generator: torch.Generator | None = None,
    advance: Callable[[int], None] | None = None,
) -> list[Output]:
    """Translate every source, one output each, in order."""
    return [nbest[0] for nbest in decode_nbest(speaker, sources, how, limits, generator, 1, advance)]


def decode_nbest(
    speaker: Speaker,
    sources: Sequence[Ids],
    how: Generate,
    limits: Limits,
    generator: torch.Generator | None = None,
    nbest: int = 1,
    advance: Callable[[int], None] | None = None,
) -> list[list[Output]]:
    """The `nbest` best of the beam for every source (of greedy and sampling there is one)."""
    outputs: list[list[Output]] = [[] for _ in sources]
    for rows in batches([len(source) for source in sources], limits):
        found = _decode_batch(speaker, [sources[row] for row in rows], how, limits, generator)
        for row, candidates in zip(rows, found, strict=True):
            outputs[row] = candidates[:nbest]
        if advance:
            advance(len(rows))
    return outputs


def _decode_batch(
    speaker: Speaker, sources: Sequence[Ids], how: Generate, limits: Limits, generator: torch.Generator | None
) -> list[list[Output]]:
    source_BS = padded(sources, speaker.silent.device)
    longest = [limits.length(len(source)) for source in sources]
    if how.how == "beam" and how.beam > 1:
        return _beam(speaker, source_BS, longest, how)
    return [[output] for output in _single(speaker, source_BS, longest, how, generator)]


def batches(lengths: Sequence[int], limits: Limits) -> Iterator[list[int]]:
    """Row numbers, longest first, cut where a batch would be too large."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    start = 0
    while start < len(order):
        width = max(1, lengths[order[start]] + 1)
        count = max(1, min(limits.batch_rows, limits.batch_tokens // width))
        yield order[start : start + count]
        start += count


def padded(sources: Sequence[Ids], device: torch.device) -> Tensor:
    """Ids with their end, padded on the right."""
    width = max(len(source) for source in sources) + 1
    table = np.full((len(sources), width), PAD, dtype=np.int64)
    for row, source in enumerate(sources):
        table[row, : len(source)] = source
        table[row, len(source)] = EOS
    return torch.from_numpy(table).to(device)


# -- one row per sentence --------------------------------------------------------------------------------------


def _single(
    speaker: Speaker, source_BS: Tensor, limit: list[int], how: Generate, generator: torch.Generator | None
) -> list[Output]:
    rows, device, longest = len(limit), source_BS.device, max(limit)
    memory = speaker.read(source_BS)
    cache = speaker.transformer.new_cache(rows, longest, memory.keys[0])
    last = torch.tensor(limit, device=device) - 1
    said = torch.full((rows, longest), PAD, device=device)
    scores = torch.zeros(rows, device=device)
    alive = torch.arange(rows, device=device)  # rows of `said` that the batch still holds
    tokens = torch.full((rows,), PAD, device=device)
    ended = torch.zeros(rows, dtype=torch.bool, device=device)
    for position in range(longest):
        picked, scored = pick(speaker.step(memory, cache, tokens, position), how, generator)
        tokens = picked.masked_fill(ended, PAD)
        said[alive, position] = tokens
        scores[alive] += scored.masked_fill(ended, 0)
        ended = ended | (tokens == EOS) | (last <= position)
        if (position + 1) % _CHECK_EVERY == 0:
            keep = (~ended).nonzero()[:, 0]
            if keep.numel() == 0:
                break
            if keep.numel() <= 0.7 * ended.numel():
                select(memory, cache, keep)
                alive, tokens, ended, last = alive[keep], tokens[keep], ended[keep], last[keep]
    return [output(ids, score) for ids, score in zip(said.tolist(), scores.tolist(), strict=True)]


def pick(logits_BV: Tensor, how: Generate, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """The next token of every row and its log-probability under the network (whatever the sampler's restriction)."""
    logprobs = F.log_softmax(logits_BV, dim=-1)
    chosen = logits_BV.argmax(-1) if how.how != "sample" else _sampled(logits_BV, how, generator)
    return chosen, logprobs.gather(-1, chosen[:, None])[:, 0]


def _sampled(logits_BV: Tensor, how: Generate, generator: torch.Generator | None) -> Tensor:
    scaled = restricted(logits_BV / how.temperature, how)
    # The largest of logits + Gumbel noise is a draw from their softmax.
    noise = torch.empty_like(scaled).exponential_(generator=generator).clamp_min_(1e-30).log_()
    return (scaled - noise).argmax(-1)


def restricted(logits_BV: Tensor, how: Generate) -> Tensor:
    if how.top_k and how.top_k < logits_BV.shape[-1]:
        least = logits_BV.topk(how.top_k, dim=-1).values[:, -1:]
        logits_BV = logits_BV.masked_fill(logits_BV < least, -math.inf)
    if how.top_p < 1:
        ordered, order = logits_BV.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(-1)
        outside = probabilities.cumsum(-1) - probabilities >= how.top_p  # the first is never outside
        logits_BV = logits_BV.scatter(-1, order, ordered.masked_fill(outside, -math.inf))
    return logits_BV


def select(memory: Memory, cache: Cache, rows: Tensor) -> None:
    """Keep only `rows` of the batch, in that order."""
    memory.mask = memory.mask[rows]
    for store in (memory.keys, memory.values, cache.keys, cache.values):
        for layer, tensor in enumerate(store):
            store[layer] = tensor[rows]


def output(ids: list[int], score: float) -> Output:
    length = next((place for place, token in enumerate(ids) if token in (EOS, PAD)), len(ids))
    return Output(ids[:length], score, EOS in ids)


# -- beam ------------------------------------------------------------------------------------------------------


@dataclass
class _Beams:
    """Hypotheses of every sentence: W that go on and W that have ended, best first."""

    said: Tensor  # (B, W, T)
    scores: Tensor  # (B, W), log-probability
    ended_said: Tensor
    ended_scores: Tensor  # (B, W), log-probability over length ** penalty
    longest: Tensor  # (B,)
    rows: Tensor  # (B,), which sentence of the batch each row is
    penalty: float

    @classmethod
    def start(cls, limit: list[int], how: Generate, device: torch.device) -> _Beams:
        said = torch.full((len(limit), how.beam, max(limit)), PAD, device=device)
        nothing = torch.full((len(limit), how.beam), -math.inf, device=device)
        scores = nothing.clone()
        scores[:, 0] = 0.0  # all beams start alike: only one of them counts
        rows = torch.arange(len(limit), device=device)
        return cls(said, scores, said.clone(), nothing, torch.tensor(limit, device=device), rows, how.length_penalty)

    def grow(self, logprobs: Tensor, position: int) -> Tensor:
        """Extend every beam by one token; the flat rows that the surviving beams come from."""
        rows, width, length = self.said.shape
        size = logprobs.shape[-1]
        total = (self.scores[..., None] + logprobs.view(rows, width, size)).flatten(1)
        best, place = total.topk(2 * width, dim=1)  # at most W of them end, so W go on
        parent, token = place // size, place % size
        said = self.said.gather(1, parent[..., None].expand(-1, -1, length))
        said[:, :, position] = token
        ending = token == EOS
        self._keep_ended(said, best.masked_fill(~ending, -math.inf) / (position + 1) ** self.penalty)
        self.scores, order = best.masked_fill(ending, -math.inf).topk(width, dim=1)
        self.said = said.gather(1, order[..., None].expand(-1, -1, length))
        base = torch.arange(rows, device=said.device)[:, None] * width
        return (base + parent.gather(1, order)).flatten()

    def _keep_ended(self, said: Tensor, scores: Tensor) -> None:
        self.ended_scores, order = torch.cat([self.ended_scores, scores], 1).topk(self.scores.shape[1], dim=1)
        everything = torch.cat([self.ended_said, said], 1)
        self.ended_said = everything.gather(1, order[..., None].expand(-1, -1, said.shape[2]))

    def done(self, position: int) -> Tensor:
        """The row is as long as it may get, or no beam that goes on can overtake the worst that has ended."""
        reachable = self.scores[:, 0] / self.longest**self.penalty
        return (reachable <= self.ended_scores[:, -1]) | (self.longest <= position + 1)

    def select(self, keep: Tensor) -> None:
        self.said, self.scores = self.said[keep], self.scores[keep]
        self.ended_said, self.ended_scores = self.ended_said[keep], self.ended_scores[keep]
        self.longest, self.rows = self.longest[keep], self.rows[keep]

    def outputs(self, row: int, position: int) -> list[Output]:
        """Best first; beams cut off at the limit only where nothing ended by itself."""
        ended = zip(self.ended_said[row].tolist(), self.ended_scores[row].tolist(), strict=True)
        found = [(output(ids, 0.0), score) for ids, score in ended if score > -math.inf]
        for one, score in found:
            one.score = score * (len(one.ids) + 1) ** self.penalty
        cut = zip(self.said[row, :, : position + 1].tolist(), self.scores[row].tolist(), strict=True)
        return [one for one, _ in found] or [output(ids, score) for ids, score in cut if score > -math.inf]


def _beam(speaker: Speaker, source_BS: Tensor, limit: list[int], how: Generate) -> list[list[Output]]:
    device, longest = source_BS.device, max(limit)
    memory = speaker.read(source_BS)
    select(memory, Cache([], []), torch.arange(len(limit), device=device).repeat_interleave(how.beam))
    cache = speaker.transformer.new_cache(memory.mask.shape[0], longest, memory.keys[0])
    beams = _Beams.start(limit, how, device)
    results: list[list[Output]] = [[] for _ in limit]
    tokens = torch.full((memory.mask.shape[0],), PAD, device=device)
    for position in range(longest):
        logprobs = F.log_softmax(speaker.step(memory, cache, tokens, position), -1)
        _reorder(cache, beams.grow(logprobs, position), position)
        done = beams.done(position)
        for row in done.nonzero()[:, 0].tolist():
            results[int(beams.rows[row])] = beams.outputs(row, position)
        keep = (~done).nonzero()[:, 0]
        if keep.numel() == 0:
            break
        if keep.numel() < done.numel():
            beams.select(keep)
            select(memory, cache, (keep[:, None] * how.beam + torch.arange(how.beam, device=device)).flatten())
        tokens = beams.said[:, :, position].flatten()
    return results


def _reorder(cache: Cache, parents: Tensor, position: int) -> None:
    for store in (cache.keys, cache.values):
        for layer, tensor in enumerate(store):
            past = tensor[:, :, : position + 1]
            store[layer][:, :, : position + 1] = past[parents]
