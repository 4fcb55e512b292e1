"""Decoding on CUDA: every step is the replay of a captured graph.

Launching the kernels of a small network costs more than running them. Here a step (network, choice of tokens, book-
keeping) is captured once per shape and replayed; shapes are rounded up so that there are few. The graphs read the
weights from one place, into which the weights of whichever network speaks are copied first: all networks of an
experiment share all graphs.

A tensor that a graph reads must stay referenced as long as the graph: everything is kept in `_Shape`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from loopmt.config import Generate
from loopmt.model import search
from loopmt.model.limits import Limits
from loopmt.model.search import Search
from loopmt.model.transformer import Cache, Memory, Transformer
from loopmt.model.weights import EOS, PAD, Layout
from loopmt.text.ragged import Ints

_CHECK_EVERY = 8
_LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
_ROWS = (8, 32, 128, 256, 512, 1024, 2048, 4096)
_MOST_SHAPES = 48  # kept at once
_MOST_MEMORY = 1 / 10  # of the device's, for the caches of all kept shapes; the rest is for training


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

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.by_row())

    def ended(self, rows: int) -> None:
        """Places beyond `rows` hold no sentence: they are at their limit from the start."""
        search.state(self.hypotheses)["longest"][rows:] = 1


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
        self.recorder = recorder or partial(record, pool=torch.cuda.graph_pool_handle())
        self.shapes: dict[tuple[int, int, int, str], _Shape] = {}

    def load(self, flat: Tensor, silent: Tensor) -> None:
        self.flat.copy_(flat)
        self.weights["output_bias"].add_(silent)

    def decode(
        self, source_BS: Tensor, lengths_B: Ints, limits: Limits, how: Generate, generator: torch.Generator | None
    ) -> Iterator[Search]:
        """Searches that have ended, as they end; when few sentences are left, they move to a smaller shape."""
        rows, width = source_BS.shape
        limit, widest = limits.lengths(lengths_B), _up(width, _LENGTHS)
        room = _up(limits.length(widest - 1), _LENGTHS)  # one for each width: fewer shapes than by what is needed
        shape = self._shape(_up(rows, _ROWS), widest, room, how)
        if generator is not None:
            torch.cuda.manual_seed(generator.initial_seed())  # graphs draw from the default generator
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
                yield search.part(shape.hypotheses, done.nonzero()[:, 0])
            if not len(keep):
                return
            shape = self._move(shape, keep, self._shape(smaller, shape.source.shape[1], shape.length, how))
            rows = len(keep)

    def _move(self, shape: _Shape, keep: Tensor, to: _Shape) -> _Shape:
        """Go on with the sentences `keep` in a smaller shape."""
        width = shape.hypotheses.width
        wide = (keep[:, None] * width + torch.arange(width, device=keep.device)).flatten()
        left = search.state(search.part(shape.hypotheses, keep))
        for name, tensor in search.state(to.hypotheses).items():
            tensor.copy_(to.first[name])
            tensor[: len(left[name])] = left[name]
        to.ended(len(keep))
        for old, new in zip(shape.by_row(), to.by_row(), strict=True):
            chosen = wide if len(old) > shape.rows else keep
            new[: len(chosen)] = old[chosen]
        to.position.copy_(shape.position)
        return to

    def _fill(self, shape: _Shape, source_BS: Tensor, limit: list[int]) -> None:
        rows, width = source_BS.shape
        shape.source.fill_(PAD)
        shape.source[:, 0] = EOS  # rows that are none still need something to attend to
        shape.source[:rows, :width] = source_BS
        for name, tensor in search.state(shape.hypotheses).items():
            tensor.copy_(shape.first[name])
        longest = search.state(shape.hypotheses)["longest"]
        longest[:rows] = torch.tensor(limit, device=longest.device)
        shape.ended(rows)
        shape.position.zero_()

    def _shape(self, rows: int, source_length: int, length: int, how: Generate) -> _Shape:
        key = (rows, source_length, length, how.model_dump_json(exclude={"by"}))
        shape = self.shapes.pop(key, None)
        while shape is None and self.shapes and self._full():
            self.shapes.pop(next(iter(self.shapes)))  # the one that was not used for the longest time
        self.shapes[key] = shape or self._capture(rows, source_length, length, how)
        return self.shapes[key]

    def _full(self) -> bool:
        held = sum(shape.bytes for shape in self.shapes.values())
        return len(self.shapes) >= _MOST_SHAPES or held > _MOST_MEMORY * _memory(self.flat.device)

    def _capture(self, rows: int, source_length: int, length: int, how: Generate) -> _Shape:
        device = self.flat.device
        source = torch.full((rows, source_length), EOS, device=device)
        hypotheses = search.start([length] * rows, how, device, self.transformer.fuse)
        first = {name: tensor.clone() for name, tensor in search.state(hypotheses).items()}
        position = torch.zeros((), dtype=torch.long, device=device)
        memory = contiguous(self._read(source, hypotheses.width))
        cache = self.transformer.new_cache(rows * hypotheses.width, length, memory.keys[0], moving=hypotheses.width > 1)

        def read() -> None:
            fresh = self._read(source, hypotheses.width)
            memory.mask.copy_(fresh.mask)
            for old, new in zip((*memory.keys, *memory.values), (*fresh.keys, *fresh.values), strict=True):
                old.copy_(new)

        def step() -> None:
            fixed = search.state(hypotheses)
            logits = self.transformer.step(self.weights, memory, cache, hypotheses.tokens[None], position)[0]
            parents = hypotheses.advance(logits, position, None)
            for name, tensor in search.state(hypotheses).items():
                setattr(hypotheses, name, fixed[name].copy_(tensor))
            if parents is not None:
                self.transformer.reorder(cache, parents, position)
            position.add_(1)

        return _Shape(source, first, hypotheses, memory, cache, position, self.recorder(read), self.recorder(step))

    def _read(self, source_BS: Tensor, width: int) -> Memory:
        states = self.transformer.encode(self.weights, source_BS[None])
        return self.transformer.widen(self.transformer.memory(self.weights, states, source_BS[None]), width)


def _memory(device: torch.device) -> float:
    return torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else math.inf


def contiguous(memory: Memory) -> Memory:
    keys, values = ([part.contiguous() for part in store] for store in (memory.keys, memory.values))
    return Memory(keys, values, memory.mask)


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


def _up(size: int, steps: tuple[int, ...]) -> int:
    return next((step for step in steps if step >= size), size)
