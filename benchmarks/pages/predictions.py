"""What `loopmt plan` said before training, beside what happened: the rows of docs/results/plans."""

from __future__ import annotations

from functools import cache
from typing import Any

from benchmarks.pages.blocks import Table
from benchmarks.pages.cells import grid
from benchmarks.pages.raw import RESULTS, Json, card, content

from loopmt.planning.forecast import VERDICTS
from loopmt.planning.predicted import Row, hit_rate, outcome_of

OUTCOMES = ("gained", "no difference", "lost")


@cache
def rows() -> list[Row]:
    """All predictions, each with the run that it is of."""
    files = sorted((RESULTS / "plans").glob("*.json"))
    return [{"run": file.stem, **row} for file in files for row in content(f"plans/{file.stem}")["rows"]]


def kinds() -> list[str]:
    return list(dict.fromkeys(map(kind, rows())))


def kind(row: Row) -> str:
    pilot = row["pilot_updates"]
    return f"{row['planned_on']}, a pilot of {pilot:,} updates" if pilot else str(row["planned_on"])


def of_kind(name: str) -> list[Row]:
    return [row for row in rows() if kind(row) == name]


def in_bleu(found: list[Row]) -> list[Row]:
    """Predictions with what became of them in BLEU on the whole test set, where a scorecard is recorded."""
    ended = [(row, bleu_outcome(row)) for row in found]
    return [{**row, "outcome": outcome} for row, outcome in ended if outcome]


def bleu_outcome(row: Row) -> str | None:
    folder, _, seed = row["run"].rpartition("-")
    if not (RESULTS / folder / f"seed-{seed}.json").is_file():
        return None
    for one in card(f"{folder}/seed-{seed}")["comparisons"]:
        if (one["of"], one["against"]) == (row["of"], row["against"]):
            found = one["sets"].get(row["set"], {}).get("directions", {}).get(row["direction"])
            return found and outcome_of(found["multi_bleu"])
    return None


def _rates() -> str:
    head = ("planned on", "predictions", "abstained", "decided", "right where decided")
    fixed = ("always `helps`", "always `no signal`", "right sign")
    return grid([*head, *fixed], [_rate(name, hit_rate(of_kind(name))) for name in kinds()])


def _rate(name: str, rate: Json) -> list[str]:
    counts = [f"{rate[key]:,}" for key in ("rows", "abstained", "decided")]
    return [name, *counts, *(_share(rate[key]) for key in ("hits", "always_helps", "always_no_signal", "same_sign"))]


def _share(estimate: list[float | None]) -> str:
    value, low, high = estimate
    return "–" if value is None else f"{value:.0%} ({low:.0%} to {high:.0%})"


def outcomes(found: dict[str, list[Row]]) -> str:
    """How each verdict ended, by what the plans were made on."""
    lines = [
        [name, verdict, *_counts([row["outcome"] for row in mine if row["verdict"] == verdict])]
        for name, mine in found.items()
        for verdict in VERDICTS
        if any(row["verdict"] == verdict for row in mine)
    ]
    return grid(["planned on", "verdict", "predictions", *OUTCOMES], lines)


def _counts(ended: list[Any]) -> list[str]:
    return [str(len(ended)), *(f"{ended.count(one)} ({ended.count(one) / len(ended):.0%})" for one in OUTCOMES)]


def _decided() -> str:
    """How often the plan was right where it decided, beside fixed answers."""
    keys = ("hits", "always_no_signal", "always_helps")
    rates = {name: hit_rate(of_kind(name)) for name in kinds()}
    rows = [[name, *(f"{rate[key][0]:.0%}" for key in keys)] for name, rate in rates.items()]
    return grid(["plan on", "right", "fixed answer `no signal`", "fixed answer `helps`"], rows)


def _selected() -> str:
    """How the loops ended that a plan without a pilot lets pass, and those that it does not."""
    lines = []
    for name in ("vanilla", "dual"):
        found = of_kind(name)
        ended = {"all predictions": [row["outcome"] for row in found]}
        for verdict in ("may help", "no signal"):
            ended[f"`{verdict}`"] = [row["outcome"] for row in found if row["verdict"] == verdict]
        lines += [[name, label, *_gained_and_lost(outcomes)] for label, outcomes in ended.items()]
    return grid(["plan on", "loops", "gained", "lost"], lines)


def _gained_and_lost(ended: list[Any]) -> list[str]:
    return [f"{ended.count(one) / len(ended):.0%}" for one in ("gained", "lost")]


TABLES: dict[str, Table] = {
    "predictions": _rates,
    "predictions-accuracy": lambda: outcomes({name: of_kind(name) for name in kinds()}),
    "plan-decided": _decided,
    "plan-selected": _selected,
    "predictions-bleu": lambda: outcomes({name: in_bleu(of_kind(name)) for name in kinds()}),
}
