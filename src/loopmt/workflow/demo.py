"""`loopmt demo`: two languages that share no sentence pair learn each other through a third, on two CPU cores."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from loopmt.errors import LoopmtError
from loopmt.path import Hop
from loopmt.progress import Progress
from loopmt.run import Json, Run
from loopmt.text.store import Store
from loopmt.workflow.evaluate import EvaluateOptions, evaluate
from loopmt.workflow.report import write_report
from loopmt.workflow.samples import Samples
from loopmt.workflow.stages import exact_agreement
from loopmt.workflow.train import TrainOptions, train
from loopmt.workflow.translate import load

CONTROL, LOOPS = "longer", "loops"
PAIR = (Hop("fr", "es"), Hop("es", "fr"))  # the directions without any bitext
_WATCHED = ("vanilla", LOOPS)  # the stages whose sentences are shown while they train
_TRIED = 100  # test sentences that examples are looked for among
_LOOK_EVERY = 2.0  # seconds between two looks for newer weights


@dataclass(frozen=True)
class DemoExample:
    """A sentence that the control gets wrong and the loops right."""

    hop: Hop
    source: str
    control: str
    loops: str


@dataclass(frozen=True)
class DemoOutcome:
    run: Path
    scorecard: Json
    examples: list[DemoExample]
    seconds: float


def demo(folder: Path, overrides: Sequence[str], progress: Progress) -> DemoOutcome | None:
    """Draw the text, train and evaluate; None if training was paused before its end."""
    started = time.monotonic()
    with resources.as_file(resources.files("loopmt") / "demo.toml") as file, _sentences_shown(folder, progress):
        options = TrainOptions(file, folder, overrides, jobs=min(2, os.cpu_count() or 1))
        if not train(options, progress):
            return None
    scorecard = evaluate([folder], EvaluateOptions(beam=1), progress)
    write_report(folder)
    return DemoOutcome(folder, scorecard, find_examples(Run.open(folder)), time.monotonic() - started)


@contextmanager
def _sentences_shown(folder: Path, progress: Progress) -> Iterator[None]:
    """While the stages train, show how their newest weights translate a French sentence."""
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(folder, progress, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(folder: Path, progress: Progress, over: threading.Event) -> None:
    samples, shown = Samples(Run(folder)), dict[str, int]()
    while not over.wait(_LOOK_EVERY):
        for stage in _WATCHED:
            told = _newest(samples, stage)
            if told is not None and told["update"] > shown.get(stage, 0):  # random weights have nothing to show
                shown[stage] = told["update"]
                for line in _lines(stage, told):
                    progress.say(line)


def _newest(samples: Samples, stage: str) -> Json | None:
    """Sample translations are optional: skip a run that does not exist yet, or a file that is being written."""
    try:
        return samples(stage)
    except LoopmtError:
        return None


def _lines(stage: str, told: Json) -> Iterator[str]:
    for row in told["rows"]:
        if row["direction"] == str(PAIR[0]):
            yield f"{stage} at update {told['update']:,}:  {row['source']}  ->  {row['said'] or '(nothing)'}"


def find_examples(run: Run, most: int = 2) -> list[DemoExample]:
    """Test sentences of the pair without bitext that the control gets wrong and the loops right."""
    agree, store = exact_agreement(run.experiment()), Store.open(run.folder / "store")
    assert agree is not None, "the demo is drawn from the built-in languages"
    control, loops = (load(run.folder, stage) for stage in (CONTROL, LOOPS))
    found: list[DemoExample] = []
    for hop in PAIR:
        sources = (store.pair_texts("test", hop.source, hop.target) or ([], []))[0][:_TRIED]
        outputs = (translator.translate(sources, str(hop), beam=1) for translator in (control, loops))
        right = (
            DemoExample(hop, source, one, other)
            for source, one, other in zip(sources, *outputs, strict=True)
            if agree(source, hop.source, other, hop.target) and not agree(source, hop.source, one, hop.target)
        )
        found += itertools.islice(right, most)
    return found
