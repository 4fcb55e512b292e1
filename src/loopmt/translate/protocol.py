"""The interface of everything that translates: networks in training, pretrained checkpoints, exports.

All callers (gathering, validation, round trips, `translate`, `serve`, the checks of `export`) use a `TranslationModel`.
Models that are trained are also a `TrainableModel`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from loopmt.config import Generate
from loopmt.path import Hop
from loopmt.text.ragged import Ints, Ragged
from loopmt.text.store import Store
from loopmt.text.vocab import Vocab
from loopmt.translate.limits import DecodeLimits
from loopmt.translate.sentences import Sentences

By = Literal["live", "frozen", "ema"]
Key = tuple[str | int, ...]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def own_weights(how: Generate) -> By:
    """Which of a model's own weights generate."""
    assert how.by in ("live", "frozen", "ema"), f"{how.by} is not of one model"
    return cast(By, how.by)


@dataclass(frozen=True)
class HopInput:
    """Sentences to translate in one direction."""

    hop: Hop
    sources: Sentences


@dataclass(frozen=True)
class Translations:
    """The translations of one hop's sources: one or more hypotheses of each, best first."""

    sentences: Sentences  # all hypotheses, in the order of the sources
    scores: Floats  # log-probabilities; NaN if the model does not return them
    ended: Mask  # whether a hypothesis ended with EOS and was not cut off
    counts: Ints  # the number of hypotheses of each source

    @property
    def firsts(self) -> Ints:
        """The index of each source's first hypothesis."""
        return np.cumsum(self.counts) - self.counts

    def best(self) -> Translations:
        """The best hypothesis of each source."""
        if len(self.counts) == len(self.scores):
            return self
        firsts = self.firsts
        ones = np.ones(len(firsts), dtype=np.int64)
        return Translations(self.sentences.take(firsts), self.scores[firsts], self.ended[firsts], ones)

    def by_source(self) -> Iterator[list[tuple[str, float]]]:
        """Text and score of each source's hypotheses."""
        pairs = zip(self.sentences.texts, self.scores.tolist(), strict=True)
        for count in self.counts.tolist():
            yield [next(pairs) for _ in range(count)]


class TranslationModel(Protocol):
    """A model that translates some directions."""

    @property
    def hops(self) -> Sequence[Hop]:
        """The directions it translates."""

    @property
    def device(self) -> torch.device: ...

    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        """Translate each input: up to `n` hypotheses of each source, best first, or `n` draws of sampling.

        The same key gives the same draws. `how.by` chooses live, frozen or averaged weights.
        """

    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]:
        """Negative log-likelihood of each target given its source, and its number of tokens including EOS.

        The distribution covers all ids; with `as_generated` only those that `generate` may choose, as in the scores of
        `Translations`: without padding, tags and the like.
        """


class TrainableModel(TranslationModel, Protocol):
    """A model that is trained: one or more networks, each of which serves one or more directions."""

    @property
    def vocab(self) -> Vocab:
        """The subwords of its training text."""

    @property
    def shared(self) -> bool:
        """Whether one network serves all directions, which tags distinguish."""

    @property
    def num_networks(self) -> int: ...

    def network(self, hop: Hop) -> int:
        """The number of the network that serves a direction."""

    def names(self) -> list[str]:
        """The name of each network in files and logs."""

    @property
    def own_tokens(self) -> bool:
        """Whether rows have tokens of the model's own tokenizer instead of `vocab`, in which text is stored."""

    def source_rows(self, sources: Sentences, hop: Hop, synthetic: bool = False) -> Ragged:
        """Sources in the network's tokens, with tags and without EOS; PAD, EOS and UNK are those of `text.ragged`."""

    def target_rows(self, targets: Sentences, hop: Hop) -> Ragged:
        """Targets in the network's tokens, without EOS."""

    def longer_sides(self, store: Store, start: str, end: str, most: int) -> Ints:
        """Tokens of the longer side of the real rows at the ends of a path; of a sample of at most `most` rows."""

    def named(self) -> dict[str, Tensor]:
        """Every weight under the name `network/weight`, for files."""

    def load(self, tensors: Mapping[str, Tensor], strict: bool = True) -> list[str]:
        """Load weights by name. Return the names of the networks that found none."""

    def copy(self, by: By) -> None:
        """Copy the live weights, as the frozen copy or as the start of the average."""
