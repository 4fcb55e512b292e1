"""`--route auto`: translate a direction directly or through another language, as an evaluation found better."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from loopmt.config import Experiment
from loopmt.errors import PathError, RunError
from loopmt.files.documents import content_of
from loopmt.files.regular import has_file
from loopmt.path import Hop, LanguagePath
from loopmt.run import Run, read_json
from loopmt.workflow.stage_choice import choose_stage, is_current


@dataclass(frozen=True)
class RecordedRoutes:
    """The best route of each direction that an evaluation translated in several ways."""

    best: Mapping[Hop, LanguagePath]
    bitext: frozenset[Hop]
    """Directions that bitext teaches: they are translated directly where no other route was tried."""
    languages: Collection[str]

    def route(self, hop: Hop) -> LanguagePath:
        mistyped = not {hop.source, hop.target} <= set(self.languages)  # which the translators explain
        if hop in self.best or hop in self.bitext or mistyped:
            return self.best.get(hop, LanguagePath((hop.source, hop.target)))
        known = ", ".join(map(str, self.best)) or "none"
        raise PathError(
            f"path {hop}: no bitext teaches it, and no route of it was evaluated (evaluated: {known}). Add a test set "
            f"with {hop.source} and {hop.target}, or leave --route out and name the route."
        )

    def lines(self) -> list[str]:
        """The directions that are translated through another language."""
        return [f"route {path} for {hop}" for hop, path in self.best.items() if len(path.hops) > 1]


def recorded_routes(run: Run, experiment: Experiment, stage: str) -> RecordedRoutes:
    """The routes of a stage, if the scorecard is of its present weights."""
    file = run.folder / "scorecard.json"
    card = read_json(file, f"`loopmt evaluate {run.folder}` writes it again.") if has_file(file) else {}
    with content_of(file):
        routes = card["stages"][stage].get("routes") if is_current(run, stage, card) else None
        best = None if routes is None else {_hop(hop): LanguagePath.parse(one["best"]) for hop, one in routes.items()}
    if best is None:
        raise RunError(
            f'--route auto goes by an evaluation, and {run.folder} has none of stage "{stage}" as it is now. '
            f"Evaluate it: `loopmt evaluate {run.folder} --stage {stage}`. Or leave --route out."
        )
    return RecordedRoutes(best, experiment.data.supply().bitext, experiment.languages)


def _hop(direction: str) -> Hop:
    (hop,) = LanguagePath.parse(direction).hops
    return hop


def choose_route(folder: Path, stage: str | None, path: str) -> LanguagePath:
    """The better route of a direction."""
    run = Run.open(folder)
    experiment = run.experiment()
    chosen = choose_stage(run, experiment, stage).name
    walk, routes = LanguagePath.parse(path), recorded_routes(run, experiment, chosen)
    if len(walk.hops) > 1:
        direction = ">".join(walk.ends if not walk.closed else walk.languages[:2])
        raise PathError(f"path {path} is a route already: with --route auto give a direction, such as {direction}.")
    return routes.route(walk.hops[0])
