"""The Python interface: train, evaluate and plan a run, load its translators. `loopmt` imports these names lazily."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from loopmt.progress import Silent
from loopmt.run import Json
from loopmt.workflow.evaluate import EvaluateOptions
from loopmt.workflow.evaluate import evaluate as evaluate_runs
from loopmt.workflow.plan import PlanOptions
from loopmt.workflow.plan import plan as plan_run
from loopmt.workflow.train import TrainOptions
from loopmt.workflow.train import train as train_stages
from loopmt.workflow.translate import Candidate, Generate, Translator
from loopmt.workflow.translate import load as load_translator

__all__ = ["Candidate", "Generate", "Translator", "evaluate", "load", "plan", "train"]


def train(file: Path | str, run: Path | str | None = None, overrides: Iterable[str] = ()) -> Path:
    """Train the stages of an experiment file, or resume them. Return the run's folder when all are finished.

    `run` is runs/NAME by default. `overrides` are strings "section.key=value" with TOML values, as after `--set`.
    """
    options = TrainOptions(Path(file), Path(run) if run is not None else None, tuple(overrides))
    train_stages(options, Silent())
    return options.load()[1].folder


def evaluate(run: Path | str) -> Json:
    """Score every finished stage of a run on every test set, and compare stages with their controls.

    Return the scorecard, which is also written to RUN/scorecard.json.
    """
    return evaluate_runs([Path(run)], EvaluateOptions(), Silent())


def plan(run: Path | str) -> Json:
    """Estimate whether loops will help a run's translators, and which ones.

    Return the plan with a mix to paste, which is also written to RUN/plan.json.
    """
    return plan_run(Path(run), PlanOptions(), Silent())


def load(run: Path | str, stage: str | None = None, device: str | None = None) -> Translator:
    """Load the translators of a stage, on a GPU if there is one. `device` is "cpu", "cuda" or "cuda:N".

    The default stage is the last finished one that is neither the control of another finished stage nor worse than its
    own control.
    """
    return load_translator(Path(run), stage, device)
