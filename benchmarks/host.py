"""Host time of an update by part: everything between the store and the learner, which is not run.

    python -m benchmarks.host [--out docs/results/bench/host.json]

It runs the trainer's rounds for six directions with lengths as in Europarl: supervised, and mixed with loops that a
small network generates. Time is processor time, which does not depend on other load; the time of a part excludes the
parts that it calls.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from benchmarks import ours
from benchmarks.loops import PassAllFilter
from benchmarks.machine import describe
from benchmarks.timing import Json, Plan

from loopmt.config import Generate, MixEntry, Train
from loopmt.distributed import Processes
from loopmt.evaluation.validation import ValidationScores
from loopmt.learn import trainer as trainer_module
from loopmt.learn.gather import Gatherer
from loopmt.learn.learner import Learner
from loopmt.learn.reading import TextReader
from loopmt.learn.routes import Route, StageSetup
from loopmt.learn.trainer import Trainer, TrainerHooks
from loopmt.path import LanguagePath, Pattern
from loopmt.rng import numpy_generator
from loopmt.run import StageFolder
from loopmt.text.batch import Batch, choose_lengths, make_shapes
from loopmt.text.store import Side, Store, StoreWriter, row_indices
from loopmt.text.vocab import Vocab
from loopmt.translate import networks as networks_module
from loopmt.translate.filters import FilterContext, LanguageFrequencies, SyntheticTextFilter
from loopmt.translate.networks import NetworkStack
from loopmt.translate.protocol import DecodeLimits
from loopmt.translate.walker import Translators

LANGUAGES = ("en", "fr", "es")
LONGEST = 128
SIZES = {"mean": 3.2, "spread": 0.6}  # of the logarithm of a sentence's subwords: 29 on average, a twentieth over 66
PARTS: tuple[tuple[Any, str, str], ...] = (
    (TextReader, "read", "reading rows"),
    (Gatherer, "_mixed", "interleaving"),
    (SyntheticTextFilter, "__call__", "filters"),
    (networks_module, "generate_up_to", "decoding"),
    (Gatherer, "_generated_text", "walking"),
    (trainer_module, "pack", "packing"),
    (Trainer, "_account", "accounting"),
)


@dataclass
class Stopwatch:
    """Seconds by part; in nested calls only the innermost part is counted."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _inside: list[float] = field(default_factory=list)  # seconds of inner parts, for each running part

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        self._inside.append(0.0)
        began = time.process_time()
        yield
        whole = time.process_time() - began
        self.seconds[name] += whole - self._inside.pop()
        if self._inside:
            self._inside[-1] += whole

    def around(self, work: Callable[..., Any], name: str) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            with self.part(name):
                return work(*args, **options)

        return timed

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Measure the parts while they run."""
        with ExitStack() as stack:
            for owner, name, part in PARTS:
                stack.enter_context(patch.object(owner, name, self.around(getattr(owner, name), part)))
            yield


def europarl_like(folder: Path, vocab: Vocab, rows: int) -> Store:
    """Bitext of every pair and monolingual text, log-normal lengths; a pair's two sides differ by a fifth or so."""
    writer = StoreWriter(folder)
    low, high = ours.first_id(vocab), vocab.size(LANGUAGES[0])
    for name in ("en-fr", "en-es", "fr-es", *LANGUAGES):
        draw = numpy_generator("benchmark", "host", name)
        common = draw.normal(SIZES["mean"], SIZES["spread"], rows)
        with writer.sides(name, name.split("-")) as sides:
            for side in sides:
                lengths = np.exp(common + draw.normal(0, 0.15, rows)).clip(1, LONGEST - 4).astype(np.int32)
                side.append(draw.integers(low, high, int(lengths.sum())).astype(np.uint16), lengths)
    writer.close()
    return Store.open(folder)


def trainer_of(translators: NetworkStack, store: Store, paths: Sequence[str], train: Train, folder: Path) -> Trainer:
    """A trainer as in a stage, with batch shapes fitted to the lengths."""
    entries = [MixEntry(path=path, generate=Generate(how="greedy")) for path in paths]
    found = [(entry, path) for entry in entries for path in Pattern.parse(entry.path).expand(LANGUAGES)]
    routes = [
        Route(number, LanguagePath.parse(str(path)), entry, entries.index(entry))
        for number, (entry, path) in enumerate(found)
    ]
    histogram = np.bincount(np.maximum(*(side.lengths() for side in store.bitext("en", "fr"))) + 1)
    shapes = make_shapes(choose_lengths(histogram, train.shapes, LONGEST), train.tokens)
    samples = {one: store.mono(one).take(np.arange(min(len(store.mono(one)), 20_000))) for one in LANGUAGES}
    text_filter = PassAllFilter(
        FilterContext(LONGEST, LanguageFrequencies.learn(samples, translators.layout.target_size))
    )
    key = (ours.SEED, "host")
    setup = StageSetup(routes, translators, train, shapes, Processes(), key, updates=1_000_000)
    gatherer = Gatherer(setup, store, Translators(translators), text_filter)
    gatherer.limits = replace(DecodeLimits.on(translators.device), growth=1.0, extra=0)  # as long as the source
    learner = Learner(translators, train, len(routes), Processes())
    hooks = TrainerHooks(lambda: ValidationScores({}, {}))
    stage = StageFolder(folder / "stage")
    return Trainer(setup, gatherer, learner, stage, hooks)


def rounds(trainer: Trainer, count: int) -> Json:
    """Microseconds per update by part, the median of rounds after a warm-up."""
    found: list[tuple[dict[str, float], int]] = []
    for _ in range(count + 1):
        watch = Stopwatch()
        with watch.watching(), watch.part("the rest"):
            batches = trainer._batches()
        places: dict[tuple[int, ...], torch.Tensor] = {}
        with watch.part("copying into tensors"):
            for batch in batches:
                copied(batch, places)
        trainer.progress.round += 1
        trainer.progress.update += len(batches)
        found.append((watch.seconds, len(batches)))
    parts = dict.fromkeys(name for seconds, _ in found for name in seconds)
    medians = {
        part: statistics.median(1e6 * seconds[part] / updates for seconds, updates in found[1:]) for part in parts
    }
    decoding = medians.pop("decoding", 0.0)
    whole = {"host": sum(medians.values()), "decoding": decoding}
    return {"microseconds_per_update": {part: round(value, 1) for part, value in (medians | whole).items()}}


def copied(batch: Batch, places: dict[tuple[int, ...], torch.Tensor]) -> None:
    """Copy into fixed tensors, as a captured update does."""
    for number, table in enumerate((batch.source_NBL, batch.target_NBL, batch.paths_NB, batch.groups_NB)):
        key = (number, *table.shape)
        if key not in places:
            places[key] = torch.zeros(table.shape, dtype=torch.long)
        places[key].copy_(torch.from_numpy(table))


def fetching(trainer: Trainer, store: Store, updates: int) -> Json:
    """The time to order and fetch the rows of one update, relative to the update."""
    batches = trainer._batches()[: updates + 1]
    sides = [store.bitext(*route.path.ends) for route in trainer.routes]
    took: list[tuple[float, float]] = []
    for number, batch in enumerate(batches):
        rows = int((batch.paths_NB >= 0).sum()) // len(sides)
        began = time.process_time()
        for source, target in sides:
            fetched(source, target, number * rows, rows)
        read = time.process_time()
        trainer.learner.update(batch, number + 1, 1e-4)
        took.append((read - began, time.process_time() - read))
    fetch, update = (statistics.median(part) for part in zip(*took[1:], strict=True))
    return {"fetch_seconds": fetch, "update_seconds": update, "share": fetch / update, "promise": "share under 0.02"}


def fetched(source: Side, target: Side, start: int, rows: int) -> None:
    indices = row_indices(len(target), start, rows, "benchmark")
    source.take(indices), target.take(indices)


def measure(plan: Plan, folder: Path) -> Json:
    tokens, rows = plan.pick(0, 4096, 256), plan.pick(0, 40_000, 400)
    setting = ours.Setting("tiny", 8_000, LANGUAGES)
    vocab = setting.vocab(folder, plan)
    store = europarl_like(folder / "store", vocab, rows)
    translators = setting.build(folder, plan)
    train = Train(tokens=tokens, round=plan.pick(0, 16, 2), max_length=LONGEST, learning_rate=1e-4, warmup=1)
    supervised = trainer_of(translators, store, ["X>Y"], train, folder)
    small = setting.model(replace(plan, tiny=True))  # the host's work does not depend on the network
    generators = NetworkStack(small, vocab, translators.hops, plan.device)
    generators.start_fresh(ours.SEED)
    mixed = trainer_of(generators, store, ["X>Y", "X>Y>X"], train, folder)
    return {
        "machine": {**describe(plan), "command": "python -m benchmarks.host"},
        "shape": f"six directions, {tokens} tokens each, rounds of {train.round} updates, preset tiny, 8,000 subwords",
        "six directions, X>Y": rounds(supervised, plan.pick(0, 9, 1)),
        "six directions, X>Y and X>Y>X": rounds(mixed, plan.pick(0, 1, 1)),
        "fetching rows against a CPU update of preset tiny": fetching(supervised, store, plan.pick(0, 3, 1)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write the figures to this file")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to check that everything runs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        content = json.dumps(measure(Plan(torch.device("cpu"), tiny=options.tiny), Path(folder)), indent=1)
    print(content)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
