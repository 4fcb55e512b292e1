"""Pretrained checkpoints as the networks of a stage: translation of text, and trainable tensors by name.

One checkpoint serves all directions, or each direction has its own. Checkpoints exchange text, because each has its own
tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from loopmt.config import Generate
from loopmt.errors import RunError
from loopmt.model.out_of_memory import in_halves
from loopmt.path import Hop
from loopmt.pretrained.lora import merged
from loopmt.pretrained.network import PretrainedNetwork, lengths_of
from loopmt.pretrained.rows import TokenizedRows
from loopmt.pretrained.tokens import ModelTokens
from loopmt.rng import keyed_seed
from loopmt.text.ragged import Ints
from loopmt.translate.decoder import batches
from loopmt.translate.protocol import DecodeLimits, Floats, HopInput, Key, Sentences, Translations, own_weights
from loopmt.translate.torch_stack import TorchStack

UNMODIFIED = "checkpoint/digest"
"""The only tensor of the stage `pretrained`: the digest of the checkpoint."""
_SCORED = DecodeLimits(batch_tokens=4096, batch_rows=64)


@dataclass(frozen=True)
class CheckpointComputation:
    """The losses of a checkpoint in training; its states are its logits (1, B, T, V)."""

    network: PretrainedNetwork
    label_smoothing: float
    dropout: bool = True

    def states(self, source_NBL: Tensor, target_NBL: Tensor) -> Tensor:
        return self.network.learning_logits(source_NBL[0], target_NBL[0], self.dropout)[None]

    def losses(self, states_NBTD: Tensor, target_NBL: Tensor) -> Tensor:
        return self.network.token_losses(states_NBTD[0], target_NBL[0], self.label_smoothing)[None]

    def logits(self, states_NBTD: Tensor) -> Tensor:
        return states_NBTD

    def without_dropout(self) -> CheckpointComputation:
        return replace(self, dropout=False)

    def drawn_labels(self, target_NBL: Tensor) -> Tensor:
        return self.network.drawn(self.network.labels(target_NBL[0]))[None]


@dataclass
class ModuleStack(TokenizedRows, TorchStack):
    """The checkpoints of an experiment, by direction."""

    networks: Mapping[str, PretrainedNetwork]
    digest: str  # of the original checkpoints

    @property
    def trainable(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {name: network.trainable for name, network in self.networks.items()}

    def of(self, hop: Hop) -> PretrainedNetwork:
        return self.networks[self.name(hop)]

    def tokens_of(self, hop: Hop) -> ModelTokens:
        return self.of(hop).tokens

    def computation(self, network: str, label_smoothing: float) -> CheckpointComputation:
        return CheckpointComputation(self.networks[network], label_smoothing)

    def load(self, tensors: Mapping[str, Tensor], strict: bool = True) -> list[str]:
        """Load weights by name. The stage `pretrained` stores none, but its checkpoint must be the same."""
        if UNMODIFIED not in tensors:
            return super().load(tensors, strict)
        if bytes(tensors[UNMODIFIED].tolist()).hex() != self.digest:
            raise RunError("the checkpoint differs from the one of the stage `pretrained`. Restore its files.")
        return []

    def whole_weights(self) -> dict[str, Tensor]:
        """All weights under the names `network/tensor` of the checkpoints without adapters."""
        found: dict[str, Tensor] = {}
        for name, network in self.networks.items():
            with merged(network.model) as tensors:
                found |= {f"{name}/{key}": tensor.detach().clone() for key, tensor in tensors.items()}
        return found

    # -- size ------------------------------------------------------------------------------------------------

    def parameter_counts(self) -> tuple[int, int]:
        every = [place for network in self.networks.values() for place in network.model.parameters()]
        return sum(place.numel() for place in self.places().values()), sum(place.numel() for place in every)

    def activation_bytes(self) -> float:
        """Networks are computed one at a time."""
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
            self.using(own_weights(how)),
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

    def drawn_scores(self, hop: Hop, sources: Sentences, targets: Sentences, how: Generate) -> Floats:
        """Log-probabilities of the tokenizer's segmentation of the texts, which may differ from the drawn tokens."""
        network = self.of(hop)
        read, wanted = network.tokens.read(sources.texts, hop), network.tokens.targets(targets.texts, hop)
        scores = np.zeros(len(read))
        with self.using(own_weights(how)):
            for rows in batches(np.maximum(lengths_of(read), lengths_of(wanted)), _SCORED):
                scores[rows] = network.drawn_scores([read[row] for row in rows], [wanted[row] for row in rows], how)
        return scores

    def drawable(self, hop: Hop) -> Tensor:
        return self.of(hop).drawable


@contextmanager
def drawing(device: torch.device, *key: str | int) -> Iterator[None]:
    """Seed the global generator, the only one that modules use, by a key; restore it afterwards."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(keyed_seed(*key))
        yield
