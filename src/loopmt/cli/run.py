"""Verbs that work on an experiment: prepare and train."""

from __future__ import annotations

from typing import Annotated

import typer

from loopmt.cli.options import ExperimentFile, RunOption, SetOption, complete_planned_stage, seconds
from loopmt.progress import visible_message


def prepare(file: ExperimentFile, run: RunOption = None, override: SetOption = None) -> None:
    """Clean the text, learn the vocabulary, write the token store.

    A second call with nothing changed does nothing.

    Example: loopmt prepare examples/multi30k.toml --run runs/multi30k
    """
    from loopmt.commands import resume_command
    from loopmt.progress import standard
    from loopmt.workflow.train import TrainOptions, prepare_run

    found, _ = prepare_run(TrainOptions(file, run, override or ()), standard())
    typer.echo(visible_message(f"prepared in {found.folder}; next: {resume_command(found, found.experiment())}"))


def train(
    file: ExperimentFile,
    run: RunOption = None,
    override: SetOption = None,
    until: Annotated[
        str | None,
        typer.Option("--until", help="Train no further than this stage.", autocompletion=complete_planned_stage),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="Train this stage and those it comes from, no others; may be repeated.",
            autocompletion=complete_planned_stage,
        ),
    ] = None,
    stop_after: Annotated[str | None, typer.Option("--stop-after", help="Pause after a time: 90s, 9m, 1.5h.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Number of stages that are trained at the same time.")] = 1,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard curves to RUN/tensorboard, as train.track does.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print what would be trained, on which text, and how long it takes; then stop."),
    ] = False,
) -> None:
    """Train the stages of an experiment; the same command resumes.

    Prepares the text first if necessary. Under torchrun it uses several GPUs. To train a finished stage longer, add a
    stage with from = "NAME".

    Example: loopmt train examples/multi30k.toml --set train.tokens=2048 --stop-after 9m
    """
    from loopmt.distributed import is_main_process
    from loopmt.progress import standard
    from loopmt.workflow.show import after_training
    from loopmt.workflow.train import TrainOptions, train

    request = TrainOptions(file, run, override or (), until, only or (), seconds(stop_after), jobs, tensorboard)
    if dry_run:
        from loopmt.workflow.dry_run import describe

        describe(request, standard())
        return
    if train(request, standard()) and is_main_process():
        typer.echo(visible_message(after_training(request.load()[1])))
