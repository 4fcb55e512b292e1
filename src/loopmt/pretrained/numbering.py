"""Renumbers a checkpoint's ids in the order of our networks, where padding, EOS and unknown come first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from loopmt.text.ragged import Ints, Ragged


@dataclass(frozen=True, eq=False)
class Numbering:
    """A permutation of a checkpoint's vocabulary."""

    theirs: Ints  # the checkpoint's id of each of our ids

    @classmethod
    def of(cls, size: int, special: Sequence[int]) -> Numbering:
        """`special` has the checkpoint's ids that become our first ids; the other ids keep their order."""
        others = np.setdiff1d(np.arange(size), special)
        return cls(np.concatenate([np.asarray(special, dtype=np.int64), others]))

    @cached_property
    def ours(self) -> Ints:
        """Our id of each of the checkpoint's ids."""
        return np.argsort(self.theirs)

    def rows(self, ids: Sequence[Sequence[int]]) -> Ragged:
        rows = Ragged.of(ids)
        return Ragged(self.ours[rows.flat], rows.offsets)

    def ids(self, rows: Ragged) -> list[list[int]]:
        return [row.tolist() for row in Ragged(self.theirs[rows.flat], rows.offsets).rows()]

    def to_ours(self, table: Tensor) -> Tensor:
        """Reorder a table with one row for each id to our order."""
        return table[torch.from_numpy(self.theirs).to(table.device)]

    def to_theirs(self, table: Tensor) -> Tensor:
        return table[torch.from_numpy(self.ours).to(table.device)]
