"""`loopmt train --jobs N`: trains stages that do not depend on each other in separate processes.

The weights of a stage depend on its settings and its parent only, so the result is the same as one after another.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path

from loopmt.config import Stage
from loopmt.distributed import Processes, device_of_this_process
from loopmt.errors import LoopmtError, RunError
from loopmt.learn.threads import share_cores
from loopmt.progress import Lines
from loopmt.run import Run
from loopmt.workflow.observers import watched
from loopmt.workflow.signals import StopSignal
from loopmt.workflow.stages import TrainingContext, train_stage

_INTERVAL = 20.0  # seconds between two lines that say how far a stage is: several speak at once
_PAUSED = 75  # exit code of a stage that stopped before its end
_UNSTARTED = (-signal.SIGINT, -signal.SIGTERM)  # of a process stopped before it handles signals: nothing to save


def train_side_by_side(
    run: Run, stages: Sequence[Stage], jobs: int, stop_signal: StopSignal, tensorboard: bool
) -> bool:
    """Train the stages, at most `jobs` at a time, each after its parent; False if any was paused."""
    waiting = list(stages)
    working: dict[str, BaseProcess] = {}
    stopped = False
    done = {stage.name for stage in stages if run.stage(stage.name).finished}
    jobs = max(1, min(jobs, len(stages) - len(done)))  # each process gets its share of the cores
    while waiting or working:
        if stop_signal.asked() and not stopped:
            waiting, stopped = [], True
            for process in working.values():
                process.terminate()
        for stage in [stage for stage in waiting if stage.from_ is None or stage.from_ in done][: jobs - len(working)]:
            waiting.remove(stage)
            working[stage.name] = _begin(run.folder, stage.name, stop_signal.deadline, tensorboard, jobs)
        time.sleep(0.1)
        for name, process in [(name, process) for name, process in working.items() if not process.is_alive()]:
            del working[name]
            if process.exitcode == 0:
                done.add(name)
            elif process.exitcode == _PAUSED or (stop_signal.asked() and process.exitcode in _UNSTARTED):
                waiting = []
                if not stop_signal.asked():  # the signal came to that process alone
                    stop_signal.reason = f'stage "{name}" was asked to stop'
            else:
                _give_up(name, process)
    return done.issuperset(stage.name for stage in stages)


def _begin(folder: Path, name: str, deadline: float | None, tensorboard: bool, jobs: int) -> BaseProcess:
    settings = (folder, name, deadline, tensorboard, jobs, os.getpid())
    process = multiprocessing.get_context("spawn").Process(target=_work, args=settings)
    resource_tracker.ensure_running()  # starting it later would take the mask back
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a child that still imports would say where
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process


def _give_up(name: str, process: BaseProcess) -> None:
    for other in multiprocessing.active_children():
        other.terminate()
    raise RunError(f'stage "{name}" {_end_of(process)}; the same command resumes it from its last checkpoint.')


def _end_of(process: BaseProcess) -> str:
    code = process.exitcode or 0
    if code >= 0:
        return f"failed with exit code {code} (what it said is above)"
    number = -code
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    why = ", as a machine does that runs out of memory" if number == signal.SIGKILL else ""
    return f"was killed by {name}{why}"


def _work(folder: Path, name: str, deadline: float | None, tensorboard: bool, jobs: int, parent: int) -> None:
    """In the child process: one stage, as `loopmt train` would train it."""
    share_cores(jobs)
    progress = Lines(interval=_INTERVAL)
    stop_signal = StopSignal(deadline, orphaned=lambda: os.getppid() != parent)
    try:
        context = TrainingContext.open(Run.open(folder), device_of_this_process(), Processes())
        stage = context.experiment.stage(name)
        with stop_signal.listening(), watched(context, stage, progress, tensorboard) as show:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            if not train_stage(context, stage, stop_signal, show):
                raise SystemExit(_PAUSED)  # from within, so that whoever looks on does not take it for done
    except LoopmtError as error:
        progress.say(f"loopmt: {error}")
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:  # asked twice: what the round had done is done again when it resumes
        raise SystemExit(_PAUSED) from None
