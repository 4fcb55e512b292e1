"""Training rows in the tokens of a checkpoint, from text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import cast

import numpy as np

from loopmt.path import Hop
from loopmt.pretrained.tokens import ModelTokens
from loopmt.text.ragged import Ints, Ragged
from loopmt.text.store import Store
from loopmt.text.vocab import Vocab
from loopmt.translate.protocol import Sentences

_MEASURED = 2000  # rows of a corpus whose lengths are measured


class TokenizedRows(ABC):
    """The part of a trainable model that reads text with the tokenizers of checkpoints."""

    vocab: Vocab
    hops: tuple[Hop, ...]

    @abstractmethod
    def tokens_of(self, hop: Hop) -> ModelTokens:
        """The tokenizer of a direction."""

    @property
    def own_tokens(self) -> bool:
        return True

    def source_rows(self, sources: Sentences, hop: Hop, synthetic: bool = False) -> Ragged:
        tokens = self.tokens_of(hop)
        return tokens.source_rows(tokens.read(tokens.with_blanks(sources.texts), hop, synthetic))

    def target_rows(self, targets: Sentences, hop: Hop) -> Ragged:
        tokens = self.tokens_of(hop)
        return tokens.rows(tokens.targets(targets.texts, hop))

    def longer_sides(self, store: Store, start: str, end: str, most: int) -> Ints:
        """Lengths of a small sample, because tokenization takes time."""
        most = min(most, _MEASURED)
        key = (str(store.folder), start, end, most)
        if key not in self._lengths:
            sides = dict(zip((start, end), store.ends(start, end), strict=True))
            rows = sides[start].sample(most)
            texts = {one: self.vocab.decode(side.take(rows).rows(), one) for one, side in sides.items()}
            self._lengths[key] = np.max([self._counts(own, one) for one, own in texts.items()], axis=0)
        return self._lengths[key]

    def _counts(self, texts: Sequence[str], language: str) -> Ints:
        """Token counts of texts by a checkpoint with the language as target (else source), and also in a prompt."""
        found: list[Ints] = []
        for hop in self.hops:
            tokens = self.tokens_of(hop)
            if hop.target == language and not found:
                found.append(tokens.rows(tokens.targets(texts, hop)).lengths)
        for hop in self.hops:
            tokens = self.tokens_of(hop)
            if hop.source == language and (tokens.prompt is not None or not found):
                found.append(tokens.source_rows(tokens.read(texts, hop)).lengths)
        return cast(Ints, np.max(found, axis=0))

    @cached_property
    def _lengths(self) -> dict[tuple[str, str, str, int], Ints]:
        return {}
