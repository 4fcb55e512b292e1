"""Rows to better weights: one update of every network.

What is minimised is the label-smoothed loss (`model.loss`) and what a stage's objectives make of it (`objectives`).
Everything is an operation on rows of flat tensors. Gradients are sums over target tokens, of all processes and all
parts of a batch, divided by the number of tokens at the end: so neither accumulation nor the number of processes
changes an update. A network whose gradient is not finite, or that had no token, is left exactly as it was.

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
from loopmt.learn.objectives import Objective, total_loss
from loopmt.model.adam import Adam, AdamStep, adam_step, fused_adam_step
from loopmt.model.backend import precision
from loopmt.model.gradients import AccumulatedGradient, WrittenGradient
from loopmt.model.out_of_memory import ERRORS, is_out_of_memory
from loopmt.model.transformer import Dropout
from loopmt.text.batch import Batch, BatchShape
from loopmt.translate.networks import NetworkStack
from loopmt.translate.protocol import TrainableModel


@dataclass
class LossTally:
    """What happened since the last log, kept on the device: sums by network and path."""

    loss: Tensor  # (N, J), label-smoothed loss summed over tokens, without factors and terms
    tokens: Tensor  # (N, J)
    norms: Tensor  # (N,), sum of gradient norms
    updates: Tensor  # (N,), updates that were applied
    bad_update: Tensor  # (N,), the first update whose gradient was not finite, or -1

    @classmethod
    def new(cls, networks: int, paths: int, device: torch.device) -> LossTally:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(*shape, dtype=torch.float64 if device.type == "cpu" else torch.float32, device=device)

        bad = torch.full((networks,), -1, dtype=torch.long, device=device)
        return cls(zeros(networks, paths), zeros(networks, paths), zeros(networks), zeros(networks), bad)

    def clear(self) -> None:
        for tensor in (self.loss, self.tokens, self.norms, self.updates):
            tensor.zero_()


class StageLearner(Protocol):
    """What the trainer asks of a learner, whatever its networks are."""

    train: Train
    largest_group: int  # rows of a group, at most
    tally: LossTally
    splitting: BatchSplitter

    @property
    def translators(self) -> TrainableModel:
        """The networks that it trains."""

    def update(self, batch: Batch, number: int, rate: float) -> None:
        """Learn from one batch."""

    def publish(self) -> None:
        """Make the updated weights the translators'."""

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint needs beside the weights."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take up what `tensors` gave."""


class Learner:
    """The optimizer of all networks, and what it needs to resume."""

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
        self.tally = LossTally.new(translators.num_networks, paths, self.weights.device)
        rate = translators.model.dropout if train.dropout is None else train.dropout
        self.dropout = Dropout(rate, translators.model.attention_dropout, translators.model.activation_dropout)
        self.adam = Adam(*train.adam, train.weight_decay)
        self.precision = precision(train, self.weights.device)
        self.splitting = BatchSplitter(train, largest_group)

    def own_weights(self) -> Tensor:
        """The weights that this process updates: all of them."""
        return self.translators.live

    def publish(self) -> None:
        """Make the updated weights the translators'; here they are."""

    # -- one update ------------------------------------------------------------------------------------------

    def update(self, batch: Batch, number: int, rate: float) -> None:
        """Learn from one batch: this process's part of it, in `accumulate` parts, none of which cuts a group."""
        own = self.processes.rank * self.train.accumulate
        parts = batch.parts(self.processes.size * self.train.accumulate, self.largest_group)
        for part in parts[own : own + self.train.accumulate]:
            self.splitting.add(part, self.add)
        self.reduce()
        self.number.fill_(number)
        self.rate.fill_(rate)
        self.apply()

    def reduce(self) -> None:
        """Sum gradients and token counts over processes: a mean of means would weigh tokens unequally."""
        self.processes.all_reduce(self.gradient)
        self.processes.all_reduce(self.tokens)

    def add(self, batch: Batch) -> None:
        """Add the gradient of a batch, summed over its target tokens."""
        self.add_tensors(BatchTensors.of(batch, self.weights.device))

    def add_tensors(self, batch: BatchTensors) -> None:
        weights = self.learning()
        computation = EagerComputation(self.translators.transformer, weights, self.dropout, self.train.label_smoothing)
        loss, losses_NB, tokens_NB = total_loss(computation, batch, self.objectives)
        weights.backward(loss)
        self.count(losses_NB, tokens_NB, batch.paths_NB)

    def learning(self) -> AccumulatedGradient | WrittenGradient:
        """On a CPU the first part of an update writes its gradient, also over that of an attempt that failed."""
        layout = self.translators.layout
        if self.weights.is_cpu and self.precision == torch.float32 and not self.tokens.any():
            return WrittenGradient(layout, self.weights, self.gradient)
        return AccumulatedGradient(layout, self.weights.to(self.precision), self.gradient)

    def count(self, losses_NB: Tensor, tokens_NB: Tensor, paths: Tensor) -> None:
        self.tokens += tokens_NB.sum(1)
        place = paths.clamp_min(0)  # rows that are none have no tokens and no loss
        self.tally.loss.scatter_add_(1, place, losses_NB.to(self.tally.loss.dtype))
        self.tally.tokens.scatter_add_(1, place, tokens_NB.to(self.tally.tokens.dtype))

    @torch.no_grad()
    def apply(self) -> None:
        """Normalise, clip each network by itself, and take an Adam step where all is finite."""
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
        take(step)
        self.tally.norms += norm.where(good, torch.zeros_like(norm))
        self.tally.updates += good
        first_bad = ~finite & (self.tally.bad_update < 0)
        self.tally.bad_update.copy_(self.number.expand_as(first_bad).where(first_bad, self.tally.bad_update))
        self.follow()
        self.tokens.zero_()

    def norm(self, gradient: Tensor) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(gradient, dim=1)
        return norm

    def follow(self) -> None:
        """Move the averaged weights towards those of now."""
        self.translators.follow(self.train.ema)

    # -- resume ----------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint needs beside the weights."""
        kept = {"first": self.first, "second": self.second, "steps": self.steps}
        if "ema" in self.translators.copies:  # the frozen copy is the parent's result and stays there
            kept["ema"] = self.translators.copies["ema"]
        return kept

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self.first.copy_(tensors["first"])
        self.second.copy_(tensors["second"])
        self.steps.copy_(tensors["steps"])
        if "ema" in self.translators.copies:
            self.translators.copies["ema"].copy_(tensors["ema"])


class BatchSplitter:
    """Remembers which shapes did not fit, so that they are tried once and no more."""

    def __init__(self, train: Train, largest_group: int = 1) -> None:
        self.train = train
        self.largest_group = largest_group
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
        for part in batch.parts(2, self.largest_group):
            try:
                add(part)
            except ERRORS as error:
                raise self._explained(error, batch, "and on half of it") from None
        return None

    def _may_split(self, batch: Batch) -> bool:
        """A sharded network is computed by all processes in step; rows of a group stay together."""
        return not self.train.shard and batch.parts(2, self.largest_group)[0].shape.rows < batch.shape.rows

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
