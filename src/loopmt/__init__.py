"""Translators among K languages, trained by closing loops. The public face, and nothing else.

    >>> import loopmt
    >>> run = loopmt.train("demo.toml")
    >>> loopmt.evaluate(run)["stages"]
    >>> translator = loopmt.load(run)
    >>> translator.translate(["The cat sleeps."], "en>fr")
    >>> translator.score([("The cat sleeps.", "Le chat dort.")], "en>fr")

Importing this module is quick: torch comes with the first use.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopmt.errors import LoopmtError

if TYPE_CHECKING:
    from loopmt.workflow.translate import Candidate, Generate, Translator

    __version__: str

__all__ = [
    "Candidate",
    "Generate",
    "LoopmtError",
    "Translator",
    "__version__",
    "evaluate",
    "load",
    "plan",
    "train",
]

_LAZY = {"Candidate", "Generate", "Translator"}


def train(file: Path | str, run: Path | str | None = None, overrides: Iterable[str] = ()) -> Path:
    """Train the stages of an experiment file, or go on with them; the run's folder, when all are finished.

    `run` is runs/NAME by default; `overrides` are "section.key=value" with TOML values, as after `--set`.
    """
    from loopmt.progress import Silent
    from loopmt.workflow.train import TrainOptions
    from loopmt.workflow.train import train as train_stages

    request = TrainOptions(Path(file), Path(run) if run is not None else None, tuple(overrides))
    train_stages(request, Silent())
    return request.load()[1].folder


def evaluate(run: Path | str) -> dict[str, Any]:
    """Every finished stage of a run on every test set, with its comparisons; also written to RUN/scorecard.json."""
    from loopmt.progress import Silent
    from loopmt.workflow.evaluate import EvaluateOptions
    from loopmt.workflow.evaluate import evaluate as evaluate_runs

    return evaluate_runs([Path(run)], EvaluateOptions(), Silent())


def plan(run: Path | str) -> dict[str, Any]:
    """Whether loops will help a run's translators, which, and a mix to paste; also written to RUN/plan.json."""
    from loopmt.progress import Silent
    from loopmt.workflow.plan import PlanOptions
    from loopmt.workflow.plan import plan as plan_run

    return plan_run(Path(run), PlanOptions(), Silent())


def load(run: Path | str, stage: str | None = None, device: str | None = None) -> Translator:
    """The translators of a run's stage; by default of the last finished one, on a GPU if there is one.

    `device` is "cpu", "cuda" or "cuda:N".
    """
    from loopmt.workflow.translate import load as load_translator

    return load_translator(Path(run), stage, device)


def __getattr__(name: str) -> Any:
    from importlib import import_module, metadata

    if name == "__version__":
        return metadata.version("loopmt")
    if name in _LAZY:
        return getattr(import_module("loopmt.workflow.translate"), name)
    raise AttributeError(f"module 'loopmt' has no attribute '{name}'; it has {', '.join(__all__)}.")
