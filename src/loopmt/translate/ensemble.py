"""Several generators for one hop: each translates a share of the rows, or all choose every token together.

Shapes: M members, B rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import torch

from loopmt.config import Generate
from loopmt.path import Hop
from loopmt.rng import torch_generator
from loopmt.text.ragged import Ints, Ragged
from loopmt.text.vocab import Vocab
from loopmt.translate.decoder import Decoder, generate_up_to
from loopmt.translate.protocol import By, DecodeLimits, Floats, HopInput, Key, Sentences, TranslationModel, Translations

Combine = Literal["mean", "max"]


# -- rows --------------------------------------------------------------------------------------------------------


def by_turns(
    members: Sequence[tuple[TranslationModel, Generate]], one: HopInput, limits: DecodeLimits, key: Key, n: int
) -> Translations:
    """Assign rows to the members in turn, so that the samples of a sentence come from different members."""
    rows = [np.arange(first, len(one.sources), len(members)) for first in range(len(members))]
    parts = [
        model.generate([HopInput(one.hop, one.sources.take(own))], how, limits, (*key, number), n)[0]
        for number, ((model, how), own) in enumerate(zip(members, rows, strict=True))
    ]
    return merged(parts, np.concatenate(rows))


def merged(parts: Sequence[Translations], rows: Ints) -> Translations:
    """Merge the translations of several parts: source i of the concatenated parts becomes row `rows[i]`."""
    counts = np.concatenate([part.counts for part in parts])
    order = np.argsort(rows, kind="stable")
    firsts = np.cumsum(counts) - counts
    numbers = np.concatenate([np.arange(firsts[one], firsts[one] + counts[one]) for one in order] or [order])
    scores, ended = (np.concatenate([getattr(part, name) for part in parts])[numbers] for name in ("scores", "ended"))
    return Translations(_joined([part.sentences for part in parts]).take(numbers), scores, ended, counts[order])


def _joined(parts: Sequence[Sentences]) -> Sentences:
    """All sentences: as ids if all parts have the vocabulary of the first, else as text."""
    codec, language = parts[0].codec, parts[0].language
    if codec is not None and all(part.codec is codec for part in parts):
        return Sentences(codec, language, ids=Ragged.join([part.ids for part in parts]))
    return Sentences(codec, language, texts=[text for part in parts for text in part.texts])


# -- tokens ------------------------------------------------------------------------------------------------------


@runtime_checkable
class TokenModel(TranslationModel, Protocol):
    """A model whose decoder exposes the distribution of every token."""

    vocab: Vocab

    def source_rows(self, sources: Sentences, hop: Hop, synthetic: bool = False) -> Ragged: ...

    def sentences(self, rows: Ragged, hop: Hop) -> Sentences: ...

    def decoder(self, hop: Hop, by: By = "live") -> Decoder: ...


def token_model(model: TranslationModel) -> TokenModel:
    """Cast a model that is known to expose token distributions."""
    assert isinstance(model, TokenModel), f"{type(model).__name__} does not expose the distribution of tokens"
    return model


@dataclass
class EnsembleModel:
    """Networks of one vocabulary that choose every token together, by the mean or maximum of their probabilities."""

    members: Sequence[tuple[TokenModel, By]]
    combine: Combine = "mean"

    @property
    def hops(self) -> Sequence[Hop]:
        return [hop for hop in self.members[0][0].hops if all(hop in stack.hops for stack, _ in self.members)]

    @property
    def device(self) -> torch.device:
        return self.members[0][0].device

    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        return [self._translate(one, how, limits, key, n) for one in inputs]

    def _translate(self, one: HopInput, how: Generate, limits: DecodeLimits, key: Key, n: int) -> Translations:
        draws = n if how.how == "sample" else 1
        first = self.members[0][0]
        rows = first.source_rows(one.sources, one.hop)
        rows = rows.take(np.repeat(np.arange(len(rows)), draws))
        generator = torch_generator(self.device, *key, str(one.hop), how.draw_key())
        found, counts = generate_up_to(self._decoder(one.hop), rows, how, limits, generator, n if draws == 1 else 1)
        counts = counts.reshape(-1, draws).sum(1)
        return Translations(first.sentences(found.ids, one.hop), found.scores, found.ended, counts)

    def _decoder(self, hop: Hop) -> Decoder:
        first, *others = (stack.decoder(hop, by) for stack, by in self.members)
        return replace(first, others=tuple(others), combine=self.combine)

    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]:
        """The mean of the members' scores."""
        found = [stack.score(hop, sources, targets, as_generated) for stack, _ in self.members]
        return np.asarray(np.mean([losses for losses, _ in found], axis=0)), found[0][1]
