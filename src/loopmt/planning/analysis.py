"""Estimate the theory's parameters from verdicts on loops, each with its 95% interval.

An estimate is [value, low, high]; a value that cannot be identified is None. Shares have Wilson intervals, ratios have
intervals on the log scale, and differences on the same sentences have paired normal intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from loopmt import theory
from loopmt.planning.round_trips import Bools, Verdicts, count_verdicts
from loopmt.theory.estimate import Z95, VerdictCounts, wilson
from loopmt.theory.loops import error_odds, read_loop

Estimate = list[float | None]
Values = dict[str, Estimate]

BEFORE = {
    "p": ("1...", "...."), "c11": ("11..", "...."), "c12": ("01..", "...."), "c21": ("10..", "...."),
    "c22": ("00..", "...."), "D": (".1..", "...."), "s": ("11..", ".1.."), "breakeven": ("10..", ".0.."),
}  # fmt: skip
"""Shares known before training: patterns of the bits (Y, R, Yd, Rd) for the numerator and the denominator."""

AFTER = {
    "p_d": ("..1.", "...."), "alpha": (".011", ".0.."), "beta": (".001", ".0.."), "gamma": (".0.0", ".0.."),
    "kappa": (".010", ".0.."), "eta": (".1.1", ".1.."), "u11": ("110.", "11.."), "u12": ("011.", "01.."),
}  # fmt: skip
"""Shares that compare the same sentences before and after training."""


def share(part: int, whole: int) -> Estimate:
    return [part / whole if whole else None, *wilson(part, whole)]


def share_of(rows: Bools) -> Estimate:
    return share(int(rows.sum()), len(rows))


def shares(counts: VerdictCounts, names: dict[str, tuple[str, str]]) -> Values:
    return {name: share(counts.of(part), counts.of(whole)) for name, (part, whole) in names.items()}


def likelihood(right: Bools, home: Bools) -> Estimate:
    """M = Pr(home | wrong) / Pr(home | right); below 1 the loop can tell right from wrong.

    If one of the four cases is empty, half a sentence is added to each. Otherwise the interval would be undefined or
    too narrow.
    """
    counts = count_verdicts(right, home, right, home)
    cells = [VerdictCounts(counts).of(key) for key in ("11..", "01..", "10..", "00..")]
    out = theory.estimate_observed(counts)
    if out["M"] is None:
        return [None, 0.0, math.inf]
    if all(cells):
        return [out["M"], *out["M_ci"]]
    n11, n12, n21, n22 = (cell + 0.5 for cell in cells)
    centre = n12 * (n11 + n21) / (n11 * (n12 + n22))
    spread = math.exp(Z95 * math.sqrt(1 / n12 - 1 / (n12 + n22) + 1 / n11 - 1 / (n11 + n21)))
    return [out["M"], min(centre / spread, out["M"]), max(centre * spread, out["M"])]


def before_training(verdicts: Verdicts) -> Values:
    """All quantities of a loop that need only decoding."""
    counts = VerdictCounts(count_verdicts(verdicts.right, verdicts.home, verdicts.right, verdicts.home))
    return {**shares(counts, BEFORE), "M": likelihood(verdicts.right, verdicts.home)}


def observed(before: Verdicts, after: Verdicts) -> Values:
    """How training changed the verdicts on a loop; `thm1` is Theorem 1 at the measured alpha."""
    counts = count_verdicts(before.right, before.home, after.right, after.home)
    out = theory.estimate_observed(counts)
    return {
        **before_training(before),
        **shares(VerdictCounts(counts), AFTER),
        "gain": [out["gain"], *out["gain_ci"]],
        "rho": [out["rho"], *(out["rho_ci"] or (0.0, math.inf))],
        "thm1": [out["thm1"], None, None],
    }


def beyond_placebo(before: Verdicts, after: Verdicts, control: Verdicts) -> Values:
    """The effect of loops: each share after training minus the same share after the control, on the same sentences.

    Any retraining moves sentences across a threshold. A share and its placebo have the same denominator m. With b
    sentences counted only in the share and c only in the placebo, the difference is (b - c)/m.
    """
    start = [before.right, before.home]
    trained, placebo = ([*start, stage.right, stage.home] for stage in (after, control))
    found = {}
    for name, (part, whole) in AFTER.items():
        among = matches(whole, start)
        found[name] = paired(matches(part, trained)[among], matches(part, placebo)[among])
    return {"gain": found.pop("p_d"), **found}


def matches(pattern: str, bits: Sequence[Bools]) -> Bools:
    """Which sentences have bits that match a pattern of BEFORE or AFTER; the arrays may have any shape."""
    chosen = np.ones_like(bits[0])
    for want, bit in zip(pattern, bits, strict=False):  # `bits` may hold only the first ones
        if want != ".":
            chosen &= bit == (want == "1")
    return chosen


def paired(one: Bools, other: Bools) -> Estimate:
    """The share of sentences where `one` holds minus the share where `other` holds.

    The interval adds half a sentence to each of the four outcomes (Agresti and Min), so that few sentences do not
    give certainty.
    """
    if not len(one):
        return [None, -1.0, 1.0]
    more, less, count = int((one & ~other).sum()), int((other & ~one).sum()), len(one)
    difference, centre = (more - less) / count, (more - less) / (count + 2)
    half = Z95 * math.sqrt(more + less + 1 - (count + 2) * centre * centre) / (count + 2)
    return [difference, max(-1.0, min(centre - half, difference)), min(1.0, max(centre + half, difference))]


def latent(verdicts: Verdicts) -> dict[str, Any]:
    """Parameters that need an exact judge of every hop: q, r, lambda, delta; of a triangle lambda1, lambda2."""
    assert verdicts.steps is not None, "only an exact judge judges every hop"
    accuracies = [share_of(step) for step in verdicts.steps]
    errors = len(verdicts.steps) - np.sum(verdicts.steps, axis=0)
    delta = share_of(verdicts.home[errors >= 2])
    counts = count_verdicts(*verdicts.steps, verdicts.home)
    return {
        **{f"q{number}": accuracy for number, accuracy in enumerate(accuracies, 1)},
        "delta": delta,
        **_dependence(counts, len(verdicts.steps)),
        "error_odds": [_odds(accuracies), None, None],
        "odds_limit": [1 / delta[0] if delta[0] else None, None, None],
        "lost_without_error": share_of(~verdicts.home[errors == 0]),
        "home_with_one_error": share_of(verdicts.home[errors == 1]),
    }


def _odds(accuracies: list[Estimate]) -> float:
    """The sum of the helpers' error odds; the loop is informative if it is below 1/delta."""
    return float(error_odds(read_loop([accuracy[0] or 0.0 for accuracy in accuracies])[1]))


def _dependence(counts: dict[str, int], steps: int) -> dict[str, Any]:
    if steps == 2:
        out = theory.estimate_latent(counts)
        return {"r": [out["r"], *out["r_ci"]], "lambda": [out["lam"], *out["lam_ci"]]}
    if steps == 3:
        out = theory.estimate_triangle(counts)
        found = {name: _normal(out[name], out[f"{name}_se"]) for name in ("lambda1", "lambda2")}
        return {**found, "equal_covariances_chi2": [out["pairwise_equality_chi2_df2"], None, None]}
    return {}


def _normal(centre: float, error: float) -> Estimate:
    return [centre, centre - Z95 * error, centre + Z95 * error]


def identified(verdicts: Verdicts) -> dict[str, Any]:
    """Ranges of r, lambda and delta of a dual loop, whose values need a judge of the way back."""
    values = before_training(verdicts)
    p, c11, c12 = (values[name][0] or 0.0 for name in ("p", "c11", "c12"))
    out = theory.identified_set(p, c11, c12, c11)
    return {name: [None, out[f"{name}_lo"], out[f"{name}_hi"]] for name in ("r", "lambda", "delta")}


def threshold_errors(judged: Verdicts, truth: Verdicts) -> dict[str, Values]:
    """The errors of a threshold against the exact judge: on the first hop, and on the round trip."""
    return {
        "right": _confusion(judged.right, truth.right),
        "home": _confusion(judged.home, truth.home),
    }


def _confusion(judged: Bools, truth: Bools) -> Values:
    return {
        "judged": share_of(judged),
        "exact": share_of(truth),
        "agreement": share_of(judged == truth),
        "passed_though_wrong": share_of(judged[~truth]),
        "failed_though_right": share_of(~judged[truth]),
    }
