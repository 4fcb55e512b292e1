"""A function of another module as a translation model: texts in, texts out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import torch

from loopmt.config import Generate
from loopmt.errors import ConfigError, ExternalError
from loopmt.external import explained, imported
from loopmt.path import Hop
from loopmt.text.ragged import Ints
from loopmt.text.vocab import Vocab
from loopmt.translate.protocol import DecodeLimits, Floats, HopInput, Key, Sentences, Translations


def find_translator(reference: str) -> Callable[[list[str], Hop], Sequence[str]]:
    """The function that `by` refers to."""
    try:
        return imported(reference, "translator")
    except ConfigError as error:
        raise ConfigError(f'{error} An earlier stage is called "stage:NAME", another run "run:FOLDER".') from None


@dataclass(frozen=True)
class FunctionTranslator:
    """`function(texts, hop)` returns a translation of each text. Scores are NaN."""

    name: str
    function: Callable[[list[str], Hop], Sequence[str]]
    vocab: Vocab
    device: torch.device

    @classmethod
    def of(cls, reference: str, vocab: Vocab, device: torch.device) -> FunctionTranslator:
        return cls(reference, explained(find_translator(reference), f'translator "{reference}"'), vocab, device)

    @property
    def hops(self) -> Sequence[Hop]:
        return [Hop(source, target) for source, target in permutations(self.vocab.languages, 2)]

    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        """One hypothesis of each source, whatever the decoding settings."""
        return [self._translate(one) for one in inputs]

    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]:
        raise ConfigError(f'translator "{self.name}" translates, but does not score translations. Name another one.')

    def _translate(self, one: HopInput) -> Translations:
        found = self.function(one.sources.texts, one.hop)
        wanted = len(one.sources)
        if isinstance(found, str) or not all(isinstance(text, str) for text in found) or len(found) != wanted:
            raise ExternalError(
                f'translator "{self.name}", {one.hop}: return a list of {wanted:,} strings, a translation of each '
                f"text; it returned {f'{found!r}'[:80]}."
            )
        sentences = Sentences(self.vocab, one.hop.target, texts=[" ".join(text.split()) for text in found])
        whole, one_each = np.ones(wanted, dtype=np.bool_), np.ones(wanted, dtype=np.int64)
        return Translations(sentences, np.full(wanted, np.nan), whole, one_each)
