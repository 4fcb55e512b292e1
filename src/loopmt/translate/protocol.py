"""The interface of everything that translates: networks in training, pretrained checkpoints, exports.

All callers (gathering, validation, round trips, `translate`, `serve`, the checks of `export`) use a `TranslationModel`.
Models that are trained are also a `TrainableModel`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, SupportsInt, cast, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from loopmt.config import Generate
from loopmt.path import Hop
from loopmt.text.ragged import Ints, Ragged
from loopmt.text.store import Store
from loopmt.text.vocab import Vocab


@dataclass(frozen=True)
class DecodeLimits:
    """Limits on the length of outputs and the size of batches."""

    growth: float = 2.0
    extra: int = 10
    longest: int = 512
    batch_tokens: int = 16_384  # source tokens with padding, beams counted
    batch_rows: int = 512

    @classmethod
    def on(cls, device: torch.device, longest: int = 512) -> DecodeLimits:
        """Limits whose batches use the device well."""
        return (
            cls(longest=longest, batch_tokens=131_072, batch_rows=4096)
            if device.type == "cuda"
            else cls(longest=longest)
        )

    def length(self, source_length: int) -> int:
        """The longest allowed translation of a source."""
        return self.lengths(np.array([source_length]))[0]

    def lengths(self, source_lengths: Ints) -> list[int]:
        longest: list[int] = (
            np.minimum(self.longest, np.ceil(self.growth * source_lengths) + self.extra).astype(np.int64).tolist()
        )
        return longest


class Codec(Protocol):
    """Converts text to ids and back: a `Vocab` or the tokenizer of a pretrained model."""

    def encode(self, texts: Sequence[str], language: str) -> list[list[int]]:
        """The ids of each text, without EOS."""

    def decode(self, ids: Iterable[Iterable[SupportsInt]], language: str) -> list[str]:
        """The text of each row of ids, as one line."""


class Sentences:
    """Sentences of one language. Ids are computed from text, or text from ids, at first use.

    So models that share a vocabulary exchange ids, and text is decoded only if needed.
    """

    def __init__(
        self, codec: Codec | None, language: str, *, ids: Ragged | None = None, texts: Sequence[str] | None = None
    ) -> None:
        """Without a codec, only the given side (ids or texts) is available."""
        self.codec = codec
        self.language = language
        self._ids = ids
        self._texts = None if texts is None else list(texts)

    @property
    def ids(self) -> Ragged:
        if self._ids is None:
            assert self.codec is not None, "sentences without a vocabulary have no ids"
            self._ids = Ragged.of(self.codec.encode(self.texts, self.language))
        return self._ids

    @property
    def texts(self) -> list[str]:
        if self._texts is None:
            assert self.codec is not None, "sentences without a vocabulary have no text"
            self._texts = self.codec.decode(self.ids.rows(), self.language)
        return self._texts

    def __len__(self) -> int:
        return len(self._ids) if self._ids is not None else len(self.texts)

    def take(self, numbers: Ints) -> Sentences:
        ids = None if self._ids is None else self._ids.take(np.asarray(numbers))
        texts = None if self._texts is None else [self._texts[number] for number in numbers]
        return Sentences(self.codec, self.language, ids=ids, texts=texts)


By = Literal["live", "frozen", "ema"]
Key = tuple[str | int, ...]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def own_weights(how: Generate) -> By:
    """Which of a model's own weights generate."""
    assert how.by in ("live", "frozen", "ema"), f"{how.by} does not name the weights of one model"
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


class Computation(Protocol):
    """The forward computation of an update: networks with their weights, dropout and label smoothing.

    Shapes: N networks, B rows, L length, T target length, D width, V vocabulary.
    """

    def states(self, source_NBL: Tensor, target_NBL: Tensor) -> Tensor:
        """Decoder states (N, B, T, D) with teacher forcing. Every call draws new dropout masks."""

    def losses(self, states_NBTD: Tensor, target_NBL: Tensor) -> Tensor:
        """The label-smoothed loss of every token (N, B, T); 0 at padding."""

    def logits(self, states_NBTD: Tensor) -> Tensor:
        """Logits of the vocabulary (N, B, T, V)."""


@runtime_checkable
class TrainableModel(TranslationModel, Protocol):
    """A model that is trained: one or more networks, each of which serves one or more directions."""

    vocab: Vocab
    """The subwords of its training text."""

    @property
    def learner(self) -> str:
        """The learner that trains it: a name of `learn.learners`, or `module:function`."""

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

    def start_fresh(self, seed: int) -> None:
        """Initialize the weights that come from no file; they depend only on the seed and the network's name."""

    def named(self) -> dict[str, Tensor]:
        """Every weight under the name `network/weight`, for files."""

    def load(self, tensors: Mapping[str, Tensor], strict: bool = True) -> list[str]:
        """Load weights by name. Return the names of the networks without weights there."""

    def copy(self, by: By) -> None:
        """Copy the live weights, as the frozen copy or as the start of the average."""

    def parameter_counts(self) -> tuple[int, int]:
        """The numbers of trained and of all parameters."""

    def activation_bytes(self) -> float:
        """Approximate memory of activations per token position of a batch."""


# -- learning from rewards ---------------------------------------------------------------------------------------


@runtime_checkable
class RewardedComputation(Computation, Protocol):
    """A computation whose networks may learn from rewards of their own samples."""

    def without_dropout(self) -> Computation:
        """The same computation without dropout, as in generation."""

    def drawn_labels(self, target_NBL: Tensor) -> Tensor:
        """The index of each target in the logits; negative at padding and at tokens that generation does not draw."""


@runtime_checkable
class RewardedModel(TrainableModel, Protocol):
    """A trainable model that exposes its sampling distribution."""

    def drawable(self, hop: Hop) -> Tensor:
        """(V,), -inf at tokens that a hop never generates, 0 elsewhere."""

    def drawn_scores(self, hop: Hop, sources: Sentences, targets: Sentences, how: Generate) -> Floats:
        """The log-probability with which `how` draws each target, and EOS after it, given its source."""
