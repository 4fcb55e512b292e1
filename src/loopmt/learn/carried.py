"""Rows that a round gathered but did not use: they are carried over to the next round and saved in checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from loopmt.text.batch import Rows
from loopmt.text.ragged import Ints, Ragged

_NAME = "carried"  # the prefix of their tensors' names


def to_tensors(networks: Sequence[Rows]) -> dict[str, Tensor]:
    """The rows of every network as tensors of a checkpoint."""
    rows = Rows.join(networks)
    columns = {
        "sources": rows.sources.flat,
        "source_lengths": rows.sources.lengths,
        "targets": rows.targets.flat,
        "target_lengths": rows.targets.lengths,
        "paths": rows.paths,
    }
    tensors = {f"{_NAME}.{name}": torch.from_numpy(table.astype(np.int32)) for name, table in columns.items()}
    tensors[f"{_NAME}.groups"] = torch.from_numpy(rows.groups.copy())  # 64 bits
    tensors[f"{_NAME}.factors"] = torch.from_numpy(rows.factors.copy())
    return tensors


def from_tensors(tensors: Mapping[str, Tensor]) -> list[Rows]:
    """The rows of all networks in one table; empty for checkpoints of older versions, which have none."""
    if f"{_NAME}.paths" not in tensors:
        return []

    def table(name: str) -> Ints:
        return tensors[f"{_NAME}.{name}"].numpy().astype(np.int64)

    sources, targets = (_ragged(table(f"{side}s"), table(f"{side}_lengths")) for side in ("source", "target"))
    factors = tensors[f"{_NAME}.factors"].numpy()
    return [Rows(sources, targets, table("paths"), table("groups"), factors)]


def _ragged(flat: Ints, lengths: Ints) -> Ragged:
    return Ragged(flat, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
