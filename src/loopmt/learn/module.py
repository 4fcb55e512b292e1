"""Updates of torch modules, such as pretrained checkpoints, by torch's AdamW.

The rules are those of `learner`: gradients are sums over the target tokens of all processes and parts of a batch,
divided by the number of tokens; each network is clipped separately; a network without tokens or with a gradient that is
not finite does not change. Networks are computed one after another.

Shapes: N networks, B rows, L length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from loopmt.config import Train
from loopmt.distributed import Processes
from loopmt.learn.forward import BatchTensors
from loopmt.learn.learner import BatchSplitter, LossTally
from loopmt.learn.objectives import Objective, measures_of, total_loss
from loopmt.rng import keyed_seed
from loopmt.text.batch import Batch
from loopmt.text.ragged import PAD, Ints
from loopmt.translate.torch_stack import TorchStack

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


class ModuleLearner:
    """The optimizers of a stage's modules."""

    def __init__(
        self,
        translators: TorchStack,
        train: Train,
        paths: int,
        processes: Processes,
        largest_group: int = 1,
        objectives: Sequence[Objective] = (),
    ) -> None:
        self.translators = translators
        self.train = train
        self.processes = processes
        self.largest_group = largest_group
        self.objectives = objectives
        self.device = translators.device
        self.places = [list(tensors.values()) for tensors in translators.trainable.values()]
        self.gradients = [[torch.zeros_like(place) for place in places] for places in self.places]
        self.tokens = torch.zeros(translators.num_networks, device=self.device)
        self.tally = LossTally.new(translators.num_networks, paths, self.device, len(measures_of(objectives)))
        self.splitting = BatchSplitter(train, largest_group)
        self.adams = [
            torch.optim.AdamW(places, betas=train.adam[:2], eps=train.adam[2], weight_decay=train.weight_decay)
            for places in self.places
        ]

    def publish(self) -> None:
        """Nothing to copy: the translators share the updated weights."""

    # -- one update ------------------------------------------------------------------------------------------

    def update(self, batch: Batch, number: int, rate: float) -> None:
        """Learn from this process's part of a batch, in `accumulate` parts that keep groups together."""
        parts = batch.parts(self.processes.size * self.train.accumulate, self.largest_group)
        own, seed = self.processes.rank * self.train.accumulate, torch.initial_seed()
        for number_of_part, part in enumerate(parts[own : own + self.train.accumulate]):
            for network in range(len(self.places)):
                torch.manual_seed(keyed_seed(seed, number_of_part, network))  # independent of earlier splits
                self.splitting.add(_of_network(part, network), partial(self._add, network))
        self.reduce()
        for network in range(len(self.places)):
            self._apply(network, number, rate)
        self.translators.follow(self.train.ema)
        self.tokens.zero_()

    def _add(self, network: int, batch: Batch) -> None:
        """Add the gradient of a batch, summed over its target tokens; nothing changes if it fails."""
        if not batch.target_tokens.any():
            return
        tensors = BatchTensors.of(_trimmed(batch), self.device)
        name = self.translators.names()[network]
        computation = self.translators.computation(name, self.train.label_smoothing)
        found = total_loss(computation, tensors, self.objectives)
        gradients = torch.autograd.grad(found.total, self.places[network], allow_unused=True)
        for gradient, own in zip(self.gradients[network], gradients, strict=True):
            if own is not None:
                gradient += own
        self.tokens[network] += found.tokens_NB.sum()
        self.tally.add(found, tensors.paths_NB, slice(network, network + 1))

    def reduce(self) -> None:
        """Sum gradients and token counts over processes; a mean of means would weight tokens unequally."""
        for gradients in self.gradients:
            for gradient in gradients:
                self.processes.all_reduce(gradient)
        self.processes.all_reduce(self.tokens)

    @torch.no_grad()
    def _apply(self, network: int, number: int, rate: float) -> None:
        gradients, tokens = self.gradients[network], self.tokens[network]
        for gradient in gradients:
            gradient /= tokens.clamp_min(1)
        norm = torch.nn.utils.get_total_norm(gradients)
        if not norm.isfinite():
            if self.tally.bad_update[network] < 0:
                self.tally.bad_update[network] = number
        elif tokens > 0:
            self._step(network, rate, norm)
        for gradient in gradients:
            gradient.zero_()

    def _step(self, network: int, rate: float, norm: Tensor) -> None:
        places, gradients = self.places[network], self.gradients[network]
        for place, gradient in zip(places, gradients, strict=True):
            place.grad = gradient
        if self.train.clip:
            torch.nn.utils.clip_grads_with_norm_(places, self.train.clip, norm)
        self.adams[network].param_groups[0]["lr"] = rate
        self.adams[network].step()
        self.adams[network].zero_grad()
        self.tally.norms[network] += norm
        self.tally.updates[network] += 1

    # -- resume ----------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """The optimizer state, for a checkpoint: moments as `network/tensor.moment`, and averaged weights."""
        kept = {
            f"{name}.{moment}": state[moment] for name, state in self._states().items() for moment in _MOMENTS if state
        }
        averaged = self.translators.copies.get("ema", {})
        return kept | {f"{name}.ema": tensor for name, tensor in averaged.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        for name, state in self._states().items():
            found = {moment: tensors.get(f"{name}.{moment}") for moment in _MOMENTS}
            state.clear()
            state.update({moment: self._placed(moment, one) for moment, one in found.items() if one is not None})
        for name, tensor in self.translators.copies.get("ema", {}).items():
            tensor.copy_(tensors[f"{name}.ema"])

    def _states(self) -> dict[str, dict[str, Tensor]]:
        """The optimizer state of each tensor; empty before its first update."""
        places = [place for places in self.places for place in places]
        adams = [adam for adam, places in zip(self.adams, self.places, strict=True) for _ in places]
        names = self.translators.places()
        return {name: adam.state[place] for name, place, adam in zip(names, places, adams, strict=True)}

    def _placed(self, moment: str, tensor: Tensor) -> Tensor:
        """Move a moment to the device; AdamW keeps step counts on the CPU."""
        return tensor.clone() if moment == "step" else tensor.to(self.device, copy=True)


def _of_network(batch: Batch, network: int) -> Batch:
    cut = slice(network, network + 1)
    return Batch(
        batch.shape,
        batch.source_NBL[cut],
        batch.target_NBL[cut],
        batch.paths_NB[cut],
        batch.groups_NB[cut],
        batch.factors_NB[cut],
        batch.scores_NB[cut],
    )


def _trimmed(batch: Batch) -> Batch:
    """Remove columns that are padding in all rows, and padding rows at the end."""
    rows = int((batch.paths_NB[0] >= 0).nonzero()[0][-1]) + 1
    source, target = (_narrow(table[:, :rows]) for table in (batch.source_NBL, batch.target_NBL))
    numbers = (batch.paths_NB, batch.groups_NB, batch.factors_NB, batch.scores_NB)
    return Batch(batch.shape, source, target, *(table[:, :rows] for table in numbers))  # type: ignore[arg-type]


def _narrow(table_NBL: Ints) -> Ints:
    """Remove columns that are padding in all rows."""
    return table_NBL[:, :, : int((table_NBL != PAD).any((0, 1)).nonzero()[0][-1]) + 1]
