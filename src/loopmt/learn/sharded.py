"""One large shared network sharded over processes (FSDP2), with its gradient and moments.

The layers are torch modules around the transformer's functions, so that `fully_shard` gathers the weights of a layer
when it is computed and scatters its gradient afterwards. The rest of an update is that of `Learner`, on this process's
shard. Decoding and scoring use full weights, which are gathered after every round.

Checkpoints hold full tensors in the common format, so a run may resume with another number of processes, or unsharded.
torch.distributed.checkpoint would write a shard per process, but stores their metadata in a pickle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard

from loopmt.config import Train
from loopmt.distributed import Processes
from loopmt.learn.forward import BatchTensors
from loopmt.learn.learner import Learner
from loopmt.learn.objectives import Objective, total_loss
from loopmt.model.backend import precision
from loopmt.model.transformer import NO_DROPOUT, Dropout, Transformer, source_mask
from loopmt.model.weights import Weights
from loopmt.translate.networks import NetworkStack
from loopmt.translate.protocol import Computation
from loopmt.translate.scoring import drawn_labels, shifted


class ShardedPart(nn.Module):
    """Weights that are gathered together, with the function that uses them."""

    def __init__(self, weights: Mapping[str, Tensor], compute: Callable[..., Any]) -> None:
        super().__init__()
        self.compute = compute
        self.names = list(weights)
        for name, weight in weights.items():
            self.register_parameter(_key(name), nn.Parameter(weight[0].detach().clone()))

    @property
    def weights(self) -> Weights:
        """The weights with the leading dimension of a stack of one network."""
        return Weights((name, self.get_parameter(_key(name))[None]) for name in self.names)

    def forward(self, *inputs: Any) -> Any:
        return self.compute(self.weights, *inputs)


def _key(name: str) -> str:
    return name.replace(".", "/")  # names of parameters cannot contain dots


class ShardedNetwork(ShardedPart):
    """The transformer as a module of layers; it owns the weights outside of layers."""

    def __init__(self, transformer: Transformer, weights: Mapping[str, Tensor]) -> None:
        layers = [f"encoder.{number}." for number in range(transformer.model.layers)]
        layers += [f"decoder.{number}." for number in range(transformer.model.num_decoder_layers)]
        own = {name: weight for name, weight in weights.items() if not name.startswith(tuple(layers))}
        super().__init__(own, self._run)
        self.transformer = transformer
        self.layers = nn.ModuleDict(
            {_key(prefix): ShardedPart(_starting_with(prefix, weights), self._layer(prefix)) for prefix in layers}
        )

    def _layer(self, prefix: str) -> Callable[..., Tensor]:
        name, transformer = prefix.rstrip("."), self.transformer

        def encode(weights: Weights, x: Tensor, mask: Tensor, dropout: Dropout) -> Tensor:
            return transformer.encoder_layer(weights.layers[name], x, mask, dropout)

        def decode(weights: Weights, x: Tensor, states: Tensor, mask: Tensor, dropout: Dropout) -> Tensor:
            keys, values = transformer.memory_layer(weights.layers[name], states)
            return transformer.decoder_layer(weights.layers[name], x, keys, values, mask, dropout)

        return encode if name.startswith("encoder") else decode

    def _run(self, weights: Weights, work: Callable[[Computation], Any], smoothing: float, dropout: Dropout) -> Any:
        """Run `work` while the weights outside of layers are gathered."""
        return work(ShardedComputation(self, weights, smoothing, dropout))

    def states(self, weights: Weights, source: Tensor, target: Tensor, dropout: Dropout) -> Tensor:
        mask, transformer = source_mask(source), self.transformer
        states = transformer.embed(weights, "source_embed", source, 0, dropout)
        for layer in self._side("encoder"):
            states = layer(states, mask, dropout)
        states = transformer.final(weights, "encoder", states)
        x = transformer.embed(weights, "target_embed", shifted(target, transformer.conventions.start), 0, dropout)
        for layer in self._side("decoder"):
            x = layer(x, states, mask, dropout)
        return transformer.final(weights, "decoder", x)

    def _side(self, side: str) -> Iterator[nn.Module]:
        return (layer for prefix, layer in self.layers.items() if prefix.startswith(side))

    def sharded(self, mesh: DeviceMesh, dtype: torch.dtype) -> ShardedNetwork:
        policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
        for layer in self.layers.values():
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(self, mesh=mesh, mp_policy=policy)
        return self

    def by_name(self) -> dict[str, DTensor]:
        """Every sharded weight by its name in the layout."""
        parts = [self, *self.layers.values()]
        return {
            name: cast(DTensor, part.get_parameter(_key(name)))
            for part in parts
            if isinstance(part, ShardedPart)
            for name in part.names
        }


@dataclass(frozen=True)
class ShardedComputation:
    """The computation of a sharded network during its forward pass."""

    network: ShardedNetwork
    weights: Weights
    label_smoothing: float
    dropout: Dropout

    def states(self, source_NBL: Tensor, target_NBL: Tensor) -> Tensor:
        return self.network.states(self.weights, source_NBL, target_NBL, self.dropout)

    def losses(self, states_NBTD: Tensor, target_NBL: Tensor) -> Tensor:
        return self.network.transformer.losses(self.weights, states_NBTD, target_NBL, self.label_smoothing)

    def logits(self, states_NBTD: Tensor) -> Tensor:
        return self.network.transformer.logits(self.weights, states_NBTD)

    def without_dropout(self) -> ShardedComputation:
        return self if self.dropout == NO_DROPOUT else replace(self, dropout=NO_DROPOUT)

    def drawn_labels(self, target_NBL: Tensor) -> Tensor:
        return drawn_labels(target_NBL, self.network.transformer.conventions)


def _starting_with(prefix: str, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: weight for name, weight in weights.items() if name.startswith(prefix)}


class ShardedLearner(Learner):
    """The same updates as `Learner`; the tensors are this process's shards, concatenated in one row."""

    def __init__(
        self,
        translators: NetworkStack,
        train: Train,
        paths: int,
        processes: Processes,
        largest_group: int = 1,
        objectives: Sequence[Objective] = (),
    ) -> None:
        self.mesh = init_device_mesh(translators.device.type, (processes.size,))
        network = ShardedNetwork(translators.transformer, translators.layout.unpack(translators.live))
        self.network = network.sharded(self.mesh, precision(train, translators.device))
        self.parameters = [self.network.by_name()[name] for name in translators.layout.shapes]
        super().__init__(translators, train, paths, processes, largest_group, objectives)
        self.average = self.weights.clone() if "ema" in translators.copies else None

    def own_weights(self) -> Tensor:
        return torch.cat([parameter.to_local().detach().flatten() for parameter in self.parameters])[None]

    # -- one update ------------------------------------------------------------------------------------------

    def add_tensors(self, batch: BatchTensors) -> None:
        work = partial(total_loss, batch=batch, objectives=self.objectives)
        found = self.network(work, self.train.label_smoothing, self.dropout)
        # FSDP averages over processes; the update needs the sum.
        torch.autograd.backward(found.total * self.processes.size)
        frozen = self.translators.layout.frozen
        for name, parameter in zip(self.translators.layout.shapes, self.parameters, strict=True):
            if name in frozen:
                cast(DTensor, parameter.grad).zero_()
        gradients = [cast(DTensor, parameter.grad).to_local().flatten() for parameter in self.parameters]
        self.gradient += torch.cat(gradients)[None]
        for parameter in self.parameters:
            parameter.grad = None
        self.count(found, batch.paths_NB)

    def reduce(self) -> None:
        self.processes.all_reduce(self.tokens)

    def apply(self) -> None:
        super().apply()
        self._put_back()

    @torch.no_grad()
    def _put_back(self) -> None:
        for parameter, part in zip(self.parameters, self._parts(self.weights), strict=True):
            parameter.to_local().copy_(part)

    def frozen(self) -> list[Tensor]:
        layout = self.translators.layout
        named = zip(layout.shapes, self._parts(self.weights), strict=True)
        return [part for name, part in named if name in layout.frozen]

    def norm(self, gradient: Tensor) -> Tensor:
        return self.processes.all_reduce(super().norm(gradient).square()).sqrt()

    @torch.no_grad()
    def follow(self) -> None:
        if self.average is not None:
            self.average.lerp_(self.weights, 1 - self.train.ema)

    # -- shards and full rows --------------------------------------------------------------------------------

    def _parts(self, row_1P: Tensor) -> Iterator[Tensor]:
        """Views of this process's shard of every weight."""
        locals_ = [parameter.to_local() for parameter in self.parameters]
        sizes = [local.numel() for local in locals_]
        for part, local in zip(torch.split(row_1P[0], sizes), locals_, strict=True):
            yield part.view(local.shape)

    @torch.no_grad()
    def _gather(self, row_1P: Tensor, full_1P: Tensor) -> Tensor:
        """Fill a full row of the layout from the shards of all processes."""
        views = self.translators.layout.unpack(full_1P)
        for name, parameter, part in zip(views, self.parameters, self._parts(row_1P), strict=True):
            spread = DTensor.from_local(
                part, self.mesh, [Shard(0)], run_check=False, shape=parameter.shape, stride=parameter.stride()
            )
            views[name][0].copy_(spread.full_tensor())
        return full_1P

    @torch.no_grad()
    def _scatter(self, full_1P: Tensor, row_1P: Tensor) -> None:
        """Copy this process's shards from a full row."""
        views = self.translators.layout.unpack(full_1P)
        for view, part in zip(views.values(), self._parts(row_1P), strict=True):
            chunks = view[0].chunk(self.processes.size)
            if self.processes.rank < len(chunks):
                part.copy_(chunks[self.processes.rank])

    def publish(self) -> None:
        self._gather(self.weights, self.translators.live)
        if self.average is not None:
            self._gather(self.average, self.translators.copies["ema"])

    # -- resume ----------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        whole = {"first": self.first, "second": self.second}
        kept = {name: self._gather(part, torch.zeros(self.translators.live.shape)) for name, part in whole.items()}
        if "ema" in self.translators.copies:
            kept["ema"] = self.translators.copies["ema"]
        return {**kept, "steps": self.steps}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self._scatter(self.translators.live, self.weights)
        self._put_back()
        self._scatter(tensors["first"], self.first)
        self._scatter(tensors["second"], self.second)
        self.steps.copy_(tensors["steps"])
        if self.average is not None:
            self.translators.copies["ema"].copy_(tensors["ema"])
            self._scatter(self.translators.copies["ema"], self.average)
