"""Decoding on CUDA: every step replays a captured graph.

For a small network, launching kernels costs more than running them. So a step (network, choice of tokens, bookkeeping)
is captured once per shape and replayed; shapes are rounded up so that there are few. Several networks decode together:
each has its share of the rows of a shape. The graphs read weights from one buffer, into which the weights of the
current networks are copied. So all networks of an experiment share all graphs.

A tensor that a graph reads must stay allocated as long as the graph exists, so `_Shape` keeps references. The large
caches share one buffer, as only one shape is in use at a time: sentences that move to a smaller shape are copied out
first.

Shapes: N networks, B sentences, S source length, P weights, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from loopmt.config import Generate, Model
from loopmt.model.transformer import Cache, Memory, Transformer
from loopmt.model.weights import Layout
from loopmt.text.ragged import EOS, PAD, Ints
from loopmt.translate import beam_search
from loopmt.translate.beam_search import Search
from loopmt.translate.protocol import DecodeLimits

_CHECK_EVERY = 8
_LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
_ROWS = (8, 32, 128, 256, 512, 768, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096)
_MOST_SHAPES = 48  # kept at once
_MANY = 1024  # from this many rows on, caches first hold half of the longest outputs, which few outputs reach


class Replayable(Protocol):
    """Recorded work, such as a CUDA graph."""

    def replay(self) -> None: ...


@dataclass
class _Shape:
    """Fixed tensors and graphs of one shape of batch. Unused rows have the number -1 and the shortest length limit."""

    networks: int
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
    def rows_each(self) -> int:
        """Rows of each network."""
        return self.rows // self.networks

    @property
    def length(self) -> int:
        return self.cache.keys[0].shape[2]

    def by_row(self, length: int) -> list[Tensor]:
        """The tensors with a row per sentence or hypothesis, except those of the search, up to this target length."""
        past = [part[:, :, :length] for part in (*self.cache.keys, *self.cache.values)]
        past += [] if self.cache.ancestors is None else [self.cache.ancestors[:, :length]]
        return [self.memory.mask, *self.memory.keys, *self.memory.values, *past]

    def free(self) -> None:
        """Release the caches of a shape that is not used again."""
        for tensors in (self.memory.keys, self.memory.values, self.cache.keys, self.cache.values):
            tensors.clear()


@dataclass
class _Buffer:
    """Memory from which tensors are allocated, one after another."""

    memory: Tensor
    used: int = 0

    def allocate(self, shape: Sequence[int]) -> Tensor:
        start, self.used = self.used, self.used + math.prod(shape)
        return self.memory[start : self.used].view(*shape)


class CapturedDecoder:
    """Decodes with given weights, in shapes that all networks of an architecture share."""

    def __init__(
        self,
        transformer: Transformer,
        layout: Layout,
        precision: torch.dtype,
        device: torch.device,
        recorder: Callable[[Callable[[], None]], Replayable] | None = None,
    ) -> None:
        self.transformer = transformer
        self.layout = layout
        self.custom_recorder = recorder
        self.flat = torch.zeros(1, layout.num_places, dtype=precision, device=device)
        self.caches = self.flat.new_zeros(0)
        self.shapes: dict[tuple[int, int, int, int, str, bool], _Shape] = {}
        self._allocate(1, 0)

    def decode(
        self,
        flat_NP: Tensor,
        logit_mask_NV: Tensor,
        opening: int | None,
        source_BS: Tensor,
        lengths_B: Ints,
        limits: DecodeLimits,
        how: Generate,
        generator: torch.Generator | None,
        networks_B: Ints,
    ) -> Iterator[Search]:
        """Yield searches of finished sentences; when few sentences are left, they move to a smaller shape."""
        used, order = np.unique(networks_B, return_inverse=True)
        limit, widest = limits.lengths(lengths_B), _up(source_BS.shape[1], _LENGTHS)
        longest = limits.length(widest - 1)  # one per source width, for fewer shapes
        self._load(flat_NP, logit_mask_NV, used)
        most = int(np.bincount(order).max())
        length = _first_length(longest, len(used) * _rows_each(len(used), most))
        shape = self._shape(len(used), most, widest, length, how, opening is not None)
        if generator is not None:
            torch.cuda.manual_seed(_seed_from(generator))  # graphs draw from the default generator
        self._fill(shape, source_BS, limit, _places(order, shape.rows_each), opening)
        shape.read.replay()
        for position in range(1, max(limit) + 1):
            shape.step.replay()
            if position % _CHECK_EVERY and position not in (shape.length, max(limit)):
                continue
            used_rows, done = shape.hypotheses.rows >= 0, shape.hypotheses.done(shape.position - 1)
            keep = used_rows & ~done
            most = int(keep.view(shape.networks, -1).sum(1).amax())
            full = position == shape.length
            if most and not full and _rows_each(shape.networks, most) >= shape.rows_each:
                continue
            finished = (used_rows & done).nonzero()[:, 0]
            if len(finished):
                yield beam_search.subset(shape.hypotheses, finished)
            if not most:
                return
            shape = self._move(shape, keep, most, longest if full else shape.length, position, how)

    def _load(self, flat_NP: Tensor, logit_mask_NV: Tensor, used: Ints) -> None:
        """Copy the weights of these networks to the buffer that the graphs read."""
        if len(used) > len(self.flat):
            self._allocate(len(used), self.caches.numel())
        masks = logit_mask_NV.expand(len(flat_NP), -1)
        for place, network in enumerate(used.tolist()):
            self.flat[place].copy_(flat_NP[network])
            self.weights[-1]["output_bias"][place].add_(masks[network])

    def _move(self, old: _Shape, keep: Tensor, most: int, length: int, position: int, how: Generate) -> _Shape:
        """Move the sentences to keep, at most `most` of a network, to a shape for fewer rows or longer outputs."""
        rows, width = keep.nonzero()[:, 0], old.hypotheses.width
        ranks = (keep.view(old.networks, -1).cumsum(1).flatten() - 1)[rows]
        hypotheses = beam_search.search_state(beam_search.subset(old.hypotheses, rows))
        past = [tensor[_wide(rows, width) if len(tensor) > old.rows else rows] for tensor in old.by_row(position)]
        opens = "opening" in hypotheses
        new = self._shape(old.networks, most, old.source.shape[1], length, how, opens)
        places = rows // old.rows_each * new.rows_each + ranks
        for name, tensor in beam_search.search_state(new.hypotheses).items():
            value = hypotheses[name]
            tensor.copy_(new.first[name])
            tensor = tensor[..., : value.shape[-1]] if tensor.dim() > 1 else tensor
            tensor[_wide(places, width) if len(tensor) > new.rows else places] = value
        for tensor, kept in zip(new.by_row(position), past, strict=True):
            tensor[_wide(places, width) if len(tensor) > new.rows else places] = kept
        new.position.copy_(old.position)
        return new

    def _fill(self, shape: _Shape, source_BS: Tensor, limit: list[int], places: Ints, opening: int | None) -> None:
        rows = torch.from_numpy(places).to(source_BS.device)
        shape.source.fill_(PAD)
        shape.source[:, 0] = EOS  # unused rows need a position to attend to
        shape.source[rows, : source_BS.shape[1]] = source_BS
        state = beam_search.search_state(shape.hypotheses)
        for name, tensor in state.items():
            tensor.copy_(shape.first[name])
        state["longest"][rows] = torch.tensor(limit, device=rows.device)
        state["rows"][rows] = torch.arange(len(places), device=rows.device)
        if opening is not None:
            state["opening"].fill_(opening)
        shape.position.zero_()

    def _shape(self, networks: int, most: int, source_length: int, length: int, how: Generate, opens: bool) -> _Shape:
        """The shape for at most `most` sentences of each network, and outputs of at least this length."""
        rows, length = networks * _rows_each(networks, most), _up(length, _LENGTHS)
        key = (rows, source_length, length, networks, how.model_dump_json(exclude={"by"}), opens)
        shape = self.shapes.pop(key, None)
        while shape is None and len(self.shapes) >= _MOST_SHAPES:
            self.shapes.pop(next(iter(self.shapes)))  # the least recently used
        self.shapes[key] = shape or self._capture(networks, rows, source_length, length, how, opens)
        return self.shapes[key]

    def _capture(self, networks: int, rows: int, source_length: int, length: int, how: Generate, opens: bool) -> _Shape:
        device = self.flat.device
        source = torch.full((rows, source_length), EOS, device=device)
        source_NBS, weights = source.view(networks, -1, source_length), self.weights[networks - 1]
        start, opening = self.transformer.conventions.start, EOS if opens else None  # `_fill` sets the actual one
        hypotheses = beam_search.start_search([length] * rows, how, device, self.transformer.fuse, start, opening)
        first = {name: tensor.clone() for name, tensor in beam_search.search_state(hypotheses).items()}
        first["longest"].fill_(1)
        first["rows"].fill_(-1)
        position = torch.zeros((), dtype=torch.long, device=device)
        memory, cache = self._caches(rows, hypotheses.width, source_length, length)

        def read() -> None:
            fresh = self._read(source_NBS, hypotheses.width)
            memory.mask.copy_(fresh.mask)
            for old, new in zip((*memory.keys, *memory.values), (*fresh.keys, *fresh.values), strict=True):
                old.copy_(new)

        def step() -> None:
            fixed = beam_search.search_state(hypotheses)
            tokens = hypotheses.tokens.view(networks, -1)
            logits = self.transformer.step(weights, memory, cache, tokens, position).flatten(0, 1)
            parents = hypotheses.advance(logits, position, None)
            for name, tensor in beam_search.search_state(hypotheses).items():
                setattr(hypotheses, name, fixed[name].copy_(tensor))
            if parents is not None:
                self.transformer.reorder(cache, parents, position)
            position.add_(1)

        graphs = self.recorder(read), self.recorder(step)
        return _Shape(networks, source, first, hypotheses, memory, cache, position, *graphs)

    def _caches(self, rows: int, beam: int, source_length: int, length: int) -> tuple[Memory, Cache]:
        """Memory and a cache in the buffer that all shapes share."""
        model, everything = self.transformer.model, torch.ones(rows, 1, 1, source_length, device=self.flat.device)
        mask = self.transformer.widen(Memory([], [], everything.bool()), beam).mask
        size = cache_elements(model, len(mask), source_length, rows * beam, length)
        if self.caches.numel() < size:
            self._allocate(len(self.flat), size)
        buffer, layers = _Buffer(self.caches), range(model.num_decoder_layers)
        shape = (len(mask), model.heads, source_length, model.width // model.heads)
        keys, values = ([buffer.allocate(shape) for _ in layers] for _ in range(2))
        return Memory(keys, values, mask), self.transformer.new_cache(rows * beam, length, buffer.allocate, beam > 1)

    def _allocate(self, networks: int, size: int) -> None:
        """Allocate weights and caches. Discard all shapes, which refer to the old ones, and their memory pool."""
        discarded, self.shapes = self.shapes, {}
        self.recorder = self.custom_recorder or partial(record, pool=torch.cuda.graph_pool_handle())
        if networks > len(self.flat):
            self.flat = self.flat.new_zeros(networks, self.flat.shape[1])
        if size > self.caches.numel():
            for shape in discarded.values():
                shape.free()  # including the shape whose sentences move to a larger one
            self.caches = self.flat.new_zeros(0)  # frees the old caches first
            self.caches = self.flat.new_zeros(size)  # must always hold finite values
        self.weights = [self.layout.unpack(self.flat[: number + 1]) for number in range(len(self.flat))]

    def _read(self, source_NBS: Tensor, width: int) -> Memory:
        weights = self.weights[len(source_NBS) - 1]
        memory = self.transformer.memory(weights, self.transformer.encode(weights, source_NBS), source_NBS)
        return self.transformer.widen(memory, width)


def record(work: Callable[[], None], pool: Any) -> torch.cuda.CUDAGraph:
    """Capture `work` after running it twice, because libraries initialize themselves in a first run.

    The random state is restored, so that results do not depend on when a shape is captured.
    """
    random_state = torch.cuda.get_rng_state()
    stream = _warm_up_stream(torch.cuda.current_device())
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


@lru_cache
def _warm_up_stream(device: int) -> torch.cuda.Stream:
    """One stream for all warm-ups, because matrix libraries keep a workspace of 32 MiB for each stream they used."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def cache_elements(model: Model, sources: int, source_length: int, outputs: int, length: int) -> int:
    """Elements of keys and values of all layers, for sources and for outputs."""
    return 2 * model.num_decoder_layers * model.width * (sources * source_length + outputs * length)


def first_caches(model: Model, limits: DecodeLimits, networks: int, most: int, places: int, beam: int = 1) -> int:
    """Elements of a batch's initial caches, for at most `most` sentences of a network and this source length."""
    rows, width = networks * _rows_each(networks, most), _up(places, _LENGTHS)
    length = _up(_first_length(limits.length(width - 1), rows), _LENGTHS)
    return cache_elements(model, rows, width, rows * beam, length)


def _first_length(longest: int, rows: int) -> int:
    """The length of the caches with which a batch begins."""
    return longest // 2 if rows >= _MANY else longest


def _seed_from(generator: torch.Generator) -> int:
    """A seed for the next batch of a call, drawn from the call's generator so that it is reproducible."""
    return int(torch.randint(2**63 - 1, (), device=generator.device, generator=generator))


def _places(networks_B: Ints, rows_each: int) -> Ints:
    """The row of each sentence; the rows of a network are adjacent."""
    order = np.argsort(networks_B, kind="stable")
    counts = np.bincount(networks_B)
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(networks_B * rows_each + ranks)


def _rows_each(networks: int, most: int) -> int:
    """The rows of each network in a shape for at most `most` sentences per network; `_ROWS` is the total."""
    return _up(most, tuple(max(1, rows // networks) for rows in _ROWS))


def _wide(rows: Tensor, width: int) -> Tensor:
    """The rows of all hypotheses of these sentences."""
    return (rows[:, None] * width + torch.arange(width, device=rows.device)).flatten()


def _up(size: int, steps: tuple[int, ...]) -> int:
    return next((step for step in steps if step >= size), size)
