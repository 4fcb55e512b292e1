"""Pretrained checkpoints as the networks of a stage: translation of text, and trainable tensors by name.

One checkpoint serves all directions, or each direction has one. They exchange text, as each has its own tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from loopmt.config import Generate
from loopmt.errors import PathError, RunError
from loopmt.model.out_of_memory import in_halves
from loopmt.path import Hop
from loopmt.pretrained.lora import merged
from loopmt.pretrained.network import PretrainedNetwork, lengths_of
from loopmt.rng import keyed_seed
from loopmt.text.ragged import Ints, Ragged
from loopmt.text.store import Store
from loopmt.text.vocab import Vocab
from loopmt.translate.decoder import batches
from loopmt.translate.protocol import By, DecodeLimits, Floats, HopInput, Key, Sentences, Translations, own_weights

UNMODIFIED = "checkpoint/digest"
"""The only tensor of the stage `pretrained`: the digest of the checkpoint."""
_SCORED = DecodeLimits(batch_tokens=4096, batch_rows=64)
_MEASURED = 2000  # rows of a corpus whose lengths are measured


@dataclass
class ModuleStack:
    """The checkpoints of an experiment, by direction."""

    vocab: Vocab  # of the store
    hops: tuple[Hop, ...]
    device: torch.device
    networks: Mapping[str, PretrainedNetwork]  # by name: "all", or the direction
    digest: str  # of the original checkpoints
    copies: dict[By, dict[str, Tensor]] = field(default_factory=dict)
    own_tokens: bool = True

    # -- which network ---------------------------------------------------------------------------------------

    @property
    def shared(self) -> bool:
        return "all" in self.networks

    @property
    def num_networks(self) -> int:
        return len(self.networks)

    def names(self) -> list[str]:
        return list(self.networks)

    def network(self, hop: Hop) -> int:
        return self.names().index(self._name(hop))

    def of(self, hop: Hop) -> PretrainedNetwork:
        return self.networks[self._name(hop)]

    def _name(self, hop: Hop) -> str:
        name = "all" if self.shared else str(hop)
        if hop not in self.hops or name not in self.networks:
            raise PathError(f"there is no translator {hop}. The translators are {', '.join(map(str, self.hops))}.")
        return name

    # -- weights ---------------------------------------------------------------------------------------------

    def places(self) -> dict[str, Tensor]:
        """Every trainable tensor under the name `network/tensor`."""
        return {
            f"{name}/{key}": tensor
            for name, network in self.networks.items()
            for key, tensor in network.trainable.items()
        }

    def named(self) -> dict[str, Tensor]:
        return {name: tensor.detach() for name, tensor in self.places().items()}

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor], strict: bool = True) -> list[str]:
        """Load weights by name. The stage `pretrained` has none; only its checkpoint must be the same."""
        if UNMODIFIED in tensors:
            if bytes(tensors[UNMODIFIED].tolist()).hex() != self.digest:
                raise RunError("the checkpoint differs from the one of the stage `pretrained`. Restore its files.")
            return []
        places = self.named()
        missing = sorted({key.partition("/")[0] for key in places if key not in tensors})
        if strict and missing:
            raise PathError(f"the checkpoint has no weights for {', '.join(missing)}.")
        for key, place in places.items():
            if key in tensors:
                place.copy_(tensors[key])
        return missing

    def whole_weights(self) -> dict[str, Tensor]:
        """All weights under the names `network/tensor` of the checkpoints without adapters."""
        found: dict[str, Tensor] = {}
        for name, network in self.networks.items():
            with merged(network.model) as tensors:
                found |= {f"{name}/{key}": tensor.detach().clone() for key, tensor in tensors.items()}
        return found

    def copy(self, by: By) -> None:
        self.copies[by] = {name: tensor.clone() for name, tensor in self.named().items()}

    @torch.no_grad()
    def follow(self, decay: float) -> None:
        """Move the averaged copy, if there is one, towards the live weights."""
        for name, tensor in self.named().items() if "ema" in self.copies else ():
            self.copies["ema"][name].lerp_(tensor, 1 - decay)

    def _weights(self, hop: Hop, by: By) -> dict[str, Tensor] | None:
        start = f"{self._name(hop)}/"
        copy = self.copies[by] if by != "live" else None
        return copy and {name.removeprefix(start): value for name, value in copy.items() if name.startswith(start)}

    # -- size ------------------------------------------------------------------------------------------------

    def parameter_counts(self) -> tuple[int, int]:
        """The numbers of trained and of all parameters."""
        every = [place for network in self.networks.values() for place in network.model.parameters()]
        return sum(place.numel() for place in self.places().values()), sum(place.numel() for place in every)

    def training_bytes(self) -> int:
        """Memory of the float32 weights, and of two gradients and two moments of the trained ones."""
        trained, total = self.parameter_counts()
        return 4 * total + 16 * trained

    def activation_bytes(self) -> float:
        """Approximate memory of activations per token position, for one network at a time."""
        return max(network.activation_bytes() for network in self.networks.values())

    # -- translation -----------------------------------------------------------------------------------------

    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        return [self._translate(one, how, limits, key, n) for one in inputs]

    def _translate(self, one: HopInput, how: Generate, limits: DecodeLimits, key: Key, n: int) -> Translations:
        network = self.of(one.hop)
        sources = network.tokens.read(one.sources.texts, one.hop)
        found: list[list[tuple[str, bool]]] = [[]] * len(sources)

        def work(rows: Ints) -> list[list[tuple[str, bool]]]:
            made = network.generate([sources[row] for row in rows], one.hop, how, limits, n)
            return [made[start : start + n] for start in range(0, len(made), n)]

        with (
            network.using(self._weights(one.hop, own_weights(how))),
            drawing(self.device, *key, str(one.hop), how.draw_key()),
        ):
            for rows in batches(lengths_of(sources), limits, max(how.beam if how.how == "beam" else 1, n)):
                for row, hypotheses in zip(rows.tolist(), in_halves(work, rows), strict=True):
                    found[row] = hypotheses
        return self._translations(one, [hypothesis for hypotheses in found for hypothesis in hypotheses], n)

    def _translations(self, one: HopInput, found: Sequence[tuple[str, bool]], n: int) -> Translations:
        sentences = Sentences(self.vocab, one.hop.target, texts=[text for text, _ in found])
        counts = np.full(len(one.sources), n, dtype=np.int64)
        scores = np.full(len(found), np.nan)  # `generate` does not return likelihoods
        if n > 1:
            repeated = one.sources.take(np.repeat(np.arange(len(one.sources)), n))
            scores = -self.score(one.hop, repeated, sentences, as_generated=True)[0]
        return Translations(sentences, scores, np.array([ended for _, ended in found], dtype=np.bool_), counts)

    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]:
        """Token counts are those of the checkpoint's own tokenizer."""
        network = self.of(hop)
        never = (network.model.generation_config.suppress_tokens or ()) if as_generated else ()
        read, wanted = network.tokens.read(sources.texts, hop), network.tokens.targets(targets.texts, hop)
        losses = np.zeros(len(read))
        for rows in batches(np.maximum(lengths_of(read), lengths_of(wanted)), _SCORED):
            losses[rows] = network.losses([read[row] for row in rows], [wanted[row] for row in rows], never)
        return losses, lengths_of(wanted)

    # -- rows ------------------------------------------------------------------------------------------------

    def source_rows(self, sources: Sentences, hop: Hop, synthetic: bool = False) -> Ragged:
        tokens = self.of(hop).tokens
        return tokens.rows(tokens.read(tokens.with_blanks(sources.texts), hop, synthetic))

    def target_rows(self, targets: Sentences, hop: Hop) -> Ragged:
        tokens = self.of(hop).tokens
        return tokens.rows(tokens.targets(targets.texts, hop))

    def longer_sides(self, store: Store, start: str, end: str, most: int) -> Ints:
        """Measured on a small sample, as tokenization takes time."""
        most = min(most, _MEASURED)
        key = (str(store.folder), start, end, most)
        if key not in self._lengths:
            sides = dict(zip((start, end), store.ends(start, end), strict=True))
            rows = sides[start].sample(most)
            texts = {one: self.vocab.decode(side.take(rows).rows(), one) for one, side in sides.items()}
            self._lengths[key] = np.max([self._counts(own, one) for one, own in texts.items()], axis=0)
        return self._lengths[key]

    def _counts(self, texts: Sequence[str], language: str) -> Ints:
        """Token counts of texts, by a checkpoint whose target (else source) is the language."""
        for hop in self.hops:
            if hop.target == language:
                return self.of(hop).tokens.rows(self.of(hop).tokens.targets(texts, hop)).lengths
        hop = next(hop for hop in self.hops if hop.source == language)
        return self.of(hop).tokens.rows(self.of(hop).tokens.read(texts, hop)).lengths

    @cached_property
    def _lengths(self) -> dict[tuple[str, str, str, int], Ints]:
        return {}


@contextmanager
def drawing(device: torch.device, *key: str | int) -> Iterator[None]:
    """Seed the global generator, the only one that modules use, by a key; restore it afterwards."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(keyed_seed(*key))
        yield
