"""The forward pass of an update, for the loss and for objectives.

Learners compute it differently: eagerly, in captured graphs, or sharded over processes. An objective gets only a
`ForwardPass`, which has the same interface for all of them.

Shapes: N networks, B rows, L length, T target length, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from loopmt.model.transformer import NO_DROPOUT, Dropout, Transformer
from loopmt.model.weights import Weights
from loopmt.text.batch import Batch
from loopmt.text.ragged import PAD
from loopmt.translate.protocol import Computation, RewardedComputation
from loopmt.translate.scoring import decoder_states, drawn_labels


@dataclass(frozen=True)
class BatchTensors:
    """The tensors of a batch; `text.batch.Batch` describes the tables."""

    source_NBL: Tensor
    target_NBL: Tensor
    paths_NB: Tensor
    groups_NB: Tensor
    factors_NB: Tensor
    scores_NB: Tensor

    @classmethod
    def of(cls, batch: Batch, device: torch.device) -> BatchTensors:
        numbers = (batch.paths_NB, batch.groups_NB, batch.factors_NB, batch.scores_NB)
        tables = (batch.source_NBL, batch.target_NBL, *numbers)
        return cls(*(torch.from_numpy(table).to(device) for table in tables))

    def __iter__(self) -> Iterator[Tensor]:
        numbers = (self.paths_NB, self.groups_NB, self.factors_NB, self.scores_NB)
        return iter((self.source_NBL, self.target_NBL, *numbers))


@dataclass(frozen=True)
class EagerComputation:
    """The computation with all weights in this process."""

    transformer: Transformer
    weights: Weights
    dropout: Dropout
    label_smoothing: float

    def states(self, source_NBL: Tensor, target_NBL: Tensor) -> Tensor:
        return decoder_states(self.weights, self.transformer, source_NBL, target_NBL, self.dropout)

    def losses(self, states_NBTD: Tensor, target_NBL: Tensor) -> Tensor:
        return self.transformer.losses(self.weights, states_NBTD, target_NBL, self.label_smoothing)

    def logits(self, states_NBTD: Tensor) -> Tensor:
        return self.transformer.logits(self.weights, states_NBTD)

    def without_dropout(self) -> EagerComputation:
        return self if self.dropout == NO_DROPOUT else replace(self, dropout=NO_DROPOUT)

    def drawn_labels(self, target_NBL: Tensor) -> Tensor:
        return drawn_labels(target_NBL, self.transformer.conventions)


@dataclass(frozen=True)
class ForwardPass:
    """A differentiable pass over a batch."""

    computation: Computation
    batch: BatchTensors
    states_NBTD: Tensor
    losses_NB: Tensor  # label-smoothed, summed over the tokens of each row; 0 for padding rows
    tokens_NB: Tensor  # target tokens of each row, including EOS
    real_NBT: Tensor  # False at padding

    @classmethod
    def over(cls, computation: Computation, batch: BatchTensors) -> ForwardPass:
        states = computation.states(batch.source_NBL, batch.target_NBL)
        losses = computation.losses(states, batch.target_NBL).sum(-1)
        real = batch.target_NBL != PAD
        return cls(computation, batch, states, losses, real.sum(-1), real)

    def again(self) -> ForwardPass:
        """Another pass over the same batch, with other dropout masks."""
        return ForwardPass.over(self.computation, self.batch)

    def steady(self) -> ForwardPass:
        """A pass over the same batch without dropout; this pass, if it has no dropout."""
        computation = rewarded(self.computation)
        steady = computation.without_dropout()
        return self if steady is computation else ForwardPass.over(steady, self.batch)

    def logits(self) -> Tensor:
        """Logits of the vocabulary at every target position (N, B, T, V), in float32."""
        return self.computation.logits(self.states_NBTD).float()

    def drawn_labels(self) -> Tensor:
        """The index of each target in the logits (N, B, T); negative where nothing is drawn."""
        return rewarded(self.computation).drawn_labels(self.batch.target_NBL)

    def log_probs(self) -> Tensor:
        """Log-probabilities of the vocabulary at every target position (N, B, T, V), in float32.

        Each call computes them anew. Mask the positions where `real_NBT` is False.
        """
        return self.logits().log_softmax(-1)


def rewarded(computation: Computation) -> RewardedComputation:
    """Cast a computation that is known to support rewards."""
    assert isinstance(computation, RewardedComputation), f"{type(computation).__name__} does not learn from rewards"
    return computation
