"""The predictor as it was first written down: other quantities, on asinh of the gain, without bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks.predictor.fit import INSIDE, Row, group, ridge, weights

from loopmt.planning.predictor import GAIN, LOSS, NO_GAIN

Floats = npt.NDArray[np.float64]


def predict(formula: str, known: Sequence[Row], targets: Sequence[Row]) -> list[Row]:
    """Rows with a predicted gain, its interval and the verdict."""
    errors = []
    for name in sorted({group(row) for row in known}):
        fit = _fit(formula, [row for row in known if group(row) != name])
        errors += [abs(_gain(row) - fit(row)) for row in known if group(row) == name]
    fit, margin = _fit(formula, known), float(np.quantile(errors, INSIDE))
    return [_with(row, fit(row), margin) for row in targets]


def _with(row: Row, value: float, margin: float) -> dict[str, Any]:
    centre, low, high = (math.sinh(one) for one in (value, value - margin, value + margin))
    verdict = GAIN if low > 0 else LOSS if high < 0 else NO_GAIN
    return {**row, "predicted": [centre, low, high], "unlike": False, "verdict": verdict}


def _fit(formula: str, known: Sequence[Row]) -> Callable[[Row], float]:
    values = np.array([_quantities(formula, row) for row in known])
    intercept, slopes = ridge(values, np.array([_gain(row) for row in known]), weights(known))
    return lambda row: intercept + float(np.array(_quantities(formula, row)) @ slopes)


def _gain(row: Row) -> float:
    return math.asinh(row["bleu_gain"][0])


def _quantities(formula: str, row: Row) -> list[float]:
    if formula == "untaught":
        return [math.log10(row["tokens"]), row["shared"]]
    text, epochs = math.log10(1 + row["mono"] / row["pairs"]), math.log10(1 + row["epochs"])
    own = [row["ahead"], row["ahead"] * text] if formula == "longer" else [text, text * row["bleu_back"]]
    return [*own, row["bleu"], epochs]
