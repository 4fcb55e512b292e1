"""A stage "loops" on the tiny experiment: its text, its records, its trainer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from loopmt.distributed import Processes
from loopmt.learn.trainer import Trainer
from loopmt.progress import Silent
from loopmt.run import Json, Run, StageFolder
from loopmt.workflow.signals import StopSignal
from loopmt.workflow.stages import TrainingContext, assemble
from loopmt.workflow.train import TrainOptions, prepare_run

ASK = Callable[..., TrainOptions]
CPU = torch.device("cpu")


def stage(mix: str, updates: int = 8, parent: bool = True, **settings: Any) -> str:
    values = {"tokens": 256, "round": 4, "log_every": 4, "validate_every": 8, "validate_sentences": 4, **settings}
    table = ", ".join(
        f"{key} = {str(value).lower() if value in (True, False) else value!r}" for key, value in values.items()
    )
    origin = 'from = "vanilla"\n' if parent else ""
    return f'[[stage]]\nname = "loops"\n{origin}mix = {mix}\nupdates = {updates}\ntrain = {{ {table} }}\n'


def folder_of(request: TrainOptions) -> StageFolder:
    assert request.run is not None
    return Run(request.run).stage("loops")


def records(request: TrainOptions, kind: str = "train") -> list[Json]:
    return [record for record in folder_of(request).records() if record["kind"] == kind]


def assembled(request: TrainOptions) -> Trainer:
    run, _ = prepare_run(request, Silent())
    context = TrainingContext.open(run, CPU, Processes())
    return assemble(context, context.experiment.stage("loops"), folder_of(request), StopSignal(), lambda record: None)
