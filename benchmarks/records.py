"""What is kept of trained and judged runs, one for each seed of one experiment.

    python -m benchmarks.records runs/48k-1 runs/48k-2 runs/48k-3 --out docs/results/europarl-48k

scores.json         the scorecard of all runs together, if there are several; it is also printed
seed-N.json         each run's own scorecard; what its session and stages took by the clock; validation; loops chosen
experiment-N.json   every setting that it was trained with, unless another seed has the same
plan-N.json         the plan, where there is one

Scorecards and plans are condensed: `benchmarks.condense`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks import condense

from loopmt.cli.score_tables import print_scorecard
from loopmt.path import LanguagePath
from loopmt.progress import Silent
from loopmt.run import Run, StageFolder, read_json
from loopmt.workflow.evaluate import EvaluateOptions, evaluate

Json = dict[str, Any]


def keep(runs: Sequence[Path], out: Path, options: EvaluateOptions) -> Json:
    """Evaluate the runs, write what is kept; the scorecard of all."""
    card = evaluate(runs, options, Silent())
    if len(runs) > 1:
        condense.write(out / "scores.json", condense.scorecard(card), 5)
    settings: list[Json] = []
    for run in map(Run, runs):
        seed = run.experiment().seed
        condense.write(out / f"seed-{seed}.json", _of_seed(run), 5)
        if (own := _settings(run)) not in settings:
            settings.append(own)
            condense.write(out / f"experiment-{seed}.json", read_json(run.folder / "experiment.json"), 2)
        if (run.folder / "plan.json").is_file():
            condense.write(out / f"plan-{seed}.json", condense.plan(read_json(run.folder / "plan.json")))
    return card


def _settings(run: Run) -> Json:
    """What an experiment says but for its seed."""
    found: Json = read_json(run.folder / "experiment.json")
    return {name: value for name, value in found.items() if name not in ("seed", "check")}


def _of_seed(run: Run) -> Json:
    account = run.folder / "session/account.json"
    steps = read_json(account) if account.is_file() else {}
    return {
        "scorecard": condense.scorecard(read_json(run.folder / "scorecard.json")),
        "steps": {name: step["seconds"] for name, step in steps.items()},
        "stages": {name: _of_stage(run.stage(name)) for name in run.finished()},
    }


def _of_stage(folder: StageFolder) -> Json:
    """Seconds by the clock between its first and its last line of training: waiting for the device is in them."""
    records = folder.records()
    valid = [record for record in records if record["kind"] == "valid"]
    end = [record for record in records if record["kind"] == "end"]
    return {
        "average": end[-1]["average_bleu"] if end else None,
        "seconds": round(sum(record["seconds"] for record in records if record["kind"] == "train"), 3),
        "validation": [
            {"update": one["update"], "bleu": one["mean_bleu"], "loss": fmean(one["loss"].values())} for one in valid
        ],
        "choices": [
            {route: worth["share"] for route, worth in record["worth"].items()}
            for record in records
            if record["kind"] == "choice"
        ],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--samples", type=int, default=1000, help="of the bootstrap")
    parser.add_argument("--path", action="append", default=[], help='also score a way through others, "fr>en>es"')
    options = parser.parse_args(arguments)
    settings = EvaluateOptions(samples=options.samples, pivots=[LanguagePath.parse(path) for path in options.path])
    print_scorecard(keep(options.runs, options.out, settings))


if __name__ == "__main__":
    main()
