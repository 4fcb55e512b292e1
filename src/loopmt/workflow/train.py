"""`loopmt train`: prepares if needed, trains the tree of stages, skips finished ones, resumes interrupted ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from loopmt.config import Experiment, Stage, load
from loopmt.distributed import Processes, device_of_this_process
from loopmt.errors import StoppedError
from loopmt.files.regular import read_given_text
from loopmt.progress import Progress, Silent
from loopmt.run import Run
from loopmt.text.manifest import Manifest
from loopmt.text.prepare import lacks, prepare
from loopmt.workflow.chosen_code import check_names, import_for_training
from loopmt.workflow.importing import check_imported, try_endpoints
from loopmt.workflow.observers import watched
from loopmt.workflow.parallel_stages import train_side_by_side
from loopmt.workflow.pretrained import install, verify_once
from loopmt.workflow.settings import refuse_changes
from loopmt.workflow.signals import StopSignal
from loopmt.workflow.stages import TrainingContext, train_stage
from loopmt.workflow.start_quality import report_starts
from loopmt.workflow.trackers import TRACKERS


class _PausedError(Exception):
    """A stage was paused before its end."""


@dataclass(frozen=True)
class TrainOptions:
    """What the user asked for."""

    file: Path
    run: Path | None = None
    overrides: Sequence[str] = ()
    until: str | None = None
    only: Sequence[str] = ()
    stop_after: float | None = None  # seconds
    jobs: int = 1
    tensorboard: bool = False

    def load(self) -> tuple[Experiment, Run]:
        experiment = load(self.file, self.overrides)
        check_names(experiment)
        return experiment, Run(self.run or Path("runs") / experiment.name, self.file.parent)


def prepare_run(request: TrainOptions, progress: Progress) -> tuple[Run, Manifest]:
    """`loopmt prepare`."""
    experiment, run = request.load()
    run.refuse_unknown_files()
    with run.locked():
        return run, _prepare(experiment, run, request, progress)


def _prepare(experiment: Experiment, run: Run, request: TrainOptions, progress: Progress) -> Manifest:
    install(experiment, run, request.file.parent, progress)
    manifest = prepare(
        experiment.data,
        experiment.vocab,
        experiment.languages,
        experiment.seed,
        request.file.parent,
        run.folder,
        progress,
    )
    verify_once(experiment, run, progress)
    for lack in lacks(manifest.sets, experiment.languages):
        progress.say(lack)
    for finding in manifest.findings:
        progress.say(f"warning: {finding.message}")
    for notice in refuse_changes(experiment, run, manifest):
        progress.say(notice)
    folder = request.file.parent.absolute()
    origin = {"file": str(request.file), "folder": str(folder), "set": list(request.overrides)}
    run.set_up(experiment, read_given_text(request.file), origin)
    return manifest


def train(request: TrainOptions, progress: Progress) -> bool:
    """Train the requested stages; False if the time ended before. A signal raises `StoppedError`."""
    device = device_of_this_process()
    processes = Processes.join(device)
    experiment, run = request.load()
    experiment.asked_for(request.until, request.only)  # refused before anything is written
    import_for_training(experiment)
    if request.tensorboard:
        TRACKERS.find("tensorboard").check()
    stop_signal = StopSignal(time.monotonic() + request.stop_after if request.stop_after is not None else None)
    try:
        if not processes.is_main:
            processes.barrier()
            return _train_tree(run, device, processes, request, stop_signal, Silent())
        run.refuse_unknown_files()
        with run.locked():
            check_imported(experiment, run)
            try_endpoints(experiment, run)
            _prepare(experiment, run, request, progress)
            if experiment.imports("start"):
                context = TrainingContext.open(run, device, Processes())
                report_starts(context, experiment.asked_for(request.until, request.only), progress)
            processes.barrier()
            return _train_tree(run, device, processes, request, stop_signal, progress)
    finally:
        processes.leave()


def _train_tree(
    run: Run,
    device: torch.device,
    processes: Processes,
    request: TrainOptions,
    stop_signal: StopSignal,
    progress: Progress,
) -> bool:
    stages = run.experiment().asked_for(request.until, request.only)
    with stop_signal.listening():
        if request.jobs > 1 and not processes.many:
            finished = train_side_by_side(run, stages, request.jobs, stop_signal, request.tensorboard)
        else:
            context = TrainingContext.open(run, device, processes)
            finished = _one_by_one(context, stages, stop_signal, progress, request.tensorboard)
    if not finished:
        _paused(stop_signal, processes, progress)
    return finished


def _paused(stop_signal: StopSignal, processes: Processes, progress: Progress) -> None:
    """A signal is an error, but not under torchrun, where one process's error would end the others while they save."""
    sentence = f"training paused: {stop_signal.reason}. The same command resumes it."
    if stop_signal.signal is not None and not processes.in_group:
        raise StoppedError(sentence, stop_signal.signal)
    progress.say(sentence)


def _one_by_one(
    context: TrainingContext, stages: Sequence[Stage], stop_signal: StopSignal, progress: Progress, tensorboard: bool
) -> bool:
    try:
        for stage in stages:
            with watched(context, stage, progress, tensorboard) as show:
                if not train_stage(context, stage, stop_signal, show):
                    raise _PausedError  # so that whoever looks on does not take it for done
    except _PausedError:
        return False
    return True
