"""Small networks, and rows for them to learn from."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from loopmt.config import Model
from loopmt.path import Hop
from loopmt.text.batch import Batch, BatchShape, Rows
from loopmt.text.packing import pack
from loopmt.text.ragged import Ragged
from loopmt.text.vocab import Vocab
from loopmt.translate.networks import NetworkStack

CPU = torch.device("cpu")
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
