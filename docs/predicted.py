"""Predicted against observed over recorded runs: `python docs/predicted.py`.

Reads docs/results/plans/NAME-SEED.json, each the predicted.json that `loopmt analyze RUN --against-plan` left in a run,
and beside it, where there is one, the scorecard in docs/results/NAME/seed-SEED.json; writes docs/results/predicted.md
(tables and the hit rate) and docs/images/predicted.svg (a scatter).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from loopmt.planning.forecast import VERDICTS
from loopmt.planning.predicted import Row, hit_rate, outcome_of

DOCS = Path(__file__).parent
COLOURS = {"helps": "tab:green", "may help": "tab:gray", "no signal": "tab:blue", "likely harmful": "tab:red"}

FIXED = ("always `helps`", "always `no signal`")
COLUMNS = ("of", "against", "set", "direction", "loop", "verdict")


def main() -> None:
    files = sorted((DOCS / "results" / "plans").glob("*.json"))
    rows = [{"run": file.stem, **row} for file in files for row in json.loads(file.read_text(encoding="utf-8"))["rows"]]
    if not rows:
        sys.exit("docs/results/plans holds no predicted.json; copy one there from a run.")
    (DOCS / "results" / "predicted.md").write_text(page(rows), encoding="utf-8")
    draw(rows, DOCS / "images" / "predicted.svg")
    print(f"{len(rows)} predictions of {len(files)} runs in docs/results/predicted.md")


def page(rows: list[Row]) -> str:
    kinds = list(dict.fromkeys(map(kind, rows)))
    return "\n".join(
        [
            "# Predicted against observed",
            "",
            "The plan's verdict on a direction before training, and the gain in accuracy over the control after it",
            "(`loopmt plan`, `loopmt analyze --against-plan`; docs/planning.md says what counts as a hit). Written by",
            "`python docs/predicted.py`.",
            "",
            "`may help` abstains. Beside the hit rate stands what two fixed answers would score there. The",
            "sign is judged where a gain was predicted at all. Rows of one run share translators and sentences:",
            "intervals that take them for independent are too narrow.",
            "",
            head("planned on", "predictions", "abstained", "decided", "right where decided", *FIXED, "right sign"),
            *(rates(name, [row for row in rows if kind(row) == name]) for name in kinds),
            "",
            *(text for name in kinds for text in outcomes(name, [row for row in rows if kind(row) == name])),
            "The same by BLEU on whole test sets (multi-bleu, 95% intervals), where a scorecard is recorded: accuracy",
            "at one threshold on a few hundred sentences sees fewer differences.",
            "",
            *(text for name in kinds if (ended := by_bleu(rows, name)) for text in outcomes(f"{name}, by BLEU", ended)),
            "![Predicted and observed gains](../images/predicted.svg)",
            "",
            head("run", "planned on", *COLUMNS, "predicted", "by", "observed", "hit"),
            *map(line, rows),
            "",
        ]
    )


def head(*names: str) -> str:
    return f"| {' | '.join(names)} |\n{'|---' * len(names)}|"


def kind(row: Row) -> str:
    pilot = row["pilot_updates"]
    return f"{row['planned_on']}, a pilot of {pilot} updates" if pilot else str(row["planned_on"])


def rates(name: str, rows: list[Row]) -> str:
    rate = hit_rate(rows)
    figures = [str(rate[key]) for key in ("rows", "abstained", "decided")]
    shares = [shown(rate[key]) for key in ("hits", "always_helps", "always_no_signal", "same_sign")]
    return f"| {' | '.join([name, *figures, *shares])} |"


def outcomes(name: str, rows: list[Row]) -> list[str]:
    """How each verdict ended."""
    found = [head(f"planned on {name}", "predictions", "gained", "no difference", "lost")]
    for verdict in VERDICTS:
        mine = [row["outcome"] for row in rows if row["verdict"] == verdict]
        counts = [len(mine), *(mine.count(outcome) for outcome in ("gained", "no difference", "lost"))]
        found.append(f"| {verdict} | {' | '.join(map(str, counts))} |")
    return [*found, ""]


def by_bleu(rows: list[Row], name: str) -> list[Row]:
    """Predictions with what became of them in BLEU."""
    cards = {run: scorecard(run) for run in {row["run"] for row in rows}}
    mine = [row for row in rows if kind(row) == name]
    ended = [(row, bleu_outcome(cards[row["run"]], row)) for row in mine]
    return [{**row, "outcome": outcome} for row, outcome in ended if outcome]


def scorecard(run: str) -> dict[str, Any]:
    name, _, seed = run.rpartition("-")
    file = DOCS / "results" / name / f"seed-{seed}.json"
    found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return dict(found.get("scorecard", {"comparisons": []}))


def bleu_outcome(card: dict[str, Any], row: Row) -> str | None:
    for one in card["comparisons"]:
        if (one["of"], one["against"]) == (row["of"], row["against"]):
            found = one["sets"].get(row["set"], {}).get("directions", {}).get(row["direction"])
            return found and outcome_of([found["multi_bleu"][key] for key in ("difference", "low", "high")])
    return None


def line(row: Row) -> str:
    hit = "abstained" if row["hit"] is None else "yes" if row["hit"] else "no"
    first = [row["run"], kind(row), *(row[name] for name in COLUMNS)]
    cells = [*first, shown(row["predicted"], "+"), row["predicted_by"], shown(row["observed"], "+"), hit]
    return f"| {' | '.join(cells)} |"


def shown(estimate: list[float | None], sign: str = "") -> str:
    value, low, high = estimate
    centre = "-" if value is None else f"{value:{sign}z.3f}"
    return centre if value is None or low is None else f"{centre} ({low:{sign}z.3f} to {high:{sign}z.3f})"


def draw(rows: list[Row], file: Path) -> None:
    """One scatter for each kind of plan."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "loopmt"
    from matplotlib import pyplot

    kinds = list(dict.fromkeys(map(kind, rows)))
    figure, places = pyplot.subplots(
        1, len(kinds), figsize=(5 * len(kinds), 4.5), layout="constrained", sharey=True, squeeze=False
    )
    for axes, name in zip(places[0], kinds, strict=True):
        scatter(axes, [row for row in rows if kind(row) == name])
        axes.set(title=f"planned on {name}", xlabel="predicted gain over the control")
    places[0][0].set_ylabel("observed gain over the control")
    figure.savefig(file, metadata={"Date": None})


def scatter(axes: Any, rows: list[Row]) -> None:
    axes.axhline(0, color="0.8")
    axes.axvline(0, color="0.8")
    for verdict, colour in COLOURS.items():
        points = [(row["predicted"][0], *row["observed"]) for row in rows if row["verdict"] == verdict]
        known = [point for point in points if None not in point]
        if known:
            predicted, observed, low, high = map(np.array, zip(*known, strict=True))
            spread = (observed - low, high - observed)
            axes.errorbar(predicted, observed, spread, fmt="o", ms=3, lw=0.6, color=colour, label=verdict)
    axes.legend()


if __name__ == "__main__":
    main()
