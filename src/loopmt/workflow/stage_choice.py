"""The default stage of a verb: the last finished one that is not a control, and not worse than its own control.

A control exists for comparison, not for use. It is the default only if the stage that is compared with it is not
finished, or was worse.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from loopmt.config import Experiment, Stage
from loopmt.errors import DamagedError, RunError
from loopmt.run import Json, Run, read_json
from loopmt.workflow.scorecard import setbacks


def choose_stage(run: Run, experiment: Experiment, name: str | None) -> Stage:
    """The stage of that name, or the default one; it must be finished."""
    finished = run.finished()
    if not finished:
        raise RunError(f"{run.folder} has no finished stage. Train on: `loopmt train EXPERIMENT --run {run.folder}`.")
    stage = experiment.stage(name or default_stage(experiment, finished, known_setbacks(run)))
    if stage.name not in finished:
        raise RunError(f'{run.folder}: stage "{stage.name}" is not finished; finished: {", ".join(finished)}.')
    return stage


def default_stage(experiment: Experiment, finished: Sequence[str], below: Collection[str]) -> str:
    """`below` are stages that are worse than their controls."""
    reasons = passed_over(experiment, finished, below)
    return next((name for name in reversed(finished) if name not in reasons), finished[-1])


def passed_over(experiment: Experiment, finished: Collection[str], below: Collection[str]) -> dict[str, str]:
    """The finished stages that are not the default, with the reason."""
    controls = {
        one.against: f"the control of {one.of}"
        for one in experiment.compare
        if one.of in finished and one.of not in below
    }
    worse = {one.of: f"worse than its control {one.against}" for one in experiment.compare if one.of in below}
    return {name: reason for name, reason in (controls | worse).items() if name in finished}


def told_stage(run: Run, experiment: Experiment, stage: str, asked_for: str | None) -> str:
    """A line about the used stage, and why it is not the last one."""
    finished = run.finished()
    later = [] if asked_for else finished[finished.index(stage) + 1 :]
    reasons = passed_over(experiment, finished, known_setbacks(run))
    why = "; ".join(f"{name} is {reasons[name]}" for name in later if name in reasons)
    return f"stage {stage}" + (f" ({why}; --stage names another)" if why else "")


def stage_line(folder: Path, asked_for: str | None) -> str:
    """The same for a run's folder."""
    run = Run.open(folder)
    experiment = run.experiment()
    return told_stage(run, experiment, choose_stage(run, experiment, asked_for).name, asked_for)


# -- what evaluations found ------------------------------------------------------------------------------------


def known_setbacks(run: Run) -> Mapping[str, str]:
    """Stages that the scorecard shows below their control, each with its control; empty without a scorecard."""
    try:
        return setbacks(known_scorecard(run))
    except (LookupError, TypeError, ValueError, AttributeError):
        return {}  # it is good for advice, and nothing depends on it


def known_scorecard(run: Run) -> Json:
    """The scorecard with the comparisons that still hold; empty if it is missing or damaged."""
    try:
        card = read_json(run.folder / "scorecard.json")
        return {**card, "comparisons": current_comparisons(run, card)}
    except (DamagedError, LookupError, TypeError, ValueError, AttributeError):
        return {"comparisons": []}


def current_comparisons(run: Run, card: Json) -> list[Json]:
    """Comparisons of stages whose weights have not changed since their evaluation."""
    found: list[Json] = card.get("comparisons", [])
    names = {name for one in found for name in (one["of"], one["against"])}
    current = {name for name in names if is_current(run, name, card)}
    return [one for one in found if {one["of"], one["against"]} <= current]


def is_current(run: Run, name: str, card: Json) -> bool:
    """Whether the scorecard is of the stage's present weights."""
    scored = card.get("stages", {}).get(name, {}).get("result")
    return run.stage(name).finished and scored == run.stage(name).result_digest()
