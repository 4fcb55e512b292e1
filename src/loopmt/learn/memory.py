"""Predicts the memory of a stage on CUDA from sizes: what is always allocated, and the peak of its work.

The prediction covers torch's allocations, but not the graphs themselves and the CUDA context.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from loopmt.config import Model
from loopmt.learn.reading import TextReader
from loopmt.learn.routes import Route, StageSetup, one_by_entry, token_shares
from loopmt.model.backend import precision
from loopmt.text.ragged import Ints
from loopmt.text.store import Store
from loopmt.translate.captured_decoder import first_caches
from loopmt.translate.decoder import batches
from loopmt.translate.networks import NetworkStack
from loopmt.translate.protocol import DecodeLimits
from loopmt.translate.scoring import most_logits

_CUDA = torch.device("cuda")
_FLOAT = 4  # bytes of float32
_SAMPLE = 20_000  # sentences whose lengths are measured
_WORKSPACES = 3 * 2**26  # of matrix libraries, for three streams


@dataclass(frozen=True)
class StageMemory:
    """Bytes on CUDA."""

    weights: float
    """Weights, gradient and moments in float32, copies of the weights, and the decoder's weights."""
    caches: float
    """Keys and values of the decoder, for the largest batches."""
    update: float
    """Additional memory of an update: activations, and weights and gradients in the precision of training."""
    scores: float
    """Logits of a batch that is scored."""

    @property
    def peak(self) -> float:
        return self.weights + self.caches + max(self.update, self.scores) + _WORKSPACES

    @classmethod
    def of(cls, setup: StageSetup, networks: NetworkStack, store: Store) -> StageMemory:
        """The memory of a stage."""
        places, size = networks.num_networks * networks.layout.num_places, precision(setup.train, _CUDA).itemsize
        names = {name for route in one_by_entry(setup.routes) for one in route.settings for name in one.generators}
        batch = max(shape.rows * shape.length for shape in setup.shapes) / setup.train.accumulate
        activations = networks.num_networks * batch * saved_elements(networks.model, networks.layout.target_size)
        return cls(
            weights=places * (_FLOAT * (4 + len(names & {"frozen", "ema"})) + size),
            caches=size * _caches(setup, networks, store),
            update=size * (activations + 3 * places),
            scores=size * most_logits(_CUDA),
        )


def saved_elements(model: Model, vocabulary: int) -> float:
    """Elements that the kernels keep for the backward pass, per token position of a batch.

    They keep input and output of every projection and residual sum (shared tensors count once), the logits once,
    because their gradient overwrites them, and for both embeddings the sum and the dropout mask (in bytes).
    """
    encoder = 8 * model.width + 2 * model.feed_forward
    decoder = 14 * model.width + 2 * model.feed_forward
    embeddings = 2 * 1.5 * model.width
    return model.layers * encoder + model.num_decoder_layers * decoder + embeddings + vocabulary


def _caches(setup: StageSetup, networks: NetworkStack, store: Store) -> int:
    """Elements of the caches of validation or of a round's first hop, whichever are larger."""
    train, generating = setup.train, [route for route in setup.routes if route.synthetic]
    validation = [_lengths(store, hop.source, hop.target, train.validate_sentences) for hop in networks.hops]
    own = [networks.network(hop) for hop in networks.hops]
    found = largest_caches(networks.model, validation, own, DecodeLimits.on(_CUDA), train.validate_beam)
    if generating:
        beam = max(one.beam if one.how == "beam" else 1 for route in generating for one in route.settings)
        sources = [_lengths(store, *route.path.ends, count) for route, count in _generated(setup, store)]
        own = [networks.network(route.path.hops[0]) for route in generating]
        limits = DecodeLimits.on(_CUDA, train.max_length)
        found = max(found, largest_caches(networks.model, sources, own, limits, beam))
    return found


def largest_caches(
    model: Model, lengths: Sequence[Ints], own: Sequence[int], limits: DecodeLimits, beam: int = 1
) -> int:
    """Elements of the largest batch's initial caches; `own` has the network of each group of sentences."""
    places = np.concatenate([np.zeros(0, dtype=np.int64), *lengths])
    owners, found = np.repeat(own, [len(group) for group in lengths]), 0
    for rows in batches(places, limits, beam, owners):
        used, counts = np.unique(owners[rows], return_counts=True)
        longest = int(places[rows].max()) + 1
        found = max(found, first_caches(model, limits, len(used), int(counts.max()), longest, beam))
    return found


def _generated(setup: StageSetup, store: Store) -> Iterator[tuple[Route, int]]:
    """The generating routes, and the number of sentences from which each generates in a round."""
    reader = TextReader(setup, store)
    shares = token_shares(setup.routes, {route.number: route.entry.weight for route in setup.routes})
    for route in setup.routes:
        if route.synthetic:
            rows = reader.rows_per_update[route.number] * shares[route.number] / route.entry.keep
            yield route, math.ceil(setup.train.round * rows * route.entry.candidates)


def _lengths(store: Store, start: str, end: str, count: int) -> Ints:
    """Lengths of `count` sentences at the start of a path, distributed as in its text; empty if there is no text."""
    if not (store.has_mono(start) if start == end else store.has_bitext(start, end)):
        return np.zeros(0, dtype=np.int64)
    side = store.ends(start, end)[0]
    known = np.sort(side.lengths_of(side.sample(_SAMPLE)))
    return known[np.linspace(0, len(known) - 1, count).astype(np.int64)]
