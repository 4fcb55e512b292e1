"""Complete rounds: reading, generating, filtering, packing and learning."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from benchmarks import ours
from benchmarks.timing import Measurement, Plan, Work, compare, synchronise

from loopmt.config import Generate, MixEntry
from loopmt.distributed import Processes
from loopmt.learn.gather import Gatherer
from loopmt.learn.learner import Learner
from loopmt.learn.reading import ReadPosition
from loopmt.learn.routes import Route, StageSetup
from loopmt.path import Hop, LanguagePath
from loopmt.text.batch import BatchShape, Rows, choose_lengths, make_shapes
from loopmt.text.packing import pack
from loopmt.text.store import Store
from loopmt.translate.filters import FilterContext, Findings, LanguageFrequencies, Mask, SyntheticTextFilter
from loopmt.translate.networks import NetworkStack
from loopmt.translate.protocol import DecodeLimits, Sentences
from loopmt.translate.walker import Translators

_RATE = 1e-4
_HOW = Generate(temperature=1.0, top_k=0)  # from the whole vocabulary, as in the other systems


class PassAllFilter(SyntheticTextFilter):
    """Runs all filters but drops nothing: outputs are cut off and in no language here."""

    def __call__(self, sources: Sentences, outputs: Sentences, ended: Mask, hop: Hop) -> Findings:
        found = super().__call__(sources, outputs, ended, hop)
        return Findings({reason: np.zeros_like(bad) for reason, bad in found.reasons.items()}, found.signs)


@dataclass
class Rounds:
    """Rounds as the trainer runs them."""

    gatherer: Gatherer
    learner: Learner
    weights: Mapping[int, float]
    plan: Plan
    number: int = 0
    streams: dict[int, ReadPosition] = field(default_factory=dict)
    carried: list[Rows] = field(default_factory=list)
    seconds: list[tuple[float, float]] = field(default_factory=list)  # of gathering, and of the round

    def run(self, wait: bool = True) -> int:
        """Run a round and return its target tokens; without waiting, the next is gathered while the device learns."""
        began = time.perf_counter()
        updates = self.learner.train.round
        gathered = self.gatherer.round(self.number, self.weights, self.streams, carried=self.carried)
        packed = pack(gathered.networks, self.gatherer.setup.shapes, updates, "benchmark", self.number)
        batches, self.carried = packed.batches, packed.left
        if len(batches) != updates:
            raise RuntimeError(f"a round of {len(batches)} updates, not {updates}")
        for number, batch in enumerate(batches, 1 + self.number * updates):
            self.learner.update(batch, number, _RATE)
        if wait:
            synchronise(self.plan)
        self.number += 1
        self.streams |= gathered.streams
        self.seconds.append((gathered.seconds, time.perf_counter() - began))
        return sum(int(batch.target_tokens.sum()) for batch in batches)


def rounds(
    translators: NetworkStack,
    store: Store,
    paths: Sequence[str],
    shapes: Sequence[BatchShape],
    updates: int,
    plan: Plan,
    captured: bool,
) -> Rounds:
    """All paths at equal weights."""
    tokens = max(shape.rows * shape.length for shape in shapes)
    learner = ours.learner(translators, plan, captured, len(paths), tokens=tokens, round=updates)
    entries = [MixEntry(path=path, generate=_HOW) for path in paths]
    routes = [Route(number, LanguagePath.parse(entry.path), entry, number) for number, entry in enumerate(entries)]
    text_filter = PassAllFilter(FilterContext(learner.train.max_length, _frequencies(translators, store)))
    setup = StageSetup(routes, translators, learner.train, shapes, Processes(), ("benchmark",))
    gatherer = Gatherer(setup, store, Translators(translators), text_filter)
    gatherer.limits = replace(DecodeLimits.on(plan.device), growth=1.0, extra=0)  # as long as the source
    return Rounds(gatherer, learner, dict.fromkeys(range(len(paths)), 1.0), plan)


def _frequencies(translators: NetworkStack, store: Store) -> LanguageFrequencies | None:
    languages = [one for one in translators.vocab.languages if store.has_mono(one)]
    samples = {one: store.mono(one).take(np.arange(min(len(store.mono(one)), 20_000))) for one in languages}
    return LanguageFrequencies.learn(samples, translators.layout.target_size) if samples else None


def dual(plan: Plan, folder: Path) -> list[Measurement]:
    """Both directions, half of the target tokens with generated sources, compared with bitext only."""
    rows, length, updates = plan.pick(512, 8, 8), 32, plan.pick(16, 2, 2)
    words = length - 3  # the gatherer reserves EOS and two tags
    translators = ours.Setting("base", 32_000).build(folder, plan)
    store = ours.random_store(folder / "dual", translators.vocab, plan.pick(40_000, 400, 100), (words, words))
    shapes = make_shapes([length], rows * length)
    paths = ("en>fr", "fr>en", "fr>en>fr", "en>fr>en")
    mixes = {"loopmt": paths, "loopmt, bitext only": paths[:2]}
    ready = {name: rounds(translators, store, mix, shapes, updates, plan, plan.cuda) for name, mix in mixes.items()}
    shape = f"transformer_base, 2 directions, {translators.layout.target_size:,} subwords, {rows} x {length} an update"
    amount = 2 * updates * rows * (words + 1)
    measurement = Measurement("dual learning, end to end", "target tokens/s", amount, shape)
    compare(measurement, {name: partial(_given, one.run) for name, one in ready.items()}, plan)
    shares = [gather / whole for gather, whole in ready["loopmt"].seconds[-plan.repeats :]]
    measurement.extra = {"gathering_share": statistics.median(shares), "generated_share": 0.5}
    return [measurement]


def six_directions(plan: Plan, folder: Path) -> list[Measurement]:
    """Six small networks learn from bitext: captured graphs against eager steps."""
    setting = ours.Setting("small", 8_000, ("en", "fr", "es"))
    tokens, updates, (shortest, longest) = plan.pick(4096, 512, 256), plan.pick(32, 2, 2), (5, 40)
    repeats = plan.pick(4, 1, 1)
    store = ours.random_store(
        folder / "six", setting.vocab(folder, plan), plan.pick(20_000, 1_000, 200), (shortest, longest), mono=False
    )
    histogram = np.bincount(np.arange(shortest, longest + 1) + 1)
    shapes = make_shapes(choose_lengths(histogram, 6, longest + 4), tokens)
    paths = [f"{one}>{other}" for one in setting.languages for other in setting.languages if one != other]

    def work(captured: bool) -> Work:
        translators = setting.build(folder, plan, fuse="kernels" if captured else "no")
        ready = rounds(translators, store, paths, shapes, updates, plan, captured)
        return lambda: sum(ready.run(wait=False) for _ in range(repeats))

    systems = {"loopmt, eager": partial(work, False)}
    if plan.cuda:
        systems = {"loopmt": partial(work, True), **systems}
    shape = (
        f"preset small, 6 directions, {plan.pick(8_000, 8_000, 400):,} subwords, {tokens} tokens each, data included"
    )
    return [compare(Measurement("six small networks", "updates/s", repeats * updates, shape), systems, plan)]


def _given(work: Work) -> Work:
    return work
