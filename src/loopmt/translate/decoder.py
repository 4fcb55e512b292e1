"""Decoding of source ids to target ids, in large batches of sentences sorted by length.

On a CPU, finished rows are removed from the batch; on CUDA every step replays a captured graph, and several networks
decode together. This module deals with ids and weights only, not with languages.

Shapes: N networks, B sentences, S source length, P weights, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from loopmt.config import Generate
from loopmt.model.out_of_memory import in_halves
from loopmt.model.transformer import Cache, Memory, Transformer
from loopmt.model.weights import Layout
from loopmt.text.ragged import EOS, PAD, Ints, Ragged
from loopmt.translate import beam_search
from loopmt.translate.beam_search import Hypotheses, Hypothesis, Search
from loopmt.translate.captured_decoder import CapturedDecoder
from loopmt.translate.protocol import DecodeLimits

Ids = Sequence[int] | npt.NDArray[np.generic]
Found = TypeVar("Found")
_CHECK_EVERY = 8  # steps between two checks for finished sentences


@dataclass(frozen=True)
class Decoder:
    """A network for decoding: its weights, and a mask of the ids that it must not generate.

    With captured graphs it may be several networks, and then each source has the number of its network.
    """

    transformer: Transformer
    layout: Layout
    flat: Tensor  # (N, P)
    logit_mask: Tensor  # (V,) or (N, V), -inf at ids that are not text, 0 elsewhere
    precision: torch.dtype
    captured: CapturedDecoder | None = None
    opening: int | None = None  # the token that every output begins with, such as the code of a language
    others: tuple[Decoder, ...] = ()  # networks with the same ids, which choose every token together with this one
    combine: Literal["mean", "max"] = "mean"  # of their probabilities

    @property
    def searches(self) -> Callable[..., Iterator[Search]]:
        """Decodes a batch: takes `source_BS`, `lengths_B`, `limits`, `how`, `generator` and `networks_B`."""
        if self.captured is not None and not self.others:
            return partial(self.captured.decode, self.flat, self.logit_mask, self.opening)
        networks = [_Network(one) for one in (self, *self.others)]
        return EagerDecoder(networks, self.opening, self.combine).decode


def generate_each(
    decoder: Decoder,
    sources: Sequence[Ids],
    how: Generate,
    limits: DecodeLimits,
    generator: torch.Generator | None = None,
    advance: Callable[[int], None] | None = None,
    networks: Ints | None = None,
) -> list[Hypothesis]:
    """The translation of every source, in order, as a list."""
    return generate(decoder, Ragged.of(sources), how, limits, generator, advance, networks).each()


def generate(
    decoder: Decoder,
    sources: Ragged,
    how: Generate,
    limits: DecodeLimits,
    generator: torch.Generator | None = None,
    advance: Callable[[int], None] | None = None,
    networks: Ints | None = None,
) -> Hypotheses:
    """The translation of every source, in order, as arrays; there is no loop over sentences."""
    parts, order = [], []
    for numbers, found in _searches(
        lambda beam_search: beam_search.best(), decoder, sources, how, limits, generator, advance, networks
    ):
        parts.append(found)
        order.append(numbers)
    return Hypotheses.join(parts).take(np.argsort(np.concatenate([np.zeros(0, np.int64), *order]), kind="stable"))


def generate_up_to(
    decoder: Decoder,
    sources: Ragged,
    how: Generate,
    limits: DecodeLimits,
    generator: torch.Generator | None = None,
    n: int = 1,
    networks: Ints | None = None,
) -> tuple[Hypotheses, Ints]:
    """Up to `n` hypotheses of every source, in order and best first, and the number for each source.

    `networks` are the numbers of the sources' networks, if the decoder has several.
    """
    if n == 1:
        found = generate(decoder, sources, how, limits, generator, networks=networks)
        return found, np.ones(len(sources), dtype=np.int64)
    lists = generate_nbest(decoder, sources.rows(), how, limits, generator, n, networks=networks)
    counts = np.array([len(hypotheses) for hypotheses in lists], dtype=np.int64)
    return Hypotheses.of([one for hypotheses in lists for one in hypotheses]), counts


def generate_nbest(
    decoder: Decoder,
    sources: Sequence[Ids],
    how: Generate,
    limits: DecodeLimits,
    generator: torch.Generator | None = None,
    nbest: int = 1,
    advance: Callable[[int], None] | None = None,
    networks: Ints | None = None,
) -> list[list[Hypothesis]]:
    """The `nbest` best hypotheses of every source; greedy search and sampling have one."""
    if nbest == 1:
        return [[output] for output in generate_each(decoder, sources, how, limits, generator, advance, networks)]
    outputs: list[list[Hypothesis]] = [[] for _ in sources]
    rows = Ragged.of(sources)
    for numbers, found in _searches(
        lambda beam_search: beam_search.outputs(), decoder, rows, how, limits, generator, advance, networks
    ):
        for number, candidates in zip(numbers.tolist(), found, strict=True):
            outputs[number] = candidates[:nbest]
    return outputs


@torch.no_grad()
def _searches(
    collect: Callable[[Search], Found],
    decoder: Decoder,
    sources: Ragged,
    how: Generate,
    limits: DecodeLimits,
    generator: torch.Generator | None,
    advance: Callable[[int], None] | None,
    networks: Ints | None,
) -> Iterator[tuple[Ints, Found]]:
    """The results of `collect` for finished searches, with the numbers of their sentences."""
    decode = decoder.searches
    networks = np.zeros(len(sources), dtype=np.int64) if networks is None else networks
    width = how.beam if how.how == "beam" else 1

    def work(rows: Ints) -> list[tuple[Ints, Found]]:
        lengths = sources.lengths[rows]
        source_BS = torch.from_numpy(sources.padded(rows, int(lengths.max()) + 1)).to(decoder.logit_mask.device)
        searches = decode(source_BS, lengths, limits, how, generator, networks[rows])
        return [(rows[beam_search.rows.cpu().numpy()], collect(beam_search)) for beam_search in searches]

    for rows in batches(sources.lengths, limits, width, networks):
        yield from in_halves(work, rows)
        if advance:
            advance(len(rows))


def batches(lengths: Ints, limits: DecodeLimits, width: int = 1, networks: Ints | None = None) -> Iterator[Ints]:
    """Row numbers in batches within the limits, longest first, with equally many rows of each network if possible."""
    order = np.argsort(-lengths, kind="stable")
    queues = [order] if networks is None else [order[networks[order] == one] for one in np.unique(networks)]
    while queues := [queue for queue in queues if len(queue)]:
        places = (max(int(lengths[queue[0]]) for queue in queues) + 1) * width
        most = min(limits.batch_rows // width, limits.batch_tokens // places)
        count = max(1, most // len(queues))
        yield np.concatenate([queue[:count] for queue in queues])
        queues = [queue[count:] for queue in queues]


def padded(sources: Sequence[Ids], device: torch.device) -> Tensor:
    """Ids with EOS, padded on the right."""
    width = max(len(source) for source in sources) + 1
    table = np.full((len(sources), width), PAD, dtype=np.int64)
    for row, source in enumerate(sources):
        table[row, : len(source)] = source
        table[row, len(source)] = EOS
    return torch.from_numpy(table).to(device)


class _Network:
    """One network with its memory and cache of the current batch."""

    memory: Memory
    cache: Cache

    def __init__(self, decoder: Decoder) -> None:
        self.transformer = decoder.transformer
        self.weights = decoder.layout.unpack(decoder.flat.detach().to(decoder.precision))
        self.weights["output_bias"] = self.weights["output_bias"] + decoder.logit_mask.to(decoder.precision)

    def read(self, source_BS: Tensor, width: int, longest: int) -> None:
        states = self.transformer.encode(self.weights, source_BS[None])
        self.memory = self.transformer.memory(self.weights, states, source_BS[None])
        if width > 1:
            rows = torch.arange(source_BS.shape[0], device=source_BS.device).repeat_interleave(width)
            select(self.memory, Cache([], []), rows)
        self.cache = self.transformer.new_cache(self.memory.mask.shape[0], longest, self.memory.keys[0].new_zeros)

    def step(self, tokens: Tensor, number: int) -> Tensor:
        return self.transformer.step(self.weights, self.memory, self.cache, tokens[None], number)[0]


@dataclass(frozen=True)
class EagerDecoder:
    """Decodes step by step and removes finished sentences. Several networks choose every token together."""

    networks: Sequence[_Network]
    opening: int | None = None
    combine: Literal["mean", "max"] = "mean"

    def decode(
        self,
        source_BS: Tensor,
        lengths_B: Ints,
        limits: DecodeLimits,
        how: Generate,
        generator: torch.Generator | None,
        networks_B: Ints,
    ) -> Iterator[Search]:
        """Yield searches of finished sentences."""
        limit = limits.lengths(lengths_B)
        start = self.networks[0].transformer.conventions.start
        hypotheses = beam_search.start_search(limit, how, source_BS.device, start=start, opening=self.opening)
        for network in self.networks:
            network.read(source_BS, hypotheses.width, max(limit))
        for number in range(max(limit)):
            position = torch.tensor(number, device=source_BS.device)
            logits = self._combined([network.step(hypotheses.tokens, number) for network in self.networks])
            parents = hypotheses.advance(logits, position, generator)
            if parents is not None:
                self._reorder(parents.flatten(), number + 1)
            if (number + 1) % _CHECK_EVERY == 0 or number + 1 == max(limit):
                done = hypotheses.done(position)
                if done.any():
                    yield beam_search.subset(hypotheses, done.nonzero()[:, 0])
                keep = (~done).nonzero()[:, 0]
                if keep.numel() == 0:
                    break
                if keep.numel() < len(hypotheses.rows):
                    hypotheses.select(keep)
                    width = torch.arange(hypotheses.width, device=keep.device)
                    self._select((keep[:, None] * hypotheses.width + width).flatten())

    def _combined(self, logits: Sequence[Tensor]) -> Tensor:
        """The logits of one network, or the logarithm of the mean or maximum of several networks' probabilities."""
        if len(logits) == 1:
            return logits[0]
        logprobs = torch.stack([one.float().log_softmax(-1) for one in logits])
        return logprobs.logsumexp(0) if self.combine == "mean" else logprobs.amax(0)

    def _reorder(self, parents: Tensor, length: int) -> None:
        for network in self.networks:
            reorder(network.cache, parents, length)

    def _select(self, rows: Tensor) -> None:
        for network in self.networks:
            select(network.memory, network.cache, rows)


def select(memory: Memory, cache: Cache, rows: Tensor) -> None:
    """Keep only `rows` of the batch, in that order."""
    memory.mask = memory.mask[rows]
    for store in (memory.keys, memory.values, cache.keys, cache.values):
        for layer, tensor in enumerate(store):
            store[layer] = tensor[rows]


def reorder(cache: Cache, parents: Tensor, length: int) -> None:
    """Copy to every row the cache of the row it continues."""
    for store in (cache.keys, cache.values):
        for tensor in store:
            tensor[:, :, :length] = tensor[:, :, :length][parents]
