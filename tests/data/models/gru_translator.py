"""A trainable translator in one file: a bag of source subwords starts a GRU that writes the target.

`[model] translator = "gru_translator:make"`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from loopmt.config import Generate
from loopmt.model.loss import cross_entropy
from loopmt.path import Hop
from loopmt.rng import keyed_seed, torch_generator
from loopmt.text.ragged import EOS, PAD, Ints, Ragged
from loopmt.translate.protocol import DecodeLimits, Floats, HopInput, Key, Sentences, Translations, own_weights
from loopmt.translate.torch_stack import TorchStack

WIDTH = 32


class Gru(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.source = nn.EmbeddingBag(size, WIDTH, padding_idx=PAD)
        self.target = nn.Embedding(size, WIDTH)
        self.decoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, size)

    def forward(self, source_BS: Tensor, inputs_BT: Tensor) -> Tensor:
        """Logits (B, T, V) of the tokens after the inputs."""
        logits: Tensor = self.out(self.decoder(self.target(inputs_BT), self.source(source_BS)[None])[0])
        return logits


@dataclass(frozen=True)
class GruComputation:
    """Training losses; the states are the logits (1, B, T, V)."""

    network: Gru
    label_smoothing: float

    def states(self, source_NBL: Tensor, target_NBL: Tensor) -> Tensor:
        inputs = nn.functional.pad(target_NBL[0, :, :-1], (1, 0), value=PAD)
        logits: Tensor = self.network(source_NBL[0], inputs)
        return logits[None]

    def losses(self, states_NBTD: Tensor, target_NBL: Tensor) -> Tensor:
        losses = cross_entropy(states_NBTD.flatten(0, 2), target_NBL.flatten(), self.label_smoothing)
        return losses.view_as(target_NBL).masked_fill(target_NBL == PAD, 0.0)

    def logits(self, states_NBTD: Tensor) -> Tensor:
        return states_NBTD


@dataclass
class GruStack(TorchStack):
    """One network for each direction."""

    seed: int

    @cached_property
    def modules(self) -> dict[str, Gru]:
        with torch.random.fork_rng([]):
            return {str(hop): self._module(hop) for hop in self.hops}

    def _module(self, hop: Hop) -> Gru:
        torch.manual_seed(keyed_seed(self.seed, str(hop)))
        return Gru(max(map(self.vocab.size, self.vocab.languages))).to(self.device)

    @property
    def trainable(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {name: dict(module.named_parameters()) for name, module in self.modules.items()}

    def computation(self, network: str, label_smoothing: float) -> GruComputation:
        return GruComputation(self.modules[network], label_smoothing)

    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        with torch.no_grad(), self.using(own_weights(how)):
            return [self._generate(one, how, limits, key, n) for one in inputs]

    def _generate(self, one: HopInput, how: Generate, limits: DecodeLimits, key: Key, n: int) -> Translations:
        """Greedy search, or draws of the distribution."""
        sources = np.repeat(np.arange(len(one.sources)), n)
        source = self._table(self.source_rows(one.sources, one.hop).take(sources))
        generator = torch_generator(self.device, *key, str(one.hop), how.draw_key())
        ids, scores = torch.zeros(len(source), 1, dtype=torch.long), torch.zeros(len(source))
        for _ in range(limits.length(source.shape[1])):
            log_probs = self.modules[str(one.hop)](source, ids)[:, -1].log_softmax(-1)
            sampled = torch.multinomial(log_probs.exp(), 1, generator=generator)
            token = sampled if how.how == "sample" else log_probs.argmax(-1, keepdim=True)
            open_ = ~(ids == EOS).any(1)
            scores += torch.where(open_, log_probs.gather(1, token)[:, 0], 0)
            ids = torch.cat([ids, token.where(open_[:, None], torch.full_like(token, EOS))], 1)
        ended = (ids == EOS).any(1).numpy()
        rows = [row[: row.index(EOS)] if EOS in row else row for row in ids[:, 1:].tolist()]
        sentences = Sentences(self.vocab, one.hop.target, ids=Ragged.of(rows))
        return Translations(sentences, scores.double().numpy(), ended, np.full(len(one.sources), n))

    @torch.no_grad()
    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]:
        target = self._table(targets.ids)[None]
        computation = self.computation(str(hop), 0.0)
        states = computation.states(self._table(self.source_rows(sources, hop))[None], target)
        losses = computation.losses(states, target)[0].sum(-1)
        return losses.double().numpy(), targets.ids.lengths + 1

    def _table(self, rows: Ragged) -> Tensor:
        return torch.from_numpy(rows.padded(np.arange(len(rows)), int(rows.lengths.max(initial=0)) + 1))


def make(request: Any) -> GruStack:
    return GruStack(request.vocab, request.hops, request.device, request.experiment.seed)
