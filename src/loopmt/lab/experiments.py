"""Experiments: errors of the theorems, prediction from half of the sentences, and comparison of loops.

Every experiment returns rows for printing, averaged over the same random worlds, and the raw records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np

from loopmt import theory
from loopmt.errors import TheoryError
from loopmt.lab.languages import LabSettings, LabStart, Translators, vanilla
from loopmt.lab.learning import DUAL, PIVOT_DUALS, TRIANGLE, loops_of, train, train_every_hop
from loopmt.lab.measuring import LabRoundTrip, conditional_likelihood, decode, dual_truth, likelihood, triangle_truth
from loopmt.lab.rewards import reward_records
from loopmt.progress import Progress, Silent
from loopmt.rng import numpy_generator
from loopmt.theory.cases import jsonable

Record = dict[str, Any]

DEPENDENCE = {"none": (0.0, 0.0), "some": (0.5, 0.5), "much": (0.8, 0.8)}
"""Strengths of shared errors and of errors to twins."""


@dataclass(frozen=True)
class LabResult:
    """The result of one experiment."""

    rows: list[Record]
    records: list[Record]


def average(records: Iterable[Record], by: tuple[str, ...]) -> list[Record]:
    """One row for each value of the keys, with the means of all other values; None is ignored."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[key] for key in by), []).append(record)
    return [dict(zip(by, key, strict=True)) | _means(group, by) for key, group in groups.items()]


def _means(group: list[Record], by: tuple[str, ...]) -> Record:
    names = [name for name in group[0] if name not in by and name != "world"]
    return {name: _mean(record[name] for record in group) for name in names}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return float(np.mean(known)) if known else None


def _accuracy(translators: Translators, settings: LabSettings) -> float:
    return float(decode(translators, (1, 2), settings).right[0].mean())


# --- the theorems ------------------------------------------------------------------------------------


def dual_record(before: LabRoundTrip, after: LabRoundTrip) -> Record:
    """All quantities of a dual run, with the predictions of Theorem 1, hypothesis H and the exact formula."""
    truth = dual_truth(before, after)
    predictions = predict(truth, truth)
    errors = {f"{name}_error": value - truth["p_d"] for name, value in predictions.items()}
    kept = ("p", "r", "lam", "delta", "alpha", "beta", "gamma", "kappa", "u11", "u12", "eta", "rho", "M", "p_d")
    return {name: truth[name] for name in kept} | {"gain": truth["gain"]} | errors


def predict(cases: Mapping[str, Any], training: Mapping[str, Any]) -> dict[str, float]:
    """The accuracy after training by each formula, from cases and parameters of training."""
    c11, c12, c2 = cases["c11"], cases["c12"], cases["c2"]
    known = {name: training[name] or 0.0 for name in ("alpha", "gamma", "kappa", "u11", "u12")}
    printed = c11 + known["alpha"] * c2
    return {
        "theorem1": printed,
        "hypothesis_h": c11 / (c11 + c12) * (1 - known["gamma"] * c2) if c11 + c12 else 0.0,
        "exact": printed + known["kappa"] * c2 + c12 * known["u12"] - c11 * known["u11"],
    }


def theorem1_finding(settings: LabSettings) -> LabResult:
    """The errors of each formula for dual learning, by accuracy and dependence."""
    records = []
    for name, (shared, twins) in DEPENDENCE.items():
        for forward in (0.5, 0.65, 0.8):
            start = LabStart(forward=forward, shared=shared, twins=twins, languages=2)
            for world in range(settings.worlds):
                before, after = _dual_run(settings, start, world)
                where = {"dependence": name, "forward": forward, "world": world}
                half = numpy_generator(settings.seed, "halves", name, str(forward), world)
                records.append(where | dual_record(before, after) | _halves(before, after, half))
    return LabResult(average(records, ("dependence", "forward")), records)


def _dual_run(settings: LabSettings, start: LabStart, world: int) -> tuple[LabRoundTrip, LabRoundTrip]:
    translators = vanilla(settings, start, world)
    trained = train(translators, DUAL, settings)
    return decode(translators, (1, 2, 1), settings), decode(trained, (1, 2, 1), settings)


def _halves(before: LabRoundTrip, after: LabRoundTrip, rng: np.random.Generator) -> Record:
    """Parameters of training measured on one half of the sentences, the gain predicted on the other."""
    size = len(before.returned)
    pilot = rng.permutation(size) < size // 2
    seen = dual_truth(before.only(pilot), after.only(pilot))
    rest = dual_truth(before.only(~pilot), after.only(~pilot))
    predictions = predict(rest, seen)
    return {
        "half_gain": rest["gain"],
        "half_pilot_gain": seen["gain"],
        **{f"half_{name}": value - rest["p"] for name, value in predictions.items()},
        "half_low": -rest["c21"],
        "half_high": rest["c22"],
    }


def halves_finding(theorem1: LabResult) -> LabResult:
    """The errors of each formula in predicting the gain on one half of the sentences from the other."""
    names = {
        "exact": "exact formula",
        "theorem1": "Theorem 1",
        "hypothesis_h": "hypothesis H",
        "pilot_gain": "the pilot's own gain",
    }
    truth = np.array([record["half_gain"] for record in theorem1.records])
    rows = []
    for name, title in names.items():
        guess = np.array([record[f"half_{name}"] for record in theorem1.records])
        rows.append({
            "prediction": title,
            "mean error": float(np.mean(guess - truth)),
            "mean absolute error": float(np.mean(np.abs(guess - truth))),
            "correlation": float(np.corrcoef(guess, truth)[0, 1]) if guess.std() and truth.std() else None,
            "right sign": float(np.mean(np.sign(guess) == np.sign(truth))),
        })  # fmt: skip
    return LabResult(rows, [])


def theorem2_finding(settings: LabSettings) -> LabResult:
    """Algorithm 2 after dual learning: Theorem 2 as printed and corrected, against the true accuracy."""
    records = []
    for name, (shared, twins) in DEPENDENCE.items():
        start = LabStart(shared=shared, twins=twins)
        for world in range(settings.worlds):
            dual = train(vanilla(settings, start, world), DUAL + PIVOT_DUALS, settings)
            before = decode(dual, (1, 2, 3, 1), settings)
            after = decode(train(dual, TRIANGLE, settings), (1, 2, 3, 1), settings)
            records.append({"dependence": name, "world": world} | _triangle_record(before, after))
    return LabResult(average(records, ("dependence",)), records)


def _triangle_record(before: LabRoundTrip, after: LabRoundTrip) -> Record:
    law, truth = triangle_truth(before), dual_truth(before, after)
    alpha, delta = truth["alpha"] or 0.0, law["delta"] or 0.0
    lambdas = ("lambda_12_23", "lambda_23_31", "lambda_12_31", "lambda1", "lambda2")
    record = {name: law[name] for name in ("q12", "q23", "q31", *lambdas)}
    record |= {"delta": delta, "alpha": alpha, "kappa": truth["kappa"], "q_m": truth["p_d"], "gain": truth["gain"]}
    return (
        record
        | _theorem2_errors(law, delta, alpha, truth["p_d"])
        | {"c11_plus_alpha_c2_error": truth["thm1"] - truth["p_d"]}
    )


def _theorem2_errors(law: Mapping[str, Any], delta: float, alpha: float, truth: float) -> Record:
    """Theorem 2 minus the true value; undefined if no law with equal covariances has these numbers."""
    q = (law["q12"], law["q23"], law["q31"])
    try:
        out = theory.theorem2(*q, law["lambda1"], law["lambda2"], delta, alpha)
    except TheoryError:
        return {"equal_covariances_possible": 0.0, "printed_error": None, "corrected_error": None}
    return {
        "equal_covariances_possible": 1.0,
        "printed_error": out["printed_q_m"] - truth,
        "corrected_error": out["q_m_lower"] - truth,
    }


# --- which loop --------------------------------------------------------------------------------------


def triangle_finding(settings: LabSettings, pivots: Iterable[float] = (0.5, 0.65, 0.8, 0.9, 0.97)) -> LabResult:
    """The triangle instead of, on top of and together with dual learning, by accuracy of the pivots."""
    records = []
    for name in ("none", "some"):
        shared, twins = DEPENDENCE[name]
        for accuracy in pivots:
            start = LabStart(pivots=accuracy, shared=shared, twins=twins)
            for world in range(settings.worlds):
                where = {"dependence": name, "pivots": accuracy, "world": world}
                records.append(where | _contest(settings, vanilla(settings, start, world)))
    return LabResult(average(records, ("dependence", "pivots")), records)


def _contest(settings: LabSettings, start: Translators) -> Record:
    """The gain of every regime from the same start, and the quantities that should predict it."""
    dual = train(start, DUAL, settings)
    helped = train(dual, PIVOT_DUALS, settings)
    regimes = {
        "dual": dual,
        "instead": train(start, TRIANGLE, settings),
        "together": train(start, DUAL + TRIANGLE, settings),
        "on_top": train(helped, TRIANGLE, settings),
        "dual_longer": train(dual, DUAL, settings),
    }
    first = _accuracy(start, settings)
    gains = {name: _accuracy(reached, settings) - first for name, reached in regimes.items()}
    return gains | _signs(settings, start) | _sign_on_top(settings, helped, regimes["on_top"])


def _signs(settings: LabSettings, start: Translators) -> Record:
    """Quantities of the start for the triangle: its way back, its ratio, and its evidence beyond the dual loop."""
    short, long = decode(start, (1, 2, 1), settings), decode(start, (1, 2, 3, 1), settings)
    q23, q31 = (float(right.mean()) for right in long.right[1:])
    return {
        "r": float(short.right[1].mean()),
        "q23_q31": q23 * q31,
        "M2": likelihood(short),
        "M3": likelihood(long),
        "M3_given_2": conditional_likelihood(short, long),
    }


def _sign_on_top(settings: LabSettings, before: Translators, after: Translators) -> Record:
    """M of the triangle over dual-trained models, and hypothesis H's gain at the measured gamma'."""
    round_trips = (decode(translators, (1, 2, 3, 1), settings) for translators in (before, after))
    truth = dual_truth(*round_trips)
    promised = predict(truth, truth)["hypothesis_h"] - truth["p"]
    return {"M3_after_dual": truth["M"], "on_top_h": promised}


def verdicts(triangle: LabResult) -> list[Record]:
    """How often each condition of the theory predicts the outcome, over all worlds."""
    questions: dict[str, tuple[Callable[[Record], bool | None], str]] = {
        "instead of dual: M3 < M2": (lambda c: _less(c["M3"], c["M2"]), "instead"),
        "instead of dual: r < q23 q31": (lambda c: _less(c["r"], c["q23_q31"]), "instead"),
        "on top of dual: M3 < 1": (lambda c: _less(c["M3_after_dual"], 1.0), "on_top"),
        "on top of dual: Gamma' < (1-M3)(1-q12)": (lambda c: _less(0.0, c["on_top_h"]), "on_top"),
        "together with dual: M3|2 < 1": (lambda c: _less(c["M3_given_2"], 1.0), "together"),
    }
    rows = []
    for name, (says, regime) in questions.items():
        answers = [(says(record), record[regime] > record["dual"]) for record in triangle.records]
        known = np.array([pair for pair in answers if pair[0] is not None], dtype=bool).reshape(-1, 2)
        predicted, observed = known[:, 0], known[:, 1]
        shares = {"says better": predicted, "is better": observed, "agrees": predicted == observed}
        means = {key: float(value.mean()) if len(known) else None for key, value in shares.items()}
        rows.append({"condition": name, **means, "decided": len(known)})
    return rows


def _less(left: float | None, right: float | None) -> bool | None:
    """left < right; None if the theory does not decide."""
    return None if left is None or right is None or left == right else left < right


# --- curves ------------------------------------------------------------------------------------------


def curve(settings: LabSettings, starts: Iterable[tuple[float, LabStart]]) -> LabResult:
    """Dual learning from a series of starts."""
    records = [
        {"value": value, "world": world} | dual_record(*_dual_run(settings, start, world))
        for value, start in starts
        for world in range(settings.worlds)
    ]
    return LabResult(average(records, ("value",)), records)


def delta_curve(settings: LabSettings) -> LabResult:
    base = LabStart(languages=2)
    return curve(settings, [(twins, replace(base, twins=twins)) for twins in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)])


def back_curve(settings: LabSettings) -> LabResult:
    base = LabStart(languages=2)
    return curve(settings, [(back, replace(base, back=back)) for back in (0.3, 0.45, 0.6, 0.75, 0.9, 1.0)])


def length_curve(settings: LabSettings, lengths: Iterable[int] = (2, 3, 4, 5, 6)) -> LabResult:
    """A single loop of K steps from the same start, at two accuracies of the helpers."""
    records = []
    for pivots in (0.85, 0.95):
        for length in lengths:
            start = LabStart(back=pivots, pivots=pivots, languages=length)
            for world in range(settings.worlds):
                where = {"pivots": pivots, "length": length, "world": world}
                records.append(where | _loop_record(settings, vanilla(settings, start, world), length))
    return LabResult(average(records, ("pivots", "length")), records)


def _loop_record(settings: LabSettings, start: Translators, length: int) -> Record:
    paths, closed = loops_of(length), (*range(1, length + 1), 1)
    before = decode(start, closed, settings)
    truth = dual_truth(before, decode(train(start, paths, settings), closed, settings))
    promised = {name: value - truth["p"] for name, value in predict(truth, truth).items()}
    return {"M": truth["M"], "gain": truth["gain"], **promised}


def gradient_finding(settings: LabSettings) -> LabResult:
    """Training from one start with exact gradients, samples of several sizes, and learning on every hop."""
    records = []
    for world in range(settings.worlds):
        start = vanilla(settings, LabStart(languages=2), world)
        rng = numpy_generator(settings.seed, "sampling", world)
        runs = {
            "exact, the last hop learns": train(start, DUAL, settings),
            "exact, every hop learns": train_every_hop(start, settings),
        }
        for batch in (settings.size * 4, settings.size, max(1, settings.size // 4)):
            runs[f"{batch} samples a step, the last hop learns"] = train(start, DUAL, settings, batch=batch, rng=rng)
        first = _accuracy(start, settings)
        records += [
            {"training": name, "world": world, "gain": _accuracy(trained, settings) - first}
            for name, trained in runs.items()
        ]
    return LabResult(average(records, ("training",)), records)


def rewards_finding(settings: LabSettings) -> LabResult:
    """The bias of the policy gradient, by exact enumeration."""
    records = [record for world in range(settings.worlds) for record in reward_records(settings, world)]
    return LabResult(average(records, ("draws", "updates", "estimate")), records)


_EXPERIMENTS: dict[str, Callable[[LabSettings], LabResult]] = {
    "theorem1": theorem1_finding,
    "theorem2": theorem2_finding,
    "triangle": triangle_finding,
    "gradients": gradient_finding,
    "delta": delta_curve,
    "r": back_curve,
    "length": length_curve,
    "rewards": rewards_finding,
}


def run_lab(settings: LabSettings, progress: Progress | None = None) -> dict[str, Any]:
    """Every experiment: {"settings", name: {"rows", "records"}}."""
    findings = {}
    with (progress or Silent()).track("experiments in small languages", len(_EXPERIMENTS)) as advance:
        for name, experiment in _EXPERIMENTS.items():
            findings[name] = experiment(settings)
            advance(1)
    findings["halves"] = halves_finding(findings["theorem1"])
    findings["verdicts"] = LabResult(verdicts(findings["triangle"]), [])
    report = {"settings": asdict(settings)} | {name: asdict(finding) for name, finding in findings.items()}
    return cast(dict[str, Any], jsonable(report))
