"""Updates of all networks by Adam.

The loss is the label-smoothed cross-entropy (`model.loss`), changed by the stage's objectives (`objectives`). All
operations work on rows of flat tensors. Gradients are summed over the target tokens of all processes and parts of a
batch, then divided by the number of tokens, so neither accumulation nor the number of processes changes an update. A
network without tokens or with a gradient that is not finite does not change.

Shapes: N networks, P weights, B rows, L length, J paths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from loopmt.config import Train
from loopmt.distributed import Processes
from loopmt.errors import ExhaustedError
from loopmt.learn.forward import BatchTensors, EagerComputation
from loopmt.learn.objectives import BatchLoss, Objective, measures_of, total_loss
from loopmt.model.adam import Adam, AdamStep, adam_step, fused_adam_step
from loopmt.model.backend import precision
from loopmt.model.gradients import AccumulatedGradient, WrittenGradient
from loopmt.model.out_of_memory import ERRORS, is_out_of_memory
from loopmt.model.transformer import Dropout
from loopmt.text.batch import Batch, BatchShape
from loopmt.translate.networks import NetworkStack
from loopmt.translate.protocol import TrainableModel

ALL = slice(None)


@dataclass
class LossTally:
    """Sums since the last log record, by network and path; they stay on the device."""

    loss: Tensor  # (N, J), label-smoothed loss summed over tokens, without factors and terms
    tokens: Tensor  # (N, J)
    norms: Tensor  # (N,), sum of gradient norms
    updates: Tensor  # (N,), updates that were applied
    bad_update: Tensor  # (N,), the first update whose gradient was not finite, or -1
    measured: Tensor  # (M, N, J), sums of the measures of objectives over rows
    measured_rows: Tensor  # (M, N, J)

    @classmethod
    def new(cls, networks: int, paths: int, device: torch.device, measures: int = 0) -> LossTally:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(*shape, dtype=torch.float64 if device.type == "cpu" else torch.float32, device=device)

        bad = torch.full((networks,), -1, dtype=torch.long, device=device)
        measured = zeros(measures, networks, paths), zeros(measures, networks, paths)
        return cls(zeros(networks, paths), zeros(networks, paths), zeros(networks), zeros(networks), bad, *measured)

    @property
    def summed(self) -> dict[str, Tensor]:
        """The tensors in which each process counts its own rows."""
        measured = {"measured": self.measured, "measured_rows": self.measured_rows}
        return {"loss": self.loss, "tokens": self.tokens, **(measured if len(self.measured) else {})}

    def clear(self) -> None:
        for tensor in (self.norms, self.updates, *self.summed.values()):
            tensor.zero_()

    def add(self, found: BatchLoss, paths_NB: Tensor, networks: slice = ALL) -> None:
        """Count the rows of a batch of some of the networks."""
        place = paths_NB.clamp_min(0)  # padding rows have no tokens and no loss
        self.loss[networks].scatter_add_(1, place, found.losses_NB.to(self.loss.dtype))
        self.tokens[networks].scatter_add_(1, place, found.tokens_NB.to(self.tokens.dtype))
        for sums, rows, values in zip(self.measured, self.measured_rows, found.measured, strict=True):
            known = ~values.isnan() & (found.tokens_NB > 0)
            sums[networks].scatter_add_(1, place, values.masked_fill(~known, 0).to(sums.dtype))
            rows[networks].scatter_add_(1, place, known.to(rows.dtype))


class StageLearner(Protocol):
    """The interface of learners for the trainer."""

    train: Train
    largest_group: int  # the most rows of a group
    tally: LossTally
    splitting: BatchSplitter

    @property
    def translators(self) -> TrainableModel:
        """The networks that are trained."""

    def update(self, batch: Batch, number: int, rate: float) -> None:
        """Learn from one batch."""

    def publish(self) -> None:
        """Copy the updated weights to the translators."""

    def tensors(self) -> dict[str, Tensor]:
        """The optimizer state, for a checkpoint."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the state that `tensors` returned."""


class Learner:
    """The optimizer of all networks and its state."""

    def __init__(
        self,
        translators: NetworkStack,
        train: Train,
        paths: int,
        processes: Processes,
        largest_group: int = 1,
        objectives: Sequence[Objective] = (),
    ) -> None:
        self.translators = translators
        self.train = train
        self.processes = processes
        self.weights = self.own_weights()
        self.first = torch.zeros_like(self.weights)
        self.second = torch.zeros_like(self.weights)
        self.steps = torch.zeros(translators.num_networks, device=self.weights.device)
        self.gradient = torch.zeros_like(self.weights)
        self.tokens = torch.zeros(translators.num_networks, device=self.weights.device)
        self.number = torch.zeros((), dtype=torch.long, device=self.weights.device)
        self.rate = torch.zeros((), device=self.weights.device)
        self.largest_group = largest_group
        self.objectives = objectives
        measures = len(measures_of(objectives))
        self.tally = LossTally.new(translators.num_networks, paths, self.weights.device, measures)
        rate = translators.model.dropout if train.dropout is None else train.dropout
        self.dropout = Dropout(rate, translators.model.attention_dropout, translators.model.activation_dropout)
        self.adam = Adam(*train.adam, train.weight_decay)
        self.precision = precision(train, self.weights.device)
        self.splitting = BatchSplitter(train, largest_group)

    def own_weights(self) -> Tensor:
        """The weights that this process updates: here all of them."""
        return self.translators.live

    def publish(self) -> None:
        """Nothing to copy: the translators share the updated weights."""

    # -- one update ------------------------------------------------------------------------------------------

    def update(self, batch: Batch, number: int, rate: float) -> None:
        """Learn from this process's part of a batch, in `accumulate` parts that keep groups together."""
        own = self.processes.rank * self.train.accumulate
        parts = batch.parts(self.processes.size * self.train.accumulate, self.largest_group)
        for part in parts[own : own + self.train.accumulate]:
            self.splitting.add(part, self.add)
        self.reduce()
        self.number.fill_(number)
        self.rate.fill_(rate)
        self.apply()

    def reduce(self) -> None:
        """Sum gradients and token counts over processes; a mean of means would weight tokens unequally."""
        self.processes.all_reduce(self.gradient)
        self.processes.all_reduce(self.tokens)

    def add(self, batch: Batch) -> None:
        """Add the gradient of a batch, summed over its target tokens."""
        self.add_tensors(BatchTensors.of(batch, self.weights.device))

    def add_tensors(self, batch: BatchTensors) -> None:
        weights = self.learning()
        computation = EagerComputation(self.translators.transformer, weights, self.dropout, self.train.label_smoothing)
        found = total_loss(computation, batch, self.objectives)
        weights.backward(found.total)
        self.count(found, batch.paths_NB)

    def learning(self) -> AccumulatedGradient | WrittenGradient:
        """Trainable weights. On a CPU the first part of an update overwrites the gradient, also after a failed try."""
        layout = self.translators.layout
        if self.weights.is_cpu and self.precision == torch.float32 and not self.tokens.any():
            return WrittenGradient(layout, self.weights, self.gradient)
        return AccumulatedGradient(layout, self.weights.to(self.precision), self.gradient)

    def count(self, found: BatchLoss, paths_NB: Tensor) -> None:
        self.tokens += found.tokens_NB.sum(1)
        self.tally.add(found, paths_NB)

    @torch.no_grad()
    def apply(self) -> None:
        """Normalize and clip each network's gradient, and take an Adam step if it is finite."""
        tokens = self.tokens.clamp_min(1)
        norm = self.norm(self.gradient) / tokens
        finite = norm.isfinite()
        good = finite & (self.tokens > 0)
        self.steps += good
        scale = self.train.clip / norm.clamp_min(self.train.clip) / tokens if self.train.clip else 1 / tokens
        step = AdamStep(
            self.weights, self.first, self.second, self.gradient, scale, good, self.steps, self.rate, self.adam
        )
        take = fused_adam_step if self.weights.is_cpu else self.translators.transformer.fuse(adam_step)
        kept = [place.clone() for place in self.frozen()]
        take(step)
        for place, value in zip(self.frozen(), kept, strict=True):  # without gradient, but weight decay applies
            place.copy_(value)
        self.tally.norms += norm.where(good, torch.zeros_like(norm))
        self.tally.updates += good
        first_bad = ~finite & (self.tally.bad_update < 0)
        self.tally.bad_update.copy_(self.number.expand_as(first_bad).where(first_bad, self.tally.bad_update))
        self.follow()
        self.tokens.zero_()

    def frozen(self) -> list[Tensor]:
        """The places of the weights that are not trained."""
        layout = self.translators.layout
        return [layout.unpack(self.weights)[name] for name in sorted(layout.frozen)]

    def norm(self, gradient: Tensor) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(gradient, dim=1)
        return norm

    def follow(self) -> None:
        """Move the averaged weights towards the current ones."""
        self.translators.follow(self.train.ema)

    # -- resume ----------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """The optimizer state, for a checkpoint."""
        kept = {"first": self.first, "second": self.second, "steps": self.steps}
        if "ema" in self.translators.copies:  # not the frozen copy: it is the parent's result, which is on disk
            kept["ema"] = self.translators.copies["ema"]
        return kept

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self.first.copy_(tensors["first"])
        self.second.copy_(tensors["second"])
        self.steps.copy_(tensors["steps"])
        if "ema" in self.translators.copies:
            self.translators.copies["ema"].copy_(tensors["ema"])


class BatchSplitter:
    """Splits batches that do not fit into memory; after one failure, a shape is always split."""

    def __init__(self, train: Train, largest_group: int = 1) -> None:
        self.train = train
        self.largest_group = largest_group
        self.halved: set[BatchShape] = set()

    def add(self, batch: Batch, add: Callable[[Batch], None]) -> None:
        """Add a batch, at once or in halves. `add` must change nothing if it fails."""
        if batch.shape not in self.halved:
            try:
                return add(batch)
            except ERRORS as error:
                if not is_out_of_memory(error) or not self._may_split(batch):
                    raise self._explained(error, batch, "which cannot be split") from None
            self.halved.add(batch.shape)
            torch.manual_seed(torch.initial_seed())  # the same dropout masks after a failed try
        for part in batch.parts(2, self.largest_group):
            try:
                add(part)
            except ERRORS as error:
                raise self._explained(error, batch, "and with half of it") from None
        return None

    def _may_split(self, batch: Batch) -> bool:
        """False if the network is sharded, as processes compute in step, or if splitting would divide a group."""
        return not self.train.shard and batch.parts(2, self.largest_group)[0].shape.rows < batch.shape.rows

    def _explained(self, error: Exception, batch: Batch, tried: str) -> Exception:
        if not is_out_of_memory(error):
            return error
        train, shape = self.train, batch.shape
        parts, tokens = 4 * train.accumulate, max(8, train.tokens // 4)
        return ExhaustedError(
            f"out of memory with a batch of {shape.rows} rows of {shape.length} tokens, {tried}. "
            f"Set train.accumulate = {parts} (the same updates in smaller parts; the run resumes from its "
            f"last checkpoint), or set train.tokens = {tokens} and rename the stage."
        )
