"""Observers of a stage in training: the terminal, trackers, the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import fmean

from loopmt.config import Experiment, Stage, Train
from loopmt.evaluation.means import validated
from loopmt.learn.alarms import place_of
from loopmt.planning.loop_choice import chosen_kinds
from loopmt.progress import Advance, Progress
from loopmt.run import Json, Run
from loopmt.workflow.report import write_report
from loopmt.workflow.settings import stage_settings
from loopmt.workflow.stages import TrainingContext
from loopmt.workflow.trackers import TrackedStage, tracking

_LISTED = 12  # directions that a line of the log names
_ALARMS = 6  # that are shown of an update
_SHARE = 0.05  # of the time that the report may take
_FOR_THE_EYE = {"update", "resumed", "pausing"}  # of no record, often, or from a signal's handler: nothing slow


def _number(experiment: Experiment, stage: Stage) -> str:
    names = [each.name for each in experiment.stages]
    return f"stage {names.index(stage.name) + 1} of {len(names)}, " if len(names) > 1 else ""


@dataclass
class _Reporter:
    """Rewrites the report at validations, as often as its share of the time allows, and at the end."""

    run: Run
    due: float = 0.0
    behind: bool = False

    def __call__(self, record: Json) -> None:
        self.behind |= record["kind"] == "valid"
        if time.monotonic() >= self.due:
            self.catch_up()

    def catch_up(self) -> None:
        if self.behind:
            began = time.monotonic()
            write_report(self.run.folder)
            self.due, self.behind = began + (time.monotonic() - began) / _SHARE, False


@contextmanager
def watched(
    context: TrainingContext, stage: Stage, progress: Progress, tensorboard: bool
) -> Iterator[Callable[[Json], None]]:
    """A function to call with every record of the stage."""
    begun = max(context.run.stage(stage.name).updates(), default=0)
    train, number = context.experiment.training(stage), _number(context.experiment, stage)
    display = Display(stage, train, progress, number, begun)
    with ExitStack() as stack:
        stack.enter_context(display.shown())
        viewers: list[Callable[[Json], None]] = [display.show]
        names = dict.fromkeys([*train.track, *(["tensorboard"] if tensorboard else [])])
        if names and context.processes.is_main:
            viewers.append(stack.enter_context(tracking(list(names), _tracked(context, stage))))
        if context.processes.is_main and find_spec("matplotlib") and find_spec("jinja2"):
            reporter = _Reporter(context.run)
            viewers.append(reporter)
            stack.callback(reporter.catch_up)

        def show(record: Json) -> None:
            for viewer in viewers[:1] if record["kind"] in _FOR_THE_EYE else viewers:
                viewer(record)

        yield show


def _tracked(context: TrainingContext, stage: Stage) -> TrackedStage:
    settings = stage_settings(context.experiment, context.run, context.fingerprint, stage)
    folder = context.run.stage(stage.name)
    return TrackedStage(
        context.experiment.name, context.run.folder, folder, settings, max(folder.updates(), default=None)
    )


class Display:
    """Turns the trainer's records into a progress bar and lines."""

    def __init__(self, stage: Stage, train: Train, progress: Progress, number: str = "", begun: int = 0) -> None:
        self.stage = stage
        self.total = stage.updates or train.max_updates
        self.progress = progress
        self.title = f"{number}training {stage.name}"
        self.update = begun
        self._began = False
        self._alarms, self._alarmed = 0, -1  # how many, at which update
        self._advance: Advance = lambda steps: None

    @contextmanager
    def shown(self) -> Iterator[None]:
        with self.progress.track(self.title, self.total, self.update) as self._advance:
            yield

    def show(self, record: Json) -> None:
        if record["kind"] in ("update", "resumed", "train"):
            self._advance(record["update"] - self.update)
            self.update = record["update"]
        if record["kind"] == "train":
            self.progress.say(self._training(record))
        elif record["kind"] == "resumed":
            self.progress.say(f"{self.stage.name}: resuming at update {self.update:,} of {self._last()}")
        elif record["kind"] == "notice":
            self.progress.say(f"{self.stage.name}: {record['text']}")
        elif record["kind"] == "threads":
            self.progress.say(self._threads(record))
        elif record["kind"] == "pausing":
            self.progress.say(self._pausing(record))
        elif record["kind"] == "valid":
            self.progress.say(self._validation(record))
        elif record["kind"] == "choice":
            self.progress.say(f"{self._place(record)}  {self._choice(record)}")
        elif record["kind"] == "alarm":
            self._alarm(record)

    def _alarm(self, record: Json) -> None:
        """The first alarms of an update; a collapse may raise one for every hop."""
        self._alarms = self._alarms + 1 if record["update"] == self._alarmed else 1
        self._alarmed = record["update"]
        line = f"{self._place(record)}  ALARM  {place_of(record['path'])}, hop {record['hop']}: {record['what']}"
        if self._alarms <= _ALARMS:
            self.progress.say(line)
        elif self._alarms == _ALARMS + 1:
            self.progress.say(f"{self._place(record)}  ALARM  more hops: metrics.jsonl of the stage has all alarms")

    def _threads(self, record: Json) -> str:
        """The number of CPU threads that was chosen, and the seconds of an update with each number."""
        times = ", ".join(f"{seconds:.3g} s with {number}" for number, seconds in record["seconds_per_update"].items())
        chosen = f"{record['threads']} CPU thread{'s' * (record['threads'] != 1)}"
        return f"{self.stage.name}: using {chosen}: an update takes {times} (to choose yourself, set OMP_NUM_THREADS)"

    def _place(self, record: Json) -> str:
        return f"{self.stage.name} {record['update']:>7,} of {self._last()}"

    def _last(self) -> str:
        return f"{self.total:,}" if self.stage.updates else f"at most {self.total:,}"

    def _choice(self, record: Json) -> str:
        """The chosen routes with their shares; many are counted."""
        worth: Json = record["worth"]
        chosen = [f"{path} {one['share']:.2f}" for path, one in worth.items() if one["share"] > 0]
        if len(chosen) > _LISTED:
            kinds = ", ".join(f"{kind} {count}" for kind, count in chosen_kinds(worth).items())
            chosen = [f"directions that learn from {kinds}"]
        measured = f"measured {record['measured']} of {record['candidates']} routes in {record['seconds']:.1f} s"
        return f"chosen: {'  '.join(chosen) or 'none, bitext alone'}  ({measured})"

    def _pausing(self, record: Json) -> str:
        return (
            f"{self.stage.name}: {record['reason']}; pausing after this round of up to {record['round']:,} updates, "
            "saved (only whole rounds resume exactly). Ctrl-C again stops at once and loses what was learnt since the "
            "last checkpoint."
        )

    def _training(self, record: Json) -> str:
        loss = sum(record["loss"].values()) / max(len(record["loss"]), 1)
        parts = [f"loss {loss:.3f}", f"{record['tokens_per_second']:,.0f} tokens/s"]
        if record["generated_tokens"]:
            share, speed = record["generate_share"], record["generated_per_second"]
            parts.append(f"generating {share:.0%} of the time, {speed:,.0f} tokens/s")
        if not self._began:
            self._began = True
            parts.append(f"first update after {record['first_update']:.1f} s")
        return f"{self._place(record)}  {'  '.join(parts)}"

    def _validation(self, record: Json) -> str:
        hops = validated(record)
        parts = [f"valid BLEU {record['mean_bleu']:.2f}" + (f" (mean of {len(hops)})" if len(hops) > 1 else "")]
        if record.get("selected"):
            parts.append(f"{record['select_by']} {record['mean_selected']:.3f}")
        if record["mean_accuracy"] is not None:
            parts.append(f"exact {record['mean_accuracy']:.3f}")
        return f"{self._place(record)}  {', '.join(parts)}  ({_by_direction(record['bleu'], hops)})"


def _by_direction(bleu: Mapping[str, float], trained: Collection[str]) -> str:
    """Every direction; if they are too many for a line, the mean into each language."""
    if len(bleu) <= _LISTED:
        marks = {hop: "" if hop in trained else " (not trained)" for hop in bleu}
        return "  ".join(f"{hop} {score:.1f}{marks[hop]}" for hop, score in bleu.items())
    into: dict[str, list[float]] = {}
    for hop in trained:
        into.setdefault(hop.partition(">")[2], []).append(bleu[hop])
    return "into " + "  ".join(f"{language} {fmean(scores):.1f}" for language, scores in into.items())
