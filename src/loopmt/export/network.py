"""A network for export: weights, directions and vocabulary."""

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
    """A network with a copy of its weights, so that exporters may change them."""

    hops: tuple[Hop, ...]
    model: Model
    vocab: Vocab
    kind: Kind  # of subwords
    weights: Mapping[str, Tensor]
    logit_mask: list[int]  # ids that are not text
    longest: int  # subwords of the longest training row

    @property
    def shared(self) -> bool:
        return self.model.sharing == "all"

    @property
    def name(self) -> str:
        """The name of its folder."""
        return "all" if self.shared else f"{self.hops[0].source}-{self.hops[0].target}"

    @property
    def self_normalising(self) -> bool:
        """Whether a Hugging Face tokenizer can normalize raw text for the network."""
        return self.vocab.joint and not self.vocab.form.pretokenize

    @property
    def source_model(self) -> Path:
        """The subword model of the source."""
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
    # If vocabularies differ in size, the tables have unused rows.
    sizes = {"source_embed": vocab.size(source), "target_embed": vocab.size(target), "output_bias": vocab.size(target)}
    weights = {name: view[0, : sizes.get(name)].clone() for name, view in views.items()}
    logit_mask = translators.logit_mask(target)[: vocab.size(target)].isinf().nonzero()[:, 0].tolist()
    return ExportedNetwork(hops, translators.model, vocab, kind, weights, logit_mask, longest)
