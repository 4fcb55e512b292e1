"""`loopmt show`: where a run stands, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path

from loopmt.commands import resume_command
from loopmt.config import Experiment, Stage, available_hops, taught_hops
from loopmt.errors import DamagedError
from loopmt.evaluation.choice import facts_of, first_metric
from loopmt.evaluation.means import validated
from loopmt.files.documents import content_of
from loopmt.files.regular import has_file
from loopmt.planning.round_trips import loops_of
from loopmt.run import Json, Run, StageFolder, read_json, result_bleu
from loopmt.text.manifest import Finding, Manifest
from loopmt.translate.networks import all_hops
from loopmt.workflow.scorecard import setbacks, tested
from loopmt.workflow.stage_choice import default_stage


def overview(folder: Path) -> Json:
    """Stages with their state and scores, the comparisons, the process that trains, and the next command."""
    run = Run.open(folder)
    experiment = run.experiment()
    stages = [_stage(run.stage(stage.name), stage) for stage in experiment.all_stages]
    with content_of(folder / "scorecard.json"):
        return _overview(run, experiment, stages, _scorecard(folder))


def _overview(run: Run, experiment: Experiment, stages: Sequence[Json], card: Json) -> Json:
    for stage in stages:
        scored = card.get("stages", {}).get(stage["name"], {})
        if stage["result"] is not None and scored.get("result") == stage["result"]:
            stage["scores"] = scored["mean"]
            stage["test_hops"] = list(dict.fromkeys(hop for _, hop in tested(scored)))
            stage["test_directions"] = len(stage["test_hops"]) or None
    current = {stage["name"] for stage in stages if stage["scores"] is not None}
    compared = [one for one in card.get("comparisons", ()) if {one["of"], one["against"]} <= current]
    left, below = any(stage["state"] != "finished" for stage in stages), setbacks({**card, "comparisons": compared})
    first = first_metric(card).name
    return {
        "run": str(run.folder),
        "experiment": experiment.name,
        "languages": experiment.languages,
        "prepared": has_file(run.folder / "manifest.json"),
        "findings": [finding.message for finding in _findings(run)],
        "stages": stages,
        "metrics": [asdict(metric) for metric in facts_of(card)] or [asdict(first_metric(card))],
        "comparisons": [
            {
                "of": one["of"],
                "against": one["against"],
                "directions": len({hop for _, hop in tested(one)}),
                first: one["joint"][first],
            }
            for one in compared
        ],
        "setbacks": below,
        "process": run.owner(),
        "next": _next(run, experiment, left, all(stage["scores"] is not None for stage in stages), below),
    }


def _findings(run: Run) -> Sequence[Finding]:
    """Warnings about the text from its preparation."""
    try:
        return Manifest.load(run.folder / "manifest.json").findings
    except DamagedError:
        return []  # missing, or damaged, which verbs that need it say


def _scorecard(folder: Path) -> Json:
    file = folder / "scorecard.json"
    return read_json(file, f"`loopmt evaluate {folder}` writes it again.") if has_file(file) else {}


def _stage(folder: StageFolder, stage: Stage) -> Json:
    """The state of a stage: the checkpoint has more facts, the log is newer."""
    found: Json = {
        "name": stage.name,
        "from": stage.from_,
        "state": "not begun",
        "update": 0,
        "updates": stage.updates,
        "best_valid_bleu": None,
        "valid_directions": None,  # how many the mean is of
        "valid_hops": [],
        "result": None,
        "scores": None,
        "test_directions": None,
        "test_hops": [],
    }
    records = folder.records()
    validations = [record for record in records if record["kind"] == "valid"]
    if validations:
        found["valid_hops"] = validated(validations[-1])
        found["valid_directions"] = len(found["valid_hops"])
    if folder.finished:
        state = folder.result_state()
        found |= {"state": "finished", "update": state["update"], "result": folder.result_digest()}
        return found | {"best_valid_bleu": result_bleu(state)}
    update = max([*folder.updates(), *(record.get("update", 0) for record in records)], default=None)
    if update is not None:
        bleus = [record["mean_bleu"] for record in validations]
        found |= {"state": "begun", "update": update, "best_valid_bleu": max(bleus, default=None)}
    return found


def _can_be_planned(run: Run, experiment: Experiment) -> bool:
    """Whether the first stage is finished, no other one has begun, and there is no plan yet."""
    finished = run.finished()
    fresh = [stage for stage in experiment.stages if stage.from_ is None and stage.name in finished]
    begun = [stage.name for stage in experiment.stages if run.stage(stage.name).begun]
    left = [stage for stage in experiment.stages if stage.name not in finished]
    if not fresh or len(begun) > 1 or not any(stage.generates for stage in left) or has_file(run.folder / "plan.json"):
        return False
    return bool(loops_of(taught_hops(experiment, fresh[0].name)))


def after_training(run: Run) -> str:
    """The message after the requested stages are trained. It reads only the files that it needs."""
    experiment, finished = run.experiment(), run.finished()
    left = [stage.name for stage in experiment.all_stages if stage.name not in finished]
    still = f" what was asked for; not trained yet: {', '.join(left)}" if left else ""
    return f"finished{still}; next: {_next(run, experiment, bool(left), scored=False)}"


def after_plan(folder: Path, plan: Json) -> str:
    """The next command: train on, with the proposed stages if the experiment is trained already."""
    run = Run.open(folder)
    experiment = run.experiment()
    train, left = resume_command(run, experiment), len(run.finished()) < len(experiment.all_stages)
    if plan["advice"]["longer"] or (plan["mix"] and not left):
        return f"add the stage{'' if plan['advice']['longer'] else 's'} to the experiment file, then {train}"
    return train if left else f"loopmt evaluate {shlex.quote(str(folder))}"


def after_evaluation(folders: Sequence[Path]) -> str:
    """The next command: an analysis, if a stage can be compared with its start."""
    run, words = Run.open(folders[0]), [shlex.quote(str(folder)) for folder in folders]
    experiment, finished = run.experiment(), run.finished()
    analyze = len(words) == 1 and any(set(experiment.ancestors(name)) & set(finished) for name in finished)
    return f"loopmt analyze {words[0]}" if analyze else f"loopmt report {' '.join(words)}"


def _next(run: Run, experiment: Experiment, left: bool, scored: bool, below: Collection[str] = ()) -> str:
    folder = shlex.quote(str(run.folder))
    if left and _can_be_planned(run, experiment):
        return f"loopmt plan {folder}"
    if left:
        return resume_command(run, experiment)
    if not scored and (experiment.data.world or experiment.data.tests()):
        return f"loopmt evaluate {folder}"
    chosen = default_stage(experiment, run.finished(), below)
    hop, *_ = all_hops(experiment.languages, available_hops(experiment, chosen))
    return f'loopmt translate {folder} "{hop}"'
