"""From source ids to target ids: sentences sorted by length, in large batches, one step function.

On a CPU the rows that have ended leave the batch as it goes; on CUDA every step is the replay of a captured graph.
Nothing here knows languages: it sees the weights of one network and ids.

Shapes: B sentences, S source length, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from loopmt.config import Generate
from loopmt.model import search
from loopmt.model.captured import CapturedDecoder
from loopmt.model.exhausted import by_halves
from loopmt.model.search import Output, Search
from loopmt.model.transformer import Cache, Memory, Transformer
from loopmt.model.weights import EOS, PAD, Layout

Ids = Sequence[int] | npt.NDArray[np.generic]
_CHECK_EVERY = 8  # steps between two looks at which sentences are done


@dataclass(frozen=True)
class Limits:
    """How long an output may get, and how much is decoded at once."""

    growth: float = 2.0
    extra: int = 10
    longest: int = 512
    batch_tokens: int = 16_384  # source tokens with padding, beams counted
    batch_rows: int = 512

    @classmethod
    def on(cls, device: torch.device, longest: int = 512) -> Limits:
        """Batches that fill the device."""
        return (
            cls(longest=longest, batch_tokens=131_072, batch_rows=2048)
            if device.type == "cuda"
            else cls(longest=longest)
        )

    def length(self, source_length: int) -> int:
        return min(self.longest, math.ceil(self.growth * source_length) + self.extra)


@dataclass(frozen=True)
class Speaker:
    """One network ready to speak: its weights, and the ids it must never say."""

    transformer: Transformer
    layout: Layout
    flat: Tensor  # (1, P)
    silent: Tensor  # (V,), -inf at ids that are no text, 0 elsewhere
    precision: torch.dtype
    captured: CapturedDecoder | None = None


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


@torch.no_grad()
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
    decoder = Decoder(speaker) if speaker.captured is None else speaker.captured
    decoder.load(speaker.flat, speaker.silent)
    width = how.beam if how.how == "beam" else 1

    def work(rows: Sequence[int]) -> list[list[Output]]:
        source_BS = padded([sources[row] for row in rows], speaker.silent.device)
        limit = [limits.length(len(sources[row])) for row in rows]
        return decoder.decode(source_BS, limit, how, generator)

    for rows in batches([len(source) for source in sources], limits, width):
        for row, candidates in zip(rows, by_halves(work, rows), strict=True):
            outputs[row] = candidates[:nbest]
        if advance:
            advance(len(rows))
    return outputs


def batches(lengths: Sequence[int], limits: Limits, width: int = 1) -> Iterator[list[int]]:
    """Row numbers, longest first, cut where a batch would be too large."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    start = 0
    while start < len(order):
        places = (lengths[order[start]] + 1) * width
        count = max(1, min(limits.batch_rows // width, limits.batch_tokens // places))
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


class Decoder:
    """Step by step; sentences that are done leave the batch."""

    def __init__(self, speaker: Speaker) -> None:
        self.transformer = speaker.transformer
        self.layout = speaker.layout
        self.precision = speaker.precision

    def load(self, flat: Tensor, silent: Tensor) -> None:
        self.weights = self.layout.unpack(flat.detach().to(self.precision))
        self.silent = silent

    def decode(
        self, source_BS: Tensor, limit: list[int], how: Generate, generator: torch.Generator | None
    ) -> list[list[Output]]:
        found: list[list[Output]] = [[] for _ in limit]
        hypotheses = search.start(limit, how, source_BS.device)
        memory = self._read(source_BS, hypotheses.width)
        cache = self.transformer.new_cache(memory.mask.shape[0], max(limit), memory.keys[0])
        for number in range(max(limit)):
            position = torch.tensor(number, device=source_BS.device)
            logits = self.transformer.step(self.weights, memory, cache, hypotheses.tokens[None], number)[0]
            parents = hypotheses.advance(logits, self.silent, position, generator)
            if parents is not None:
                reorder(cache, parents, number + 1)
            if (number + 1) % _CHECK_EVERY == 0 or number + 1 == max(limit):
                keep = _collect(hypotheses, hypotheses.done(position), found)
                if keep.numel() == 0:
                    break
                if keep.numel() < len(hypotheses.rows):
                    hypotheses.select(keep)
                    width = torch.arange(hypotheses.width, device=keep.device)
                    select(memory, cache, (keep[:, None] * hypotheses.width + width).flatten())
        return found

    def _read(self, source_BS: Tensor, width: int) -> Memory:
        states = self.transformer.encode(self.weights, source_BS[None])
        memory = self.transformer.memory(self.weights, states, source_BS[None])
        if width > 1:
            rows = torch.arange(source_BS.shape[0], device=source_BS.device).repeat_interleave(width)
            select(memory, Cache([], []), rows)
        return memory


def _collect(hypotheses: Search, done: Tensor, found: list[list[Output]]) -> Tensor:
    """Take down what is done; the rows that go on."""
    if done.any():
        outputs, rows = hypotheses.outputs(), hypotheses.rows.tolist()
        for row in done.nonzero()[:, 0].tolist():
            found[rows[row]] = outputs[row]
    return (~done).nonzero()[:, 0]


def select(memory: Memory, cache: Cache, rows: Tensor) -> None:
    """Keep only `rows` of the batch, in that order."""
    memory.mask = memory.mask[rows]
    for store in (memory.keys, memory.values, cache.keys, cache.values):
        for layer, tensor in enumerate(store):
            store[layer] = tensor[rows]


def reorder(cache: Cache, parents: Tensor, length: int) -> None:
    """Give every row the past of the row it continues."""
    for store in (cache.keys, cache.values):
        for tensor in store:
            tensor[:, :, :length] = tensor[:, :, :length][parents]
