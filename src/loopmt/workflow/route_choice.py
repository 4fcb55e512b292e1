"""`--route auto`: translate a direction directly or through another language, as an evaluation found better."""

from __future__ import annotations

from pathlib import Path

from loopmt.errors import PathError, RunError
from loopmt.path import Hop, LanguagePath
from loopmt.run import Run, read_json
from loopmt.workflow.stage_choice import choose_stage, is_current


def recorded_routes(run: Run, stage: str) -> dict[Hop, LanguagePath]:
    """The best routes of a stage by the scorecard of its weights as they are now."""
    file = run.folder / "scorecard.json"
    card = read_json(file, f"`loopmt evaluate {run.folder}` writes it again.") if file.is_file() else {}
    routes = card["stages"][stage].get("routes") if is_current(run, stage, card) else None
    if routes is None:
        raise RunError(
            f'--route auto goes by an evaluation, and {run.folder} has none of stage "{stage}" as it is now. '
            f"Evaluate it: `loopmt evaluate {run.folder} --stage {stage}`. Or leave --route out."
        )
    return {_hop(hop): LanguagePath.parse(found["best"]) for hop, found in routes.items()}


def _hop(direction: str) -> Hop:
    (hop,) = LanguagePath.parse(direction).hops
    return hop


def choose_route(folder: Path, stage: str | None, path: str) -> LanguagePath:
    """The better route of a direction by the recorded evaluation; that of bitext where no other was tried."""
    run = Run.open(folder)
    experiment = run.experiment()
    chosen = choose_stage(run, experiment, stage).name
    walk, routes = LanguagePath.parse(path), recorded_routes(run, chosen)
    if len(walk.hops) > 1:
        raise PathError(f"path {path} is a route already: with --route auto give a direction, such as {_ends(walk)}.")
    (hop,) = walk.hops
    if hop in routes or hop in experiment.data.supply().bitext:
        return routes.get(hop, walk)
    known = ", ".join(map(str, routes)) or "none"
    raise PathError(
        f"path {path}: no bitext teaches {hop}, and no route of it was evaluated (evaluated: {known}). Add a test set "
        f"with {hop.source} and {hop.target}, or leave --route out and name the route."
    )


def _ends(walk: LanguagePath) -> str:
    start, end = walk.ends
    return f"{start}>{end}" if start != end else ">".join(walk.languages[:2])
