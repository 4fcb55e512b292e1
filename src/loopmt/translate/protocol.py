"""The one interface of everything that translates: networks in training, pretrained checkpoints, exports.

Whoever translates (gathering, validation, round trips, `translate`, `serve`, the checks of `export`) asks a
`TranslationModel`. What is trained is a `TrainableModel` besides.
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
    """Sentences that take one hop."""

    hop: Hop
    sources: Sentences


@dataclass(frozen=True)
class Translations:
    """What a model made of the sources of one hop: one or more hypotheses of each, best first."""

    sentences: Sentences  # of all hypotheses, source after source
    scores: Floats  # log-probability of each; NaN where the model does not tell
    ended: Mask  # whether it ended by itself, and was not cut off
    counts: Ints  # how many hypotheses each source has

    @property
    def firsts(self) -> Ints:
        """Where the hypotheses of each source begin."""
        return np.cumsum(self.counts) - self.counts

    def best(self) -> Translations:
        """The best hypothesis of each source."""
        if len(self.counts) == len(self.scores):
            return self
        firsts = self.firsts
        ones = np.ones(len(firsts), dtype=np.int64)
        return Translations(self.sentences.take(firsts), self.scores[firsts], self.ended[firsts], ones)

    def by_source(self) -> Iterator[list[tuple[str, float]]]:
        """Text and score of the hypotheses of each source."""
        pairs = zip(self.sentences.texts, self.scores.tolist(), strict=True)
        for count in self.counts.tolist():
            yield [next(pairs) for _ in range(count)]


class TranslationModel(Protocol):
    """Translates some directions."""

    @property
    def hops(self) -> Sequence[Hop]:
        """The directions it translates."""

    @property
    def device(self) -> torch.device: ...

    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        """Translate each input along its hop: up to `n` hypotheses of each source, best first; of sampling, `n` draws.

        The same key gives the same draws. `how.by` says which weights generate, where a model has several.
        """

    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]:
        """Negative log-likelihood of each target given its source, and its number of tokens, the end included.

        It is among all ids that the model knows; or, `as_generated`, among those that `generate` may choose, as the
        scores of `Translations` are: without padding, tags and the like.
        """


class TrainableModel(TranslationModel, Protocol):
    """A model whose weights are trained: of one network or of several, each serving one direction or more."""

    @property
    def vocab(self) -> Vocab:
        """The subwords of the text that it is trained on."""

    @property
    def shared(self) -> bool:
        """Whether one network serves all directions, told by tags which one is meant."""

    @property
    def num_networks(self) -> int: ...

    def network(self, hop: Hop) -> int:
        """The number of the network that serves a direction."""

    def names(self) -> list[str]:
        """A name for each network, as files and logs call it."""

    @property
    def own_tokens(self) -> bool:
        """Whether rows are of other tokens than those of `vocab`, in which text is stored."""

    def source_rows(self, sources: Sentences, hop: Hop, synthetic: bool = False) -> Ragged:
        """Sources as the network reads them, without the end: PAD, EOS and UNK are those of `text.ragged`."""

    def target_rows(self, targets: Sentences, hop: Hop) -> Ragged:
        """Targets as the network learns to generate them, without the end."""

    def longer_sides(self, store: Store, start: str, end: str, most: int) -> Ints:
        """Tokens of the longer side of real rows at the ends of a path: of a sample, if there are more than `most`."""

    def named(self) -> dict[str, Tensor]:
        """Every weight by `network/weight`, for files."""

    def load(self, tensors: Mapping[str, Tensor], strict: bool = True) -> list[str]:
        """Take weights by name; the names of the networks that found none are returned."""

    def copy(self, by: By) -> None:
        """Keep the weights of now, as the frozen copy or as the start of the average."""
