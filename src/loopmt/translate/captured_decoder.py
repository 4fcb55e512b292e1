"""Decoding on CUDA: every step replays a captured graph.

For a small network, launching kernels costs more than running them. So a step (network, choice of tokens, bookkeeping)
is captured once per shape and replayed; shapes are rounded up so that there are few. The graphs read weights from one
buffer, into which the weights of the current network are copied: all networks of an experiment share all graphs.

A tensor that a graph reads must live as long as the graph, so `_Shape` keeps references. The large caches share one
buffer, as only one shape is in use at a time: sentences that move to a smaller shape are copied out before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from loopmt.config import Generate
from loopmt.model.transformer import Cache, Memory, Transformer
from loopmt.model.weights import Layout
from loopmt.text.ragged import EOS, PAD, Ints
from loopmt.translate import beam_search
from loopmt.translate.beam_search import Search
from loopmt.translate.protocol import DecodeLimits

_CHECK_EVERY = 8
_LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
_ROWS = (8, 32, 128, 256, 512, 1024, 2048, 4096)
_MOST_SHAPES = 48  # kept at once


class Replayable(Protocol):
    """Recorded work, such as a CUDA graph."""

    def replay(self) -> None: ...


@dataclass
class _Shape:
    """Fixed tensors and graphs of one shape of batch."""

    source: Tensor
    first: dict[str, Tensor]  # the search before its first step
    hypotheses: Search
    memory: Memory
    cache: Cache
    position: Tensor
    read: Replayable
    step: Replayable

    @property
    def rows(self) -> int:
        return self.source.shape[0]

    @property
    def length(self) -> int:
        return self.cache.keys[0].shape[2]

    def by_row(self) -> list[Tensor]:
        """The tensors with a row per sentence or hypothesis, except those of the search."""
        past = [*self.cache.keys, *self.cache.values]
        past += [] if self.cache.ancestors is None else [self.cache.ancestors]
        return [self.memory.mask, *self.memory.keys, *self.memory.values, *past]

    def deactivate(self, rows: int) -> None:
        """Give unused rows, those from `rows` on, the shortest length limit."""
        beam_search.search_state(self.hypotheses)["longest"][rows:] = 1


@dataclass
class _Buffer:
    """Memory from which tensors are allocated, one after another."""

    memory: Tensor
    used: int = 0

    def allocate(self, shape: Sequence[int]) -> Tensor:
        start, self.used = self.used, self.used + math.prod(shape)
        return self.memory[start : self.used].view(*shape)


class CapturedDecoder:
    """Decodes with the weights that were loaded last."""

    def __init__(
        self,
        transformer: Transformer,
        layout: Layout,
        precision: torch.dtype,
        device: torch.device,
        recorder: Callable[[Callable[[], None]], Replayable] | None = None,
    ) -> None:
        self.transformer = transformer
        self.flat = torch.zeros(1, layout.num_places, dtype=precision, device=device)
        self.weights = layout.unpack(self.flat)
        self.custom_recorder = recorder
        self._allocate_caches(0)

    def load(self, flat: Tensor, logit_mask: Tensor) -> None:
        self.flat.copy_(flat)
        self.weights["output_bias"].add_(logit_mask)

    def decode(
        self, source_BS: Tensor, lengths_B: Ints, limits: DecodeLimits, how: Generate, generator: torch.Generator | None
    ) -> Iterator[Search]:
        """Yield searches of finished sentences; when few sentences are left, they move to a smaller shape."""
        rows, width = source_BS.shape
        limit, widest = limits.lengths(lengths_B), _up(width, _LENGTHS)
        length = _up(limits.length(widest - 1), _LENGTHS)  # one per source width, for fewer shapes
        shape = self._shape(_up(rows, _ROWS), widest, length, how)
        if generator is not None:
            torch.cuda.manual_seed(_seed_from(generator))  # graphs draw from the default generator
        self._fill(shape, source_BS, limit)
        shape.read.replay()
        for number in range(max(limit)):
            shape.step.replay()
            if (number + 1) % _CHECK_EVERY and number + 1 < max(limit):
                continue
            done = shape.hypotheses.done(shape.position - 1)[:rows]
            keep = (~done).nonzero()[:, 0]
            smaller = _up(max(len(keep), 1), _ROWS)
            if len(keep) and smaller >= shape.rows:
                continue
            if len(keep) < rows:
                yield beam_search.subset(shape.hypotheses, done.nonzero()[:, 0])
            if not len(keep):
                return
            hypotheses, past, position = self._copy_out(shape, keep)
            shape = self._shape(smaller, shape.source.shape[1], shape.length, how)
            rows = len(keep)
            self._copy_in(shape, rows, hypotheses, past, position)

    def _copy_out(self, shape: _Shape, keep: Tensor) -> tuple[dict[str, Tensor], list[Tensor], Tensor]:
        """A copy of the state of the sentences `keep`."""
        width = shape.hypotheses.width
        wide = (keep[:, None] * width + torch.arange(width, device=keep.device)).flatten()
        past = [tensor[wide if len(tensor) > shape.rows else keep] for tensor in shape.by_row()]
        return beam_search.search_state(beam_search.subset(shape.hypotheses, keep)), past, shape.position.clone()

    def _copy_in(
        self, shape: _Shape, rows: int, hypotheses: dict[str, Tensor], past: list[Tensor], position: Tensor
    ) -> None:
        """Put the state of sentences into the first `rows` rows of a shape."""
        for name, tensor in beam_search.search_state(shape.hypotheses).items():
            tensor.copy_(shape.first[name])
            tensor[: len(hypotheses[name])] = hypotheses[name]
        shape.deactivate(rows)
        for new, old in zip(shape.by_row(), past, strict=True):
            new[: len(old)] = old
        shape.position.copy_(position)

    def _fill(self, shape: _Shape, source_BS: Tensor, limit: list[int]) -> None:
        rows, width = source_BS.shape
        shape.source.fill_(PAD)
        shape.source[:, 0] = EOS  # unused rows need a position to attend to
        shape.source[:rows, :width] = source_BS
        for name, tensor in beam_search.search_state(shape.hypotheses).items():
            tensor.copy_(shape.first[name])
        longest = beam_search.search_state(shape.hypotheses)["longest"]
        longest[:rows] = torch.tensor(limit, device=longest.device)
        shape.deactivate(rows)
        shape.position.zero_()

    def _shape(self, rows: int, source_length: int, length: int, how: Generate) -> _Shape:
        key = (rows, source_length, length, how.model_dump_json(exclude={"by"}))
        shape = self.shapes.pop(key, None)
        while shape is None and len(self.shapes) >= _MOST_SHAPES:
            self.shapes.pop(next(iter(self.shapes)))  # the least recently used
        self.shapes[key] = shape or self._capture(rows, source_length, length, how)
        return self.shapes[key]

    def _capture(self, rows: int, source_length: int, length: int, how: Generate) -> _Shape:
        device = self.flat.device
        source = torch.full((rows, source_length), EOS, device=device)
        hypotheses = beam_search.start_search([length] * rows, how, device, self.transformer.fuse)
        first = {name: tensor.clone() for name, tensor in beam_search.search_state(hypotheses).items()}
        position = torch.zeros((), dtype=torch.long, device=device)
        memory, cache = self._caches(self._read(source, hypotheses.width), rows, hypotheses.width, length)

        def read() -> None:
            fresh = self._read(source, hypotheses.width)
            memory.mask.copy_(fresh.mask)
            for old, new in zip((*memory.keys, *memory.values), (*fresh.keys, *fresh.values), strict=True):
                old.copy_(new)

        def step() -> None:
            fixed = beam_search.search_state(hypotheses)
            logits = self.transformer.step(self.weights, memory, cache, hypotheses.tokens[None], position)[0]
            parents = hypotheses.advance(logits, position, None)
            for name, tensor in beam_search.search_state(hypotheses).items():
                setattr(hypotheses, name, fixed[name].copy_(tensor))
            if parents is not None:
                self.transformer.reorder(cache, parents, position)
            position.add_(1)

        return _Shape(source, first, hypotheses, memory, cache, position, self.recorder(read), self.recorder(step))

    def _caches(self, like: Memory, rows: int, width: int, length: int) -> tuple[Memory, Cache]:
        """Memory shaped like `like`, and a cache, in the buffer that all shapes share."""
        model = self.transformer.model
        own = rows * width * length * model.width
        size = 2 * model.num_decoder_layers * (like.keys[0].numel() + own)
        if self.caches.numel() < size:
            self._allocate_caches(size)
        buffer = _Buffer(self.caches)
        keys, values = ([buffer.allocate(part.shape) for part in store] for store in (like.keys, like.values))
        cache = self.transformer.new_cache(rows * width, length, buffer.allocate, moving=width > 1)
        return Memory(keys, values, like.mask.clone()), cache

    def _allocate_caches(self, size: int) -> None:
        """Allocate the caches. Discard all shapes, which refer to the old ones, and their memory pool."""
        self.shapes: dict[tuple[int, int, int, str], _Shape] = {}
        self.caches = self.flat.new_zeros(0)  # frees the old caches first
        self.caches = self.flat.new_zeros(size)  # must always hold finite values
        self.recorder = self.custom_recorder or partial(record, pool=torch.cuda.graph_pool_handle())

    def _read(self, source_BS: Tensor, width: int) -> Memory:
        states = self.transformer.encode(self.weights, source_BS[None])
        return self.transformer.widen(self.transformer.memory(self.weights, states, source_BS[None]), width)


def record(work: Callable[[], None], pool: Any) -> torch.cuda.CUDAGraph:
    """Capture `work` after running it twice, because libraries initialize themselves in a first run.

    The random state is restored, so that results do not depend on when a shape is captured.
    """
    random_state = torch.cuda.get_rng_state()
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        work()
    torch.cuda.set_rng_state(random_state)
    return graph


def _seed_from(generator: torch.Generator) -> int:
    """A seed for the next batch of a call, drawn from the call's generator so that it is reproducible."""
    return int(torch.randint(2**63 - 1, (), device=generator.device, generator=generator))


def _up(size: int, steps: tuple[int, ...]) -> int:
    return next((step for step in steps if step >= size), size)
