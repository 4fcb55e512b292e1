"""How well the predictor does on runs that it has not seen: `python -m benchmarks.predictor.evaluate`.

Writes docs/results/predictor/evaluation.json: runs left out in turn, corpora left out in turn, plans on dual loops, and
runs recorded after the fit. Intervals come from resampling runs. `registered` is the first version of the predictor,
which was written down before anything was left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Any

import numpy as np
from benchmarks import condense
from benchmarks.predictor import registered
from benchmarks.predictor.fit import Row, corpus, fitted, group, of_formula, rows
from benchmarks.predictor.rows import LATER, RESULTS

from loopmt.planning.predictor import GAIN, INPUTS, KINDS, LOSS, PredictedGain, predict_gain, predicted
from loopmt.rng import numpy_generator

Json = dict[str, Any]
Predict = Callable[[str, Sequence[Row], Sequence[Row]], list[Row]]
EVALUATION = RESULTS / "predictor" / "evaluation.json"
SAMPLES = 2000


def main() -> None:
    condense.write(EVALUATION, evaluation(SAMPLES), 3)
    print(f"wrote {EVALUATION}")


def evaluation(samples: int) -> Json:
    """Every check, for all kinds of comparisons together and for each."""
    first, dual = rows(), rows("dual")
    later = json.loads(LATER.read_text(encoding="utf-8"))["rows"] if LATER.is_file() else []
    checks = {
        "runs": left_out(first, first, group, by_fit),
        "corpora": left_out(first, first, corpus, by_fit),
        "runs, plans on dual loops": left_out(first, dual, group, by_fit),
        "runs, as registered": left_out(first, first, group, registered.predict),
        "corpora, as registered": left_out(first, first, corpus, registered.predict),
        "later runs": [shipped(row) for row in later if row["planned_on"] == "vanilla"],
    }
    return {name: by_kind(found, samples) for name, found in checks.items() if found}


# -- predictions -----------------------------------------------------------------------------------------------


def left_out(known: Sequence[Row], wanted: Sequence[Row], by: Callable[[Row], str], predict: Predict) -> list[Row]:
    """The wanted rows of each part, predicted from the known rows of the other parts."""
    found: list[Row] = []
    for formula in INPUTS:
        mine, targets = of_formula(known, formula), of_formula(wanted, formula)
        for name in sorted({by(row) for row in targets}):
            others = [row for row in mine if by(row) != name]
            if len({group(row) for row in others}) > 1:
                found += predict(formula, others, [row for row in targets if by(row) == name])
    return found


def by_fit(formula: str, known: Sequence[Row], targets: Sequence[Row]) -> list[Row]:
    """By the formula of today, fitted on the known rows."""
    fit = fitted(formula, known)
    return [_with(row, predicted(fit, formula, row, row["against"])) for row in targets]


def shipped(row: Row) -> Row:
    return _with(row, predict_gain(KINDS[row["kind"]], row, row["against"]))


def _with(row: Row, gain: PredictedGain) -> Row:
    return {
        **row,
        "predicted": gain.bleu,
        "predicted_chrf": gain.chrf,
        "unlike": bool(gain.unlike),
        "verdict": gain.verdict,
    }


# -- figures ---------------------------------------------------------------------------------------------------


def by_kind(found: Sequence[Row], samples: int) -> Json:
    kinds = [kind for kind in KINDS if any(row["kind"] == kind for row in found)]
    parts = {"all": list(found), **{kind: [row for row in found if row["kind"] == kind] for kind in kinds}}
    return {name: {**counts(part), **figures(part, samples)} for name, part in parts.items()}


def counts(found: Sequence[Row]) -> Json:
    lost = [row for row in found if outcome(row) < 0]
    verdicts = {word: _ended([row for row in found if row["verdict"] == word]) for word in (GAIN, "no gain", LOSS)}
    return {
        "rows": len(found),
        "runs": len({row["run"] for row in found}),
        "gained": sum(outcome(row) > 0 for row in found),
        "lost": len(lost),
        "runs_that_lost": len({row["run"] for row in lost}),
        "unlike": sum(row["unlike"] for row in found),
        "ended": verdicts,
    }


def _ended(found: Sequence[Row]) -> list[int]:
    """Gained, no difference, lost."""
    ended = [outcome(row) for row in found]
    return [ended.count(1), ended.count(0), ended.count(-1)]


def figures(found: Sequence[Row], samples: int) -> Json:
    """Each figure with its interval over resampled runs."""
    names = sorted({group(row) for row in found})
    members = {name: [row for row in found if group(row) == name] for name in names}
    draws = numpy_generator("predictor", "runs").integers(0, len(names), size=(samples, len(names)))
    centre = _figures(found)
    resampled = [_figures([row for place in draw for row in members[names[place]]]) for draw in draws]
    return {key: _estimate(value, [one[key] for one in resampled]) for key, value in centre.items()}


def _estimate(value: float | None, values: Sequence[float | None]) -> list[float | None]:
    known = [one for one in values if one is not None]
    low, high = np.quantile(known, [0.025, 0.975]) if known else (None, None)
    return [None if one is None else round(float(one), 4) for one in (value, low, high)]


def _figures(found: Sequence[Row]) -> dict[str, float | None]:
    chrf = [row for row in found if row["chrf_gain"] and "predicted_chrf" in row]
    sizes = _sizes(found, "predicted", "bleu_gain")
    return {
        "balanced_accuracy": balanced(found, lambda row: row["predicted"][0] > 0),
        "theory": balanced([row for row in found if row["kind"] != "untaught"], _by_theory),
        "accuracy": _accuracy(found, lambda row: row["predicted"][0] > 0),
        "always_gain": _accuracy(found, lambda row: True),
        **sizes,
        **{f"chrf_{key}": value for key, value in _sizes(chrf, "predicted_chrf", "chrf_gain").items()},
    }


def _sizes(found: Sequence[Row], predicted: str, gain: str) -> dict[str, float | None]:
    """Mean error, that of the best constant for each kind, by how much it is below, and the share in the interval."""
    if not found:
        return dict.fromkeys(("error", "constant", "below_constant", "coverage"))
    error = fmean(abs(row[predicted][0] - row[gain][0]) for row in found)
    constant = _constant_error(found, gain)
    return {
        "error": error,
        "constant": constant,
        "below_constant": 1 - error / constant if constant else None,
        "coverage": fmean(row[predicted][1] <= row[gain][0] <= row[predicted][2] for row in found),
    }


def outcome(row: Row) -> int:
    """1 and -1: gained or lost beyond chance."""
    _, low, high = row["bleu_gain"]
    return int(low > 0) - int(high < 0)


def balanced(found: Sequence[Row], gains: Callable[[Row], bool]) -> float | None:
    """The mean of how often gains and how often losses are called so, where the observed interval excludes zero."""
    up, down = ([row for row in found if outcome(row) == sign] for sign in (1, -1))
    if not up or not down:
        return None
    return (fmean(gains(row) for row in up) + fmean(not gains(row) for row in down)) / 2


def _accuracy(found: Sequence[Row], gains: Callable[[Row], bool]) -> float | None:
    decided = [row for row in found if outcome(row)]
    return fmean(gains(row) == (outcome(row) > 0) for row in decided) if decided else None


def _by_theory(row: Row) -> bool:
    """M of the dual loop, or beyond it, is below 1."""
    ratio = row["M" if row["kind"] == "dual" else "M_beyond_dual"]
    return ratio is not None and ratio < 1


def _constant_error(found: Sequence[Row], key: str) -> float:
    """Of the best constant for each kind, which one could not know in advance."""
    gains: dict[str, list[float]] = {}
    for row in found:
        gains.setdefault(row["kind"], []).append(row[key][0])
    return fmean(abs(gain - median(mine)) for mine in gains.values() for gain in mine)


if __name__ == "__main__":
    main()
