"""loopmt in the benchmarks: networks with fresh weights, random ids of given lengths, and a store of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from benchmarks.timing import Plan

from loopmt.config import Fuse, Generate, Model, Train, VocabConfig
from loopmt.distributed import Processes
from loopmt.learn.captured import CapturedLearner
from loopmt.learn.learner import Learner
from loopmt.path import Hop
from loopmt.rng import numpy_generator, torch_generator
from loopmt.text.batch import Batch, BatchShape
from loopmt.text.clean import Form
from loopmt.text.ragged import EOS, Ints, Ragged
from loopmt.text.store import Store, StoreWriter
from loopmt.text.vocab import Vocab
from loopmt.translate.beam_search import Hypotheses
from loopmt.translate.decoder import generate
from loopmt.translate.networks import NetworkStack
from loopmt.translate.protocol import DecodeLimits

SEED = 1
_LETTERS = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))


@dataclass(frozen=True)
class Setting:
    """Networks among `languages` over a vocabulary of made-up words."""

    preset: str
    vocabulary: int
    languages: tuple[str, ...] = ("en", "fr")

    def build(
        self, folder: Path, plan: Plan, hops: Sequence[Hop] | None = None, fuse: Fuse = "kernels"
    ) -> NetworkStack:
        """Fresh translators of these directions, or of all; they never generate EOS."""
        chosen = tuple(hops or (Hop(one, other) for one in self.languages for other in self.languages if one != other))
        translators = NetworkStack(
            self.model(plan), self.vocab(folder, plan), chosen, plan.device, fuse, precision=plan.precision
        )
        translators.start_fresh(SEED)
        for language in self.languages:
            translators.logit_mask(language)[
                EOS
            ] = -torch.inf  # so that every system generates the same number of tokens
        return translators

    def model(self, plan: Plan) -> Model:
        small = {"layers": 1, "width": 16, "feed_forward": 32, "heads": 2} if plan.tiny else {}
        return Model.model_validate({"preset": self.preset, **small})

    def vocab(self, folder: Path, plan: Plan) -> Vocab:
        """A vocabulary of made-up words, cached in `folder`."""
        size = 400 if plan.tiny else self.vocabulary
        place = folder / f"vocab-{size}-{len(self.languages)}"
        if place.exists():
            return Vocab.load(place)
        draws = numpy_generator("benchmark", "words").integers(0, len(_LETTERS), (2 * size, 7))
        words = ["".join(word) for word in _LETTERS[draws]]
        lines = [" ".join(words[start : start + 8]) for start in range(0, len(words), 8)]
        texts = dict.fromkeys(self.languages, lines)
        return Vocab.learn(place, texts, VocabConfig(size=size), self.languages, SEED, Form())


def first_id(vocab: Vocab) -> int:
    """The lowest id that is text."""
    return vocab.synthetic + 1


def random_ids(vocab: Vocab, lengths: Sequence[int], *key: str | int) -> list[list[int]]:
    draw = numpy_generator("benchmark", *key)
    size = vocab.size(vocab.languages[0])
    return [draw.integers(first_id(vocab), size, length).tolist() for length in lengths]


def random_batch(vocab: Vocab, networks: int, rows: int, length: int) -> Batch:
    """A batch without padding."""

    def table(name: str) -> Ints:
        ids = random_ids(vocab, [length - 1] * (networks * rows), "batch", name)
        ended = np.array([[*row, EOS] for row in ids], dtype=np.int64)
        return ended.reshape(networks, rows, length)

    paths = np.zeros((networks, rows), dtype=np.int64)
    ones = np.ones(paths.shape, np.float32)
    return Batch(BatchShape(rows, length), table("source"), table("target"), paths, paths - 1, ones, ones * 0)


def random_store(place: Path, vocab: Vocab, rows: int, lengths: tuple[int, int], mono: bool = True) -> Store:
    """A store with bitext of every pair, and optionally monolingual text, of uniform lengths."""
    writer = StoreWriter(place)
    alone = [(one,) for one in vocab.languages if mono]
    for languages in (*combinations(vocab.languages, 2), *alone):
        with writer.sides("-".join(languages), languages) as sides:
            draw = numpy_generator("benchmark", "lengths", *languages)
            sizes = draw.integers(lengths[0], lengths[1] + 1, rows).astype(np.int32)
            for side in sides:
                ids = draw.integers(first_id(vocab), vocab.size(languages[0]), int(sizes.sum()))
                side.append(ids.astype(np.uint16), sizes)
    writer.close()
    return Store.open(place)


def learner(translators: NetworkStack, plan: Plan, captured: bool, paths: int = 1, **settings: int) -> Learner:
    train = Train.model_validate({**settings, "learning_rate": 1e-4, "warmup": 1})
    kind = CapturedLearner if captured else Learner
    return kind(translators, train, paths, Processes())


def decode(
    translators: NetworkStack, hop: Hop, sources: Sequence[Sequence[int]], how: Generate, length: int, plan: Plan
) -> Callable[[], Hypotheses]:
    """Decoding of exactly `length` tokens, with loopmt's default batch sizes and arrays as input and output."""
    limits = replace(DecodeLimits.on(plan.device), growth=0.0, extra=length)
    decoder = translators.decoder(hop)
    generator = torch_generator(plan.device, "benchmark", "sampling")
    return partial(generate, decoder, Ragged.of(sources), how, limits, generator)
