"""Everyone who looks on while a stage is trained: the terminal, TensorBoard, the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

from loopmt.config import Experiment, Stage
from loopmt.progress import Progress
from loopmt.run import Json, Run
from loopmt.workflow.display import Display
from loopmt.workflow.report import write_report
from loopmt.workflow.stages import TrainingContext
from loopmt.workflow.tensorboard import curves

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
    """What to call with every record of the stage."""
    begun = max(context.run.stage(stage.name).updates(), default=0)
    train, number = context.experiment.training(stage), _number(context.experiment, stage)
    display = Display(stage, train, progress, number, begun)
    with ExitStack() as stack:
        stack.enter_context(display.shown())
        viewers: list[Callable[[Json], None]] = [display.show]
        if tensorboard and context.processes.is_main:
            viewers.append(stack.enter_context(curves(context.run.stage(stage.name), context.run.folder)))
        if context.processes.is_main and find_spec("matplotlib") and find_spec("jinja2"):
            reporter = _Reporter(context.run)
            viewers.append(reporter)
            stack.callback(reporter.catch_up)

        def show(record: Json) -> None:
            for viewer in viewers[:1] if record["kind"] in _FOR_THE_EYE else viewers:
                viewer(record)

        yield show
