"""Fit the predictor of `loopmt plan`: `python -m benchmarks.predictor.fit` writes src/loopmt/planning/predictor.json.

Ridge regression on standardised quantities. Every run weighs one, and so does the penalty.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks import condense
from benchmarks.predictor.rows import ROOT, ROWS

from loopmt.planning.predictor import INPUTS, KINDS, GainFormula, quantities, to_scale

Row = Mapping[str, Any]
Floats = npt.NDArray[np.float64]
Fit = Callable[[str, Sequence[Row]], GainFormula]
FILE = ROOT / "src" / "loopmt" / "planning" / "predictor.json"
PENALTY = 1.0
INSIDE = 0.8
_DIGITS = 6


def main() -> None:
    FILE.write_text(made(), encoding="utf-8")
    print(f"wrote {FILE.relative_to(ROOT)}")


def made() -> str:
    """The file, from the recorded rows alone."""
    found = rows()
    content = {
        "made_by": "python -m benchmarks.predictor.fit",
        "rows": str(ROWS.relative_to(ROOT)),
        "sha256": hashlib.sha256(ROWS.read_bytes()).hexdigest(),
        "history": json.loads(ROWS.read_text(encoding="utf-8"))["history"],
        "inside": INSIDE,
        "runs": sorted({row["run"] for row in found}),
        "formulas": {formula: asdict(fitted(formula, of_formula(found, formula))) for formula in INPUTS},
    }
    return condense.lines(content, 3) + "\n"


def rows(planned_on: str = "vanilla") -> list[Row]:
    """The recorded comparisons with plans on the first stage, or on another one."""
    found = json.loads(ROWS.read_text(encoding="utf-8"))["rows"]
    return [row for row in found if row["planned_on"] == planned_on]


def of_formula(found: Sequence[Row], formula: str) -> list[Row]:
    return [row for row in found if KINDS[row["kind"]] == formula]


def group(row: Row) -> str:
    """Runs that share their first stage are one."""
    return str(row["run"]).replace("-uniform", "")


def corpus(row: Row) -> str:
    return str(row["corpus"])


def fitted(formula: str, found: Sequence[Row]) -> GainFormula:
    """The formula with its intervals."""
    intervals = [_residual(formula, found, by) for by in (group, corpus)]
    return coefficients(formula, found, *intervals)


def coefficients(formula: str, found: Sequence[Row], residual: float = 0.0, unlike: float = 0.0) -> GainFormula:
    names = list(quantities(formula, found[0]))
    values = np.array([list(quantities(formula, row).values()) for row in found])
    gains = np.array([to_scale(row["bleu_gain"][0]) for row in found])
    intercept, slopes = ridge(values, gains, weights(found))
    return GainFormula(
        _round(intercept),
        {name: _round(weight) for name, weight in zip(names, slopes, strict=True)},
        {name: _span(values[:, place]) for place, name in enumerate(names)},
        _span(gains),
        {name: _span([row[name] for row in found]) for name in INPUTS[formula]},
        _round(residual),
        _round(max(residual, unlike)),
        _round(_chrf_by_bleu(found)),
        len(found),
        len({row["run"] for row in found}),
    )


def weights(found: Sequence[Row]) -> Floats:
    """Every run weighs one."""
    names = [group(row) for row in found]
    return np.array([1 / names.count(name) for name in names])


def ridge(values: Floats, gains: Floats, weights: Floats) -> tuple[float, Floats]:
    """Intercept and weights of the quantities as they are, with a penalty on standardised ones."""
    centre, mean = np.average(values, axis=0, weights=weights), float(np.average(gains, weights=weights))
    spread = np.sqrt(np.average((values - centre) ** 2, axis=0, weights=weights))
    spread[spread == 0] = 1.0
    scaled = (values - centre) / spread
    normal = scaled.T @ (weights[:, None] * scaled) + PENALTY * np.eye(len(centre))
    slopes = np.linalg.solve(normal, scaled.T @ (weights * (gains - mean))) / spread
    return mean - float(slopes @ centre), slopes


def _residual(formula: str, found: Sequence[Row], by: Callable[[Row], str]) -> float:
    """What INSIDE of the absolute errors stay below when each part is left out in turn; 0 where there is one part."""
    errors: list[float] = []
    for name in sorted({by(row) for row in found}):
        others = [row for row in found if by(row) != name]
        if others:
            left = coefficients(formula, others)
            mine = (row for row in found if by(row) == name)
            errors += [abs(to_scale(row["bleu_gain"][0]) - left.value(formula, row)) for row in mine]
    return float(np.quantile(errors, INSIDE)) if errors else 0.0


def _chrf_by_bleu(found: Sequence[Row]) -> float:
    """The factor from BLEU to chrF with the least squares."""
    pairs = [(row["bleu_gain"][0], row["chrf_gain"][0]) for row in found if row["chrf_gain"]]
    return sum(one * other for one, other in pairs) / sum(one * one for one, _ in pairs) if pairs else 1.0


def _span(values: Sequence[float] | Floats) -> list[float]:
    return [_round(min(values)), _round(max(values))]


def _round(value: float) -> float:
    return round(float(value), _DIGITS)


if __name__ == "__main__":
    main()
