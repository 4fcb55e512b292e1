"""Small networks, and rows for them to learn from."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from loopmt.config import Model
from loopmt.model.transformer import NO_DROPOUT, Dropout, Transformer
from loopmt.model.weights import Weights
from loopmt.path import Hop
from loopmt.text.batch import Batch, BatchShape, Rows
from loopmt.text.packing import pack
from loopmt.text.ragged import PAD, Ragged
from loopmt.text.vocab import Vocab
from loopmt.translate.networks import NetworkStack
from loopmt.translate.scoring import decoder_states

CPU = torch.device("cpu")
ALL = slice(None)
Losses = tuple[Tensor, Tensor]
HOPS = (Hop("en", "fr"), Hop("fr", "en"))


def translators(vocab: Vocab, hops: tuple[Hop, ...] = HOPS, **settings: Any) -> NetworkStack:
    small = {"layers": 1, "width": 16, "feed_forward": 32, "heads": 2, "dropout": 0.0}
    found = NetworkStack(Model.model_validate({**small, **settings}), vocab, hops, CPU)
    found.start_fresh(1)
    return found


def rows(seed: int, count: int = 12, group: int = 0) -> Rows:
    generator = np.random.default_rng(seed)
    sides = [[generator.integers(20, 300, generator.integers(1, 7)).tolist() for _ in range(count)] for _ in "st"]
    groups = np.arange(count) // group if group else np.full(count, -1)
    return Rows.of(Ragged.of(sides[0]), Ragged.of(sides[1]), generator.integers(0, 3, count), groups)


def batch(*networks: Rows) -> Batch:
    (found,) = pack(networks, [BatchShape(24, 8)], 1, "key").batches
    return found


def losses_with(
    weights: Weights, transformer: Transformer, source: Tensor, target: Tensor, smoothing: float, dropout: Dropout
) -> tuple[Tensor, Tensor]:
    """The training loss of every row, summed over its tokens, and its number of target tokens."""
    states = decoder_states(weights, transformer, source, target, dropout)
    return transformer.losses(weights, states, target, smoothing).sum(-1), (target != PAD).sum(-1)


def row_losses(found: NetworkStack, flat: Tensor, given: Batch, row: slice = ALL, smoothing: float = 0.1) -> Losses:
    """The same of a batch, or of some of its networks, without dropout."""
    source, target = torch.from_numpy(given.source_NBL[row]), torch.from_numpy(given.target_NBL[row])
    return losses_with(found.layout.unpack(flat), found.transformer, source, target, smoothing, NO_DROPOUT)
