"""A batch that does not fit into memory is added in two halves: a sum of gradients does not mind."""

from __future__ import annotations

from collections.abc import Callable

import torch

from loopmt.config import Train
from loopmt.errors import ExhaustedError
from loopmt.model.exhausted import ERRORS, is_out_of_memory
from loopmt.text.batch import Batch, BatchShape


class BatchSplitter:
    """Remembers which shapes did not fit, so that they are tried once and no more."""

    def __init__(self, train: Train) -> None:
        self.train = train
        self.halved: set[BatchShape] = set()

    def add(self, batch: Batch, add: Callable[[Batch], None]) -> None:
        """Add a batch, whole or in halves; nothing was added by an attempt that failed."""
        if batch.shape not in self.halved:
            try:
                return add(batch)
            except ERRORS as error:
                if not is_out_of_memory(error) or not self._may_split(batch):
                    raise self._explained(error, batch, "which cannot be halved") from None
            self.halved.add(batch.shape)
            torch.manual_seed(torch.initial_seed())  # the same dropout, however far the attempt came
        for part in range(2):
            try:
                add(batch.part(part, 2))
            except ERRORS as error:
                raise self._explained(error, batch, "and on half of it") from None
        return None

    def _may_split(self, batch: Batch) -> bool:
        """Rows that combine stay together; a sharded network is computed by all processes in step."""
        rows, groups = batch.shape.rows, batch.groups_NB
        if rows % 2 or self.train.shard:
            return False
        across = (groups[:, rows // 2 - 1] == groups[:, rows // 2]) & (groups[:, rows // 2] >= 0)
        return not bool(across.any())

    def _explained(self, error: Exception, batch: Batch, tried: str) -> Exception:
        if not is_out_of_memory(error):
            return error
        train, shape = self.train, batch.shape
        parts, tokens = 4 * train.accumulate, max(8, train.tokens // 4)
        return ExhaustedError(
            f"memory ran out on a batch of {shape.rows} rows of {shape.length} places, {tried}. "
            f"Set train.accumulate = {parts} (the same updates in smaller parts: the run goes on from its "
            f"last checkpoint), or train.tokens = {tokens} and give the stage another name."
        )
