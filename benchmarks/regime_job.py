"""One regime: train, plan and evaluate with one seed, or evaluate the runs of several seeds together.

    python -m benchmarks.regime_job star 1 --work WORK --out OUT     OUT/star-1.json
    python -m benchmarks.regime_job star 1 2 3 --work WORK --out OUT OUT/star.json, from the runs that are in WORK

All figures come from the functions behind `loopmt train`, `plan`, `evaluate` and `analyze --against-plan`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from benchmarks.machine import describe
from benchmarks.regime import LETTER, QUICK, REGIMES, Regime, Sizes
from benchmarks.regime import experiment as experiment_file
from benchmarks.timing import Json, Plan

from loopmt.config import Compare
from loopmt.errors import CollapseError, StoppedError
from loopmt.progress import Lines
from loopmt.run import Run, write_text
from loopmt.workflow import analyze, evaluate, plan, scorecard
from loopmt.workflow.train import TrainOptions, train

_METRICS = ("accuracy", "multi_bleu", "chrf")
# Stage "letter" has no real pairs and more padding in its rounds of one update: as many updates, fewer real tokens.
_UNEQUAL = (("uniform", "letter"), ("auto", "letter"))
_BEAM = 1
_OF_A_LOOP = ("loop", "verdict", "why", "assumed", "new_information", "coverage", "false_alarms", "M", "dual_M")
_OF_VALUES = ("p", "M", "c11", "c12", "c21", "c22", "breakeven")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("regime", choices=REGIMES)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", action="store_true", help="tiny sizes, to check that it runs")
    sizes.add_argument("--short", action="store_true", help="a third of the updates, without pilots")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    regime = REGIMES[options.regime]
    runs = [options.work / f"{options.regime}-{seed}" for seed in options.seeds]
    if len(runs) == 1:
        chosen = QUICK if options.quick else LETTER if options.short else regime.sizes
        record = one_seed(regime, options.seeds[0], chosen, runs[0], options.work / f"{runs[0].name}.toml")
        name = runs[0].name
    else:
        record, name = slim(judged(runs, Lines())), options.regime
    options.out.mkdir(parents=True, exist_ok=True)
    content = rounded({"regime": options.regime, "quick": options.quick, **record})
    write_text(options.out / f"{name}.json", json.dumps(content, ensure_ascii=False) + "\n")


def one_seed(regime: Regime, seed: int, sizes: Sizes, run: Path, file: Path) -> Json:
    """All records of a run."""
    machine = describe(Plan(torch.device("cpu")), "benchmarks.regime_job")
    began, cpu = time.monotonic(), time.process_time()
    seconds: dict[str, float] = {}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(experiment_file(regime, seed, sizes), encoding="utf-8")
    progress = Lines()

    def clock(name: str) -> None:
        seconds[name] = time.process_time() - cpu - sum(seconds.values())
        progress.say(f"{name}: {seconds[name]:.0f} CPU seconds")

    collapsed = train_all(TrainOptions(file, run), progress)
    clock("train")
    plans, predicted = foresee(run, sizes, progress)
    clock("plan and analyze")
    card = judged([run], progress)
    clock("evaluate")
    return {
        "seed": seed,
        "what": regime.what,
        "experiment": file.read_text(encoding="utf-8"),
        "machine": machine,
        "cpu_seconds": seconds,
        "wall_seconds": time.monotonic() - began,
        "collapsed": collapsed,
        **slim(card),
        "choices": choices(run),
        "plans": plans,
        "predicted": predicted,
    }


def train_all(request: TrainOptions, progress: Lines) -> str | None:
    """Train all stages; a collapse ends training and is recorded as a result."""
    try:
        train(request, progress)
    except StoppedError as stop:
        sys.exit(str(stop))
    except CollapseError as error:
        progress.say(str(error))
        return str(error)
    return None


def foresee(run: Path, sizes: Sizes, progress: Lines) -> tuple[list[Json], list[Json]]:
    """Plans on the first translators, without and with a pilot, and on those of dual learning, with the outcomes.

    The plan on the first translators is compared with all comparisons, the other one with those that start there.
    """
    opened = Run.open(run)
    compared = [one for one in opened.experiment().compare if one.of in opened.finished()]
    later = [one.of for one in compared if one.against == "dual-longer"]
    both = [*(one.of for one in compared if one.against == "vanilla-longer"), *later]
    pilots = [None, sizes.pilot] if sizes.pilot else [None]
    plans, rows = [], []
    for stage, pilot, stages in [*(("vanilla", pilot, both) for pilot in pilots), ("dual", None, later)]:
        made = plan.plan(run, plan.PlanOptions(stage=stage, beam=_BEAM, pilot=pilot), progress)
        settings = analyze.AnalyzeOptions(stages=stages, thresholds=(), beam=_BEAM, longest=2, against_plan=True)
        rows += analyze.analyze(run, settings, progress)["predicted"]["rows"]
        plans.append(slim_plan(made))
    return plans, rows


def judged(runs: Sequence[Path], progress: Lines) -> Json:
    """The scorecard of `loopmt evaluate`, with comparisons that an experiment file does not allow."""
    settings = evaluate.EvaluateOptions(beam=_BEAM)
    evaluations = [evaluate.RunEvaluation.open(run) for run in runs]
    measures = [evaluation.measures(settings, progress) for evaluation in evaluations]
    experiment = evaluations[0].experiment
    unequal = [Compare(of=of, against=against) for of, against in _UNEQUAL if "letter" in measures[0].stages]
    known = experiment.model_copy(update={"compare": [*experiment.compare, *unequal]})
    cards = [scorecard.scorecard(known, one, _BEAM, settings.samples) for one in measures]
    return cards[0] if len(cards) == 1 else scorecard.over_seeds(known, measures, cards, settings.samples)


def choices(run: Path) -> list[Json]:
    """The choices of `mix = "auto"` and their reasons."""
    lines = (Run.open(run).stage("auto").folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == "choice"]


def slim(card: Json) -> Json:
    """Accuracy and BLEU of a scorecard."""
    stages = {
        name: {
            "mean": _chosen(stage["mean"]),
            "directions": {hop: _chosen(scores) for hop, scores in stage["sets"]["test"]["directions"].items()},
            **{key: stage[key] for key in ("deviation", "seconds", "valid_bleu") if key in stage},
        }
        for name, stage in card["stages"].items()
    }
    compared = [
        {
            "of": one["of"],
            "against": one["against"],
            "joint": _chosen(one["joint"]),
            "directions": {hop: _chosen(found) for hop, found in one["sets"]["test"]["directions"].items()},
        }
        for one in card["comparisons"]
    ]
    return {"seeds": card["seeds"], "beam": card["beam"], "stages": stages, "comparisons": compared}


def _chosen(scores: Json) -> Json:
    return {metric: scores[metric] for metric in _METRICS}


def slim_plan(made: Json) -> Json:
    """The parts of a plan that its verdicts use, without curves and thresholds."""
    directions = {
        hop: {"loops": _slim(outlook["loops"]), "pivots": _slim(outlook["pivots"])}
        for hop, outlook in made["directions"].items()
    }
    kept = {key: made[key] for key in ("stage", "set", "beam", "rule", "worth", "pilot_updates", "routes", "mix")}
    return {**kept, "directions": directions}


def _slim(loops: Sequence[Json]) -> list[Json]:
    return [
        {
            **{key: loop[key] for key in _OF_A_LOOP if key in loop},
            **{key: loop["values"][key] for key in _OF_VALUES if "values" in loop},
            "pilot": loop["pilot"] and {key: loop["pilot"][key] for key in ("predicted", "observed")},
        }
        for loop in loops
    ]


def rounded(value: Any) -> Any:
    """Round all numbers to five decimals."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return round(value, 5) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
