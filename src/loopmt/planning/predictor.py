"""Predicted gains: three small regressions on quantities that a plan measures in minutes, fitted on recorded runs.

`predictor.json` holds the coefficients and the runs they were fitted on; `benchmarks/predictor/fit.py` writes it. A
gain is predicted on a scale that is linear up to about SCALE points and logarithmic beyond, so large gains have wide
intervals. Quantities and gains are clipped to the range of the recorded runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

Known = Mapping[str, Any]
"""The inputs of a formula by name (see INPUTS), for a direction and a candidate."""

SCALE = 3.0
GAIN, NO_GAIN, LOSS, LONGER = "gain", "no gain", "loss", "train longer first"
KINDS = {"dual": "dual", "uniform": "longer", "chosen": "longer", "untaught": "untaught"}
"""The formula of each kind of recorded comparison."""
INPUTS = {
    "dual": ("pairs", "mono", "epochs", "bleu_back"),
    "longer": ("pairs", "mono", "route", "ahead"),
    "untaught": ("tokens", "shared"),
}
"""The inputs of each formula; LABELS has their printed names."""
LABELS = {
    "pairs": "sentence pairs",
    "mono": "monolingual sentences",
    "epochs": "epochs over the bitext",
    "bleu_back": "BLEU of the reverse direction",
    "route": "share of right sources of the dual loop",
    "ahead": "difference of right sources",
    "tokens": "target tokens of loops",
    "shared": "one network for all directions",
}
_READABLE = 15.0  # BLEU above which better generated sources no longer increase the gain
_FEW = 0.05  # added to a share of right sources in a denominator


def quantities(formula: str, known: Known) -> dict[str, float]:
    """The quantities that a formula weights."""
    if formula == "untaught":
        return {"tokens": math.log10(known["tokens"]), "shared": float(known["shared"])}
    text = math.log10(1 + known["mono"] / known["pairs"])
    if formula == "dual":
        readable = min(1.0, known["bleu_back"] / _READABLE)
        return {"readable text": text * readable, "epochs": math.log10(1 + known["epochs"])}
    ahead = known["ahead"]
    return {"better sources": max(0.0, ahead), "worse sources": text * min(0.0, ahead) / (known["route"] + _FEW)}


def to_scale(gain: float) -> float:
    return math.asinh(gain / SCALE)


def from_scale(value: float) -> float:
    return SCALE * math.sinh(value)


@dataclass(frozen=True)
class GainFormula:
    """A fitted formula: sum the weighted quantities on the scale of `to_scale`."""

    intercept: float
    weights: dict[str, float]
    bounds: dict[str, list[float]]
    """Least and greatest value of each quantity in the recorded runs."""
    gains: list[float]
    """Least and greatest gain, on the scale."""
    inputs: dict[str, list[float]]
    """Least and greatest value of each input."""
    residual: float
    """80% of the errors on left-out runs are smaller than this, on the scale."""
    residual_unlike: float
    """The same for left-out corpora."""
    chrf: float
    """Points of chrF per point of BLEU."""
    rows: int
    runs: int

    def value(self, formula: str, known: Known) -> float:
        """The predicted gain, on the scale."""
        found = quantities(formula, known)
        terms = (weight * _within(found[name], self.bounds[name]) for name, weight in self.weights.items())
        return _within(self.intercept + sum(terms), self.gains)

    def unlike(self, known: Known) -> dict[str, list[float]]:
        """Inputs outside the recorded range: the value, and the least and greatest recorded value."""
        outside = {name: span for name, span in self.inputs.items() if not span[0] <= known[name] <= span[1]}
        return {LABELS[name]: [known[name], *span] for name, span in outside.items()}


def _within(value: float, bounds: list[float]) -> float:
    return min(max(value, bounds[0]), bounds[1])


@dataclass(frozen=True)
class PredictedGain:
    """A gain over the control, [value, low, high] in BLEU and chrF with 80% intervals."""

    over: str
    bleu: list[float]
    chrf: list[float]
    unlike: dict[str, list[float]]
    """Inputs outside the recorded range; if there are any, the interval is that of left-out corpora."""

    @property
    def verdict(self) -> str:
        _, low, high = self.bleu
        return GAIN if low > 0 else LOSS if high < 0 else NO_GAIN

    def as_json(self, verdict: str | None = None) -> dict[str, Any]:
        return {**vars(self), "verdict": verdict or self.verdict}


def predict_gain(formula: str, known: Known, over: str) -> PredictedGain:
    """The predicted gain of a candidate over its control, `over`."""
    return predicted(formulas()[formula], formula, known, over)


def predicted(fitted: GainFormula, formula: str, known: Known, over: str) -> PredictedGain:
    centre, unlike = fitted.value(formula, known), fitted.unlike(known)
    margin = fitted.residual_unlike if unlike else fitted.residual
    bleu = [from_scale(value) for value in (centre, centre - margin, centre + margin)]
    return PredictedGain(over, bleu, [fitted.chrf * value for value in bleu], unlike)


@cache
def formulas() -> dict[str, GainFormula]:
    """The shipped coefficients."""
    content = json.loads(files("loopmt.planning").joinpath("predictor.json").read_text(encoding="utf-8"))
    return {name: GainFormula(**one) for name, one in content["formulas"].items()}
