"""One network on its way out: its weights, the directions it serves, its vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

from loopmt.config import Model
from loopmt.path import Hop
from loopmt.text.vocab import Vocab
from loopmt.translate.networks import NetworkStack

Kind = Literal["bpe", "unigram"]


@dataclass(frozen=True)
class ExportedNetwork:
    """Copies of a network's weights: what is done to them cannot reach the translators."""

    hops: tuple[Hop, ...]
    model: Model
    vocab: Vocab
    kind: Kind  # of subwords
    weights: Mapping[str, Tensor]
    logit_mask: list[int]  # ids that are no text
    longest: int  # subwords of the longest row it has learnt from

    @property
    def shared(self) -> bool:
        return self.model.sharing == "all"

    @property
    def name(self) -> str:
        """Of its folder."""
        return "all" if self.shared else f"{self.hops[0].source}-{self.hops[0].target}"

    @property
    def self_normalising(self) -> bool:
        """Can a tokenizer at Hugging Face bring raw text to the form that the network knows?"""
        return self.vocab.joint and not self.vocab.form.pretokenize

    @property
    def source_model(self) -> Path:
        """The file of the source's subwords."""
        return Path(self.vocab.models[self.hops[0].source])

    @property
    def target_model(self) -> Path:
        return Path(self.vocab.models[self.hops[0].target])


def networks(translators: NetworkStack, kind: Kind, longest: int) -> list[ExportedNetwork]:
    """Every network of a stage."""
    groups = [translators.hops] if translators.shared else [(hop,) for hop in translators.hops]
    return [_network(translators, hops, kind, longest) for hops in groups]


def _network(translators: NetworkStack, hops: tuple[Hop, ...], kind: Kind, longest: int) -> ExportedNetwork:
    vocab, (source, target) = translators.vocab, (hops[0].source, hops[0].target)
    row = translators.network(hops[0])
    views = translators.layout.unpack(translators.live[row : row + 1].detach().cpu())
    # Where vocabularies differ in size, the tables have places that belong to no subword.
    sizes = {"source_embed": vocab.size(source), "target_embed": vocab.size(target), "output_bias": vocab.size(target)}
    weights = {name: view[0, : sizes.get(name)].clone() for name, view in views.items()}
    logit_mask = translators.logit_mask(target)[: vocab.size(target)].isinf().nonzero()[:, 0].tolist()
    return ExportedNetwork(hops, translators.model, vocab, kind, weights, logit_mask, longest)
