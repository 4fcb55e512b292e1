"""Everyone who looks on while a stage is trained: the terminal, TensorBoard, the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec

from loopmt.config import Stage
from loopmt.progress import Progress
from loopmt.run import Json
from loopmt.workflow.display import Display
from loopmt.workflow.report import write_report
from loopmt.workflow.stages import Site
from loopmt.workflow.tensorboard import curves


def _rewrite_report(site: Site, record: Json) -> None:
    if record["kind"] == "valid":
        write_report(site.run.folder)


@contextmanager
def watched(site: Site, stage: Stage, progress: Progress, tensorboard: bool) -> Iterator[Callable[[Json], None]]:
    """What to call with every record of the stage."""
    display = Display(stage, site.experiment.training(stage), progress)
    with ExitStack() as stack:
        stack.enter_context(display.shown())
        viewers: list[Callable[[Json], None]] = [display.show]
        if tensorboard and site.processes.first:
            viewers.append(stack.enter_context(curves(site.run.stage(stage.name), site.run.folder)))
        if site.processes.first and find_spec("matplotlib") and find_spec("jinja2"):
            viewers.append(partial(_rewrite_report, site))

        def show(record: Json) -> None:
            for viewer in viewers:
                viewer(record)

        yield show
