"""The base of trainable models that are torch modules: their weights by name, copies of them, and rows of text.

A subclass translates, scores and computes the losses of training. The learner `modules` trains it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from loopmt.config import Generate
from loopmt.errors import PathError
from loopmt.path import Hop
from loopmt.text.ragged import Ints, Ragged
from loopmt.text.store import Store
from loopmt.text.vocab import Vocab
from loopmt.translate.networks import tagged
from loopmt.translate.protocol import By, Computation, DecodeLimits, Floats, HopInput, Key, Sentences, Translations


@dataclass
class TorchStack(ABC):
    """One network for all directions, named "all", or one for each direction, named after it."""

    vocab: Vocab
    hops: tuple[Hop, ...]
    device: torch.device
    copies: dict[By, dict[str, Tensor]] = field(default_factory=dict, kw_only=True)
    learner: ClassVar[str] = "modules"

    # -- implemented by subclasses ---------------------------------------------------------------------------

    @property
    @abstractmethod
    def trainable(self) -> Mapping[str, Mapping[str, Tensor]]:
        """The trainable tensors of each network, by name."""

    @abstractmethod
    def computation(self, network: str, label_smoothing: float) -> Computation:
        """The training losses of a network, for batches of one network (N = 1)."""

    @abstractmethod
    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]: ...

    @abstractmethod
    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]: ...

    def start_fresh(self, seed: int) -> None:  # noqa: B027
        """Nothing to do: modules are made with their weights."""

    def activation_bytes(self) -> float:
        """Not known."""
        return 0.0

    # -- which network ---------------------------------------------------------------------------------------

    @property
    def shared(self) -> bool:
        return "all" in self.trainable

    @property
    def num_networks(self) -> int:
        return len(self.trainable)

    def names(self) -> list[str]:
        return list(self.trainable)

    def network(self, hop: Hop) -> int:
        return self.names().index(self.name(hop))

    def name(self, hop: Hop) -> str:
        """The name of the network that serves a direction."""
        name = "all" if self.shared else str(hop)
        if hop not in self.hops or name not in self.trainable:
            raise PathError(f"there is no translator {hop}. The translators are {', '.join(map(str, self.hops))}.")
        return name

    # -- weights ---------------------------------------------------------------------------------------------

    def places(self) -> dict[str, Tensor]:
        """Every trainable tensor under the name `network/tensor`."""
        return {f"{name}/{key}": tensor for name, own in self.trainable.items() for key, tensor in own.items()}

    def named(self) -> dict[str, Tensor]:
        return {name: tensor.detach() for name, tensor in self.places().items()}

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor], strict: bool = True) -> list[str]:
        places = self.named()
        missing = sorted({key.partition("/")[0] for key in places if key not in tensors})
        if strict and missing:
            raise PathError(f"the checkpoint has no weights for {', '.join(missing)}.")
        for key, place in places.items():
            if key in tensors:
                place.copy_(tensors[key])
        return missing

    def copy(self, by: By) -> None:
        self.copies[by] = {name: tensor.clone() for name, tensor in self.named().items()}

    @torch.no_grad()
    def follow(self, decay: float) -> None:
        """Move the averaged copy, if there is one, towards the live weights."""
        for name, tensor in self.named().items() if "ema" in self.copies else ():
            self.copies["ema"][name].lerp_(tensor, 1 - decay)

    @contextmanager
    def using(self, by: By) -> Iterator[None]:
        """A context that computes with a copy of the weights, or with the live ones."""
        places = self.places()
        live = {name: place.data for name, place in places.items()}
        try:
            for name, tensor in (live if by == "live" else self.copies[by]).items():
                places[name].data = tensor
            yield
        finally:
            for name, tensor in live.items():
                places[name].data = tensor

    def parameter_counts(self) -> tuple[int, int]:
        count = sum(place.numel() for place in self.places().values())
        return count, count

    # -- rows ------------------------------------------------------------------------------------------------

    @property
    def own_tokens(self) -> bool:
        return False

    def source_rows(self, sources: Sentences, hop: Hop, synthetic: bool = False) -> Ragged:
        return tagged(self.vocab, self.shared, sources.ids, hop, synthetic)

    def target_rows(self, targets: Sentences, hop: Hop) -> Ragged:
        return targets.ids

    def longer_sides(self, store: Store, start: str, end: str, most: int) -> Ints:
        return store.longer_sides(start, end, most)
