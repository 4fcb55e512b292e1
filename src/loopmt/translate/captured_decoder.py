"""Decoding on CUDA: every step is the replay of a captured graph.

Launching the kernels of a small network costs more than running them. Here a step (network, choice of tokens, book-
keeping) is captured once per shape and replayed; shapes are rounded up so that there are few. The graphs read the
weights from one place, into which the weights of whichever network speaks are copied first: all networks of an
experiment share all graphs.

A tensor that a graph reads must stay referenced as long as the graph: everything is kept in `_Shape`. Caches, which
are large, lie in the same place for all shapes, as only one is in use at a time: what goes on in a smaller shape is
taken out before that shape is prepared.
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
from loopmt.translate.limits import DecodeLimits

_CHECK_EVERY = 8
_LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
_ROWS = (8, 32, 128, 256, 512, 1024, 2048, 4096)
_MOST_SHAPES = 48  # kept at once


class Replayable(Protocol):
    """What a recorder makes of a piece of work; a CUDA graph is one."""

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
        """What belongs to each sentence or each of its hypotheses, beside the search."""
        past = [*self.cache.keys, *self.cache.values]
        past += [] if self.cache.ancestors is None else [self.cache.ancestors]
        return [self.memory.mask, *self.memory.keys, *self.memory.values, *past]

    def ended(self, rows: int) -> None:
        """Places beyond `rows` hold no sentence: they are at their limit from the start."""
        beam_search.search_state(self.hypotheses)["longest"][rows:] = 1


@dataclass
class _Place:
    """A piece of memory that is cut into tensors, one after another."""

    memory: Tensor
    taken: int = 0

    def cut(self, shape: Sequence[int]) -> Tensor:
        start, self.taken = self.taken, self.taken + math.prod(shape)
        return self.memory[start : self.taken].view(*shape)


class CapturedDecoder:
    """Decodes with whichever weights were loaded last."""

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
        self.given = recorder
        self._make_room(0)

    def load(self, flat: Tensor, logit_mask: Tensor) -> None:
        self.flat.copy_(flat)
        self.weights["output_bias"].add_(logit_mask)

    def decode(
        self, source_BS: Tensor, lengths_B: Ints, limits: DecodeLimits, how: Generate, generator: torch.Generator | None
    ) -> Iterator[Search]:
        """Searches that have ended, as they end; when few sentences are left, they move to a smaller shape."""
        rows, width = source_BS.shape
        limit, widest = limits.lengths(lengths_B), _up(width, _LENGTHS)
        room = _up(limits.length(widest - 1), _LENGTHS)  # one for each width: fewer shapes than by what is needed
        shape = self._shape(_up(rows, _ROWS), widest, room, how)
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
            hypotheses, past, position = self._leave(shape, keep)
            shape = self._shape(smaller, shape.source.shape[1], shape.length, how)
            rows = len(keep)
            self._enter(shape, rows, hypotheses, past, position)

    def _leave(self, shape: _Shape, keep: Tensor) -> tuple[dict[str, Tensor], list[Tensor], Tensor]:
        """All that is known of the sentences `keep`, in memory of its own."""
        width = shape.hypotheses.width
        wide = (keep[:, None] * width + torch.arange(width, device=keep.device)).flatten()
        past = [tensor[wide if len(tensor) > shape.rows else keep] for tensor in shape.by_row()]
        return beam_search.search_state(beam_search.subset(shape.hypotheses, keep)), past, shape.position.clone()

    def _enter(
        self, shape: _Shape, rows: int, hypotheses: dict[str, Tensor], past: list[Tensor], position: Tensor
    ) -> None:
        """Go on with the first `rows` places of a shape."""
        for name, tensor in beam_search.search_state(shape.hypotheses).items():
            tensor.copy_(shape.first[name])
            tensor[: len(hypotheses[name])] = hypotheses[name]
        shape.ended(rows)
        for new, old in zip(shape.by_row(), past, strict=True):
            new[: len(old)] = old
        shape.position.copy_(position)

    def _fill(self, shape: _Shape, source_BS: Tensor, limit: list[int]) -> None:
        rows, width = source_BS.shape
        shape.source.fill_(PAD)
        shape.source[:, 0] = EOS  # rows that are none still need something to attend to
        shape.source[:rows, :width] = source_BS
        for name, tensor in beam_search.search_state(shape.hypotheses).items():
            tensor.copy_(shape.first[name])
        longest = beam_search.search_state(shape.hypotheses)["longest"]
        longest[:rows] = torch.tensor(limit, device=longest.device)
        shape.ended(rows)
        shape.position.zero_()

    def _shape(self, rows: int, source_length: int, length: int, how: Generate) -> _Shape:
        key = (rows, source_length, length, how.model_dump_json(exclude={"by"}))
        shape = self.shapes.pop(key, None)
        while shape is None and len(self.shapes) >= _MOST_SHAPES:
            self.shapes.pop(next(iter(self.shapes)))  # the one that was not used for the longest time
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
        """Memory of the shape of `like`, and a cache beside it, where those of all shapes lie."""
        model = self.transformer.model
        own = rows * width * length * model.width
        size = 2 * model.num_decoder_layers * (like.keys[0].numel() + own)
        if self.caches.numel() < size:
            self._make_room(size)
        place = _Place(self.caches)
        keys, values = ([place.cut(part.shape) for part in store] for store in (like.keys, like.values))
        cache = self.transformer.new_cache(rows * width, length, place.cut, moving=width > 1)
        return Memory(keys, values, like.mask.clone()), cache

    def _make_room(self, size: int) -> None:
        """A place for caches, and no shapes yet: those that were hold the old one. A pool ends with its last graph."""
        self.shapes: dict[tuple[int, int, int, str], _Shape] = {}
        self.caches = self.flat.new_zeros(0)  # the old one goes before the new one is made
        self.caches = self.flat.new_zeros(size)  # of whichever shape is in use: never anything but numbers of this type
        self.recorder = self.given or partial(record, pool=torch.cuda.graph_pool_handle())

    def _read(self, source_BS: Tensor, width: int) -> Memory:
        states = self.transformer.encode(self.weights, source_BS[None])
        return self.transformer.widen(self.transformer.memory(self.weights, states, source_BS[None]), width)


def record(work: Callable[[], None], pool: Any) -> torch.cuda.CUDAGraph:
    """Capture `work` after running it twice, as libraries set themselves up in a first run.

    Draws go on as if there had been no recording: when a shape was first met changes nothing.
    """
    chance = torch.cuda.get_rng_state()
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        work()
    torch.cuda.set_rng_state(chance)
    return graph


def _seed_from(generator: torch.Generator) -> int:
    """Drawn, so that the next batch of the same call gets another, and the same ones when all is done again."""
    return int(torch.randint(2**63 - 1, (), device=generator.device, generator=generator))


def _up(size: int, steps: tuple[int, ...]) -> int:
    return next((step for step in steps if step >= size), size)
