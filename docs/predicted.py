"""Predicted against observed over recorded runs: `python docs/predicted.py`.

Reads docs/results/plans/*.json, each the predicted.json that `loopmt analyze RUN --against-plan` left in a run, and
writes docs/results/predicted.md (a table and the hit rate) and docs/images/predicted.svg (a scatter).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from loopmt.judge.predicted import hit_rate

DOCS = Path(__file__).parent
COLOURS = {"helps": "tab:green", "may help": "tab:gray", "no signal": "tab:blue", "likely harmful": "tab:red"}


def main() -> None:
    files = sorted((DOCS / "results" / "plans").glob("*.json"))
    rows = [{"run": file.stem, **row} for file in files for row in json.loads(file.read_text(encoding="utf-8"))["rows"]]
    if not rows:
        sys.exit("docs/results/plans holds no predicted.json; copy one there from a run.")
    (DOCS / "results" / "predicted.md").write_text(page(rows), encoding="utf-8")
    draw(rows, DOCS / "images" / "predicted.svg")
    print(f"{len(rows)} predictions of {len(files)} runs in docs/results/predicted.md")


def page(rows: list[dict[str, Any]]) -> str:
    rate = hit_rate(rows)
    return "\n".join(
        [
            "# Predicted against observed",
            "",
            "The plan's verdict on a direction before training, and the gain in accuracy over the control after it",
            "(`loopmt plan`, `loopmt analyze --against-plan`; docs/planning.md says what counts as a hit). Written by",
            "`python docs/predicted.py`.",
            "",
            f"* {rate['rows']} predictions, {rate['decided']} decided, {rate['abstained']} abstained (`may help`)",
            f"* verdicts right where decided: {shown(rate['hits'])}",
            f"* what always saying `helps` would score there: {shown(rate['always_helps'])}; "
            f"always `no signal`: {shown(rate['always_no_signal'])}",
            f"* predicted gain of the right sign, all predictions: {shown(rate['same_sign'])}",
            "",
            "![Predicted and observed gains](../images/predicted.svg)",
            "",
            "| run | stage | control | set | direction | loop | verdict | predicted | by | observed | hit |",
            "|---|---|---|---|---|---|---|---|---|---|---|",
            *map(line, rows),
            "",
        ]
    )


def line(row: dict[str, Any]) -> str:
    hit = "abstained" if row["hit"] is None else "yes" if row["hit"] else "no"
    head = [row[name] for name in ("run", "of", "against", "set", "direction", "loop", "verdict")]
    cells = [*head, shown(row["predicted"], "+"), row["predicted_by"], shown(row["observed"], "+"), hit]
    return f"| {' | '.join(cells)} |"


def shown(estimate: list[float | None], sign: str = "") -> str:
    value, low, high = estimate
    centre = "-" if value is None else f"{value:{sign}.3f}"
    return centre if value is None or low is None else f"{centre} ({low:{sign}.3f} to {high:{sign}.3f})"


def draw(rows: list[dict[str, Any]], file: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "loopmt"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 5), layout="constrained")
    axes.axhline(0, color="0.8")
    axes.axvline(0, color="0.8")
    for verdict, colour in COLOURS.items():
        points = [(row["predicted"][0], *row["observed"]) for row in rows if row["verdict"] == verdict]
        known = [point for point in points if point[0] is not None]
        if known:
            predicted, observed, low, high = map(np.array, zip(*known, strict=True))
            axes.errorbar(
                predicted, observed, (observed - low, high - observed), fmt="o", color=colour, label=verdict, capsize=2
            )
    axes.set(xlabel="predicted gain over the control", ylabel="observed gain over the control")
    axes.legend()
    figure.savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    main()
