"""Learning on CUDA: the work of an update is the replay of captured graphs.

One graph for each batch shape adds a gradient; one more takes the optimizer's step. They hold every network of the
stack, so a change of the mix records nothing anew, and nothing in an update waits for the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from loopmt.config import Train
from loopmt.distributed import Processes
from loopmt.learn.learner import Learner
from loopmt.text.batch import Batch, BatchShape
from loopmt.text.ragged import EOS, PAD
from loopmt.translate.captured_decoder import record
from loopmt.translate.networks import NetworkStack


@dataclass
class _Recorded:
    """A graph and the tensor it reads, which must live as long as it does: all tables of a batch, one after another."""

    inputs: Tensor
    graph: torch.cuda.CUDAGraph


class CapturedLearner(Learner):
    """The same updates, without the cost of launching them kernel by kernel."""

    def __init__(
        self, translators: NetworkStack, train: Train, paths: int, processes: Processes, unit: int = 1
    ) -> None:
        super().__init__(translators, train, paths, processes, unit)
        self.pool = torch.cuda.graph_pool_handle()
        self.adding: dict[BatchShape, _Recorded] = {}
        self.applying: torch.cuda.CUDAGraph | None = None

    def add(self, batch: Batch) -> None:
        recorded = self.adding.get(batch.shape) or self._record(batch.shape)
        tables = (batch.source_NBL, batch.target_NBL, batch.paths_NB, batch.groups_NB)
        # Torch keeps the pinned memory of a copy under way from being given out again, so nothing has to wait.
        staged = torch.empty_like(recorded.inputs, device="cpu", pin_memory=True)
        np.concatenate([table.ravel() for table in tables], out=staged.numpy())
        recorded.inputs.copy_(staged, non_blocking=True)
        recorded.graph.replay()

    def _record(self, shape: BatchShape) -> _Recorded:
        """Recorded on a batch of nothing, which adds nothing."""
        num, device = self.translators.num_networks, self.weights.device
        rows, places = num * shape.rows, num * shape.rows * shape.length
        inputs = torch.full((2 * places + 2 * rows,), -1, device=device)
        source, target = inputs[: 2 * places].fill_(PAD).view(2, num, shape.rows, shape.length)
        paths, groups = inputs[2 * places :].view(2, num, shape.rows)
        source[..., 0] = EOS
        recorded = _Recorded(inputs, record(lambda: self.add_tensors(source, target, paths, groups), self.pool))
        self.adding[shape] = recorded
        return recorded

    def apply(self) -> None:
        if self.applying is None:
            # Recorded with no tokens counted, so that the runs before the capture leave everything as it is.
            gradient, tokens = self.gradient.clone(), self.tokens.clone()
            self.gradient.zero_()
            self.tokens.zero_()
            ema = self.translators.copies.get("ema")
            kept = ema.clone() if ema is not None else None
            self.applying = record(super().apply, self.pool)
            self.gradient.copy_(gradient)
            self.tokens.copy_(tokens)
            if ema is not None and kept is not None:
                ema.copy_(kept)
        self.applying.replay()
