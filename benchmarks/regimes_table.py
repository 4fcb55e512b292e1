"""Bring the runs of `benchmarks.regimes` to the documentation: `python -m benchmarks.regimes_table DIR`.

Condenses DIR/*.json into docs/results/regimes and writes the predictions of every run to
docs/results/plans/REGIME-SEED.json. `python -m benchmarks.pages` makes the tables of both.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks import condense
from benchmarks.timing import Json

RESULTS = Path(__file__).parents[1] / "docs" / "results"
_ABOUT = ("what", "seed", "quick", "machine", "experiment", "cpu_seconds", "wall_seconds", "collapsed")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--docs", type=Path, default=RESULTS, help="default: docs/results")
    options = parser.parse_args(arguments)
    files = sorted(options.folder.glob("*.json"))
    for file in files:
        keep(file.stem, json.loads(file.read_text(encoding="utf-8")), options.docs)
    print(f"{len(files)} files in {options.docs / 'regimes'}; now: python -m benchmarks.pages")


def keep(name: str, run: Json, docs: Path) -> None:
    condense.write(docs / "regimes" / f"{name}.json", condensed(run), 4)
    if "predicted" in run:
        condense.write(docs / "plans" / f"{name}.json", {"rows": run["predicted"]}, 2)


def condensed(run: Json) -> Json:
    """Scores, gains, the loops chosen and where it ran; plans and predictions are kept elsewhere."""
    about = {name: run[name] for name in _ABOUT if name in run}
    choices = {"choices": [_choice(one) for one in run["choices"]]} if "choices" in run else {}
    return {**condense.scorecard(run), **about, **choices}


def _choice(one: Json) -> Json:
    shares = {route: worth["share"] for route, worth in one["worth"].items()}
    return {"update": one["update"], "stage": one.get("stage"), "shares": shares}


if __name__ == "__main__":
    main()
