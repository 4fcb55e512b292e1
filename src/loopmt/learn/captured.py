"""Learning on CUDA: an update replays captured graphs.

One graph per batch shape accumulates a gradient; another one takes the optimizer step. The graphs compute all networks
of the stack, so no new capture is needed when the mix changes. An update never synchronizes with the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from loopmt.config import Train
from loopmt.distributed import Processes
from loopmt.learn.forward import BatchTensors
from loopmt.learn.learner import Learner
from loopmt.learn.objectives import Objective
from loopmt.text.batch import Batch, BatchShape
from loopmt.text.ragged import EOS, PAD
from loopmt.translate.captured_decoder import Replayable, record
from loopmt.translate.networks import NetworkStack

Recorder = Callable[[Callable[[], None]], Replayable]


@dataclass
class _Recorded:
    """A graph and the tensors that it reads, which must stay allocated as long as the graph exists."""

    ids: Tensor  # sources, targets, paths and groups of a batch, concatenated
    numbers: Tensor  # factors and scores
    graph: Replayable


class CapturedLearner(Learner):
    """The same updates as `Learner`, without the cost of launching each kernel."""

    def __init__(
        self,
        translators: NetworkStack,
        train: Train,
        paths: int,
        processes: Processes,
        largest_group: int = 1,
        objectives: Sequence[Objective] = (),
        recorder: Recorder | None = None,
    ) -> None:
        super().__init__(translators, train, paths, processes, largest_group, objectives)
        self.record = recorder or partial(record, pool=torch.cuda.graph_pool_handle())
        self.adding: dict[BatchShape, _Recorded] = {}
        self.applying: Replayable | None = None

    def add(self, batch: Batch) -> None:
        recorded = self.adding.get(batch.shape) or self._record(batch.shape)
        tables = (batch.source_NBL, batch.target_NBL, batch.paths_NB, batch.groups_NB)
        _copy(tables, recorded.ids)
        _copy((batch.factors_NB, batch.scores_NB), recorded.numbers)
        recorded.graph.replay()

    def _record(self, shape: BatchShape) -> _Recorded:
        """Capture with an empty batch, whose gradient is zero."""
        num, device = self.translators.num_networks, self.weights.device
        rows, places = num * shape.rows, num * shape.rows * shape.length
        ids = torch.full((2 * places + 2 * rows,), -1, device=device)
        source, target = ids[: 2 * places].fill_(PAD).view(2, num, shape.rows, shape.length)
        paths, groups = ids[2 * places :].view(2, num, shape.rows)
        numbers = torch.ones(2, num, shape.rows, device=device)
        numbers[1] = 0
        source[..., 0] = EOS
        batch = BatchTensors(source, target, paths, groups, *numbers)
        recorded = _Recorded(ids, numbers.view(-1), self.record(lambda: self.add_tensors(batch)))
        self.adding[shape] = recorded
        return recorded

    def apply(self) -> None:
        if self.applying is None:
            # No tokens are counted yet, so the warm-up runs before the capture change nothing.
            gradient, tokens = self.gradient.clone(), self.tokens.clone()
            self.gradient.zero_()
            self.tokens.zero_()
            ema = self.translators.copies.get("ema")
            kept = ema.clone() if ema is not None else None
            self.applying = self.record(super().apply)
            self.gradient.copy_(gradient)
            self.tokens.copy_(tokens)
            if ema is not None and kept is not None:
                ema.copy_(kept)
        self.applying.replay()


def _copy(tables: Sequence[npt.NDArray[Any]], place: Tensor) -> None:
    """Copy tables to a tensor of the device, concatenated, in one asynchronous transfer."""
    # Torch does not reuse the pinned memory before the copy has finished.
    staged = torch.empty_like(place, device="cpu", pin_memory=place.is_cuda)
    np.concatenate([table.ravel() for table in tables], out=staged.numpy())
    place.copy_(staged, non_blocking=True)
