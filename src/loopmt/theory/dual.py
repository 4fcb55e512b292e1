"""The loop of two translators: the joint law, Theorem 1, the exact accuracy, hypothesis H.

Y: the forward step is right; V: the backward step is right for its input; R: the sentence returns to its meaning.
p = Pr(Y), r = Pr(V), lambda = Cov(Y, V), delta = Pr(R | Y = V = 0). Oracles are bijections between meanings, so a
sentence returns after no error, never after one, and with probability delta after two (the paper uses this implicitly:
erratum 24).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from loopmt.errors import TheoryError
from loopmt.theory.exact import (
    TOLERANCE,
    Out,
    emptied,
    exact,
    exceeds,
    feasible,
    plain,
    probability,
    ratio,
    rounding,
    snap_to_bounds,
    within,
)
from loopmt.theory.partition import Partition


def lambda_range(p: Fraction, r: Fraction) -> tuple[Fraction, Fraction]:
    """The exact range of lambda: -min{pr, (1-p)(1-r)} to min{p, r} - pr (erratum 8)."""
    return -min(p * r, (1 - p) * (1 - r)), min(p, r) - p * r


@dataclass(frozen=True)
class DualLaw:
    """The joint law of (Y, V) and delta."""

    p: Fraction
    r: Fraction
    lam: Fraction
    delta: Fraction

    @classmethod
    def read(cls, p: float, r: float, lam: float, delta: float) -> DualLaw:
        """The law with these parameters; an error if it is impossible."""
        p_, r_ = probability("p", p), probability("r", r)
        why = f" with p = {float(p_):g} and r = {float(r_):g}"
        return cls(p_, r_, within("lambda", lam, *lambda_range(p_, r_), why), probability("delta", delta))

    @property
    def cells(self) -> dict[str, Fraction]:
        """P11 = pr + lambda, P10 = p(1-r) - lambda, P01 = (1-p)r - lambda, P00 = (1-p)(1-r) + lambda."""
        p, r, lam = self.p, self.r, self.lam
        cells = {
            "P11": p * r + lam,
            "P10": p * (1 - r) - lam,
            "P01": (1 - p) * r - lam,
            "P00": (1 - p) * (1 - r) + lam,
        }
        return emptied(cells, rounding(*lambda_range(p, r)))

    @property
    def cases(self) -> Partition:
        """c11 = P11 and c12 = delta P00: Cases 1.1 and 1.2 in the proof of Theorem 1."""
        cells = self.cells
        return Partition.of(self.p, cells["P11"], self.delta * cells["P00"])


def joint2(p: float, r: float, lam: float) -> Out:
    """The joint law of (Y, V), the tight range of lambda, and the range as printed.

    Section 3 of the paper, the four equations after the definition of lambda and the range below them. Erratum 8: the
    printed upper bound min{p, r} is too large by exactly pr. For an impossible lambda, `feasible` is false. phi is the
    correlation.
    """
    p_, r_, lam_ = probability("p", p), probability("r", r), exact("lambda", lam)
    low, high = lambda_range(p_, r_)
    possible = feasible(lam_, low, high)
    if possible:
        lam_ = snap_to_bounds(lam_, low, high)
    spread = math.sqrt(p_ * (1 - p_)) * math.sqrt(r_ * (1 - r_))
    return plain(
        {
            **DualLaw(p_, r_, lam_, Fraction(0)).cells,
            "lambda_lo": low,
            "lambda_hi": high,
            "feasible": possible,
            "phi": float(lam_) / spread if spread else None,
            "printed_lambda_lo": low,
            "printed_lambda_hi": min(p_, r_),
            "printed_range_accepts": feasible(lam_, low, min(p_, r_)),
        }
    )


def theorem1(p: float, r: float, lam: float, delta: float, alpha: float) -> Out:
    """Theorem 1, c11 + alpha c2, with its break-even point, bracket and slopes.

    The printed algebra is right, but its result is Pr(right and reconstructed), a lower bound of the accuracy if
    verdicts in Case 1 do not change (erratum 9). Then the accuracy lies in [c11, 1 - c12]. The slopes hold the other
    parameters fixed; dgain_dp <= 0: better translators improve less (erratum 10).
    """
    law, a = DualLaw.read(p, r, lam, delta), probability("alpha", alpha)
    cases, d = law.cases, law.delta
    slope = (1 - a) * law.r + a * d * (1 - law.r)
    return plain(
        {
            **cases.cells(),
            "p_align": cases.c12,
            "p_d_lower": cases.printed(a),
            "bracket_lo": cases.c11,
            "bracket_hi": 1 - cases.c12,
            "alpha_breakeven": cases.breakeven,
            "ddp": slope,
            "ddr": (1 - a) * law.p + a * d * (1 - law.p),
            "ddlambda": 1 - a * (1 + d),
            "ddalpha": cases.c2,
            "dddelta": -a * law.cells["P00"],
            "dgain_dp": slope - 1,
            "printed_p_d": cases.printed(a),
        }
    )


def redistribution(alpha: float, kappa: float) -> tuple[Fraction, Fraction]:
    """alpha and kappa as probabilities of disjoint events, so that alpha + kappa <= 1."""
    a, k = probability("alpha", alpha), probability("kappa", kappa)
    if a + k > 1 + TOLERANCE:
        raise TheoryError(
            f"alpha + kappa = {float(a + k):g} exceeds 1: kappa is part of gamma, so with "
            f"alpha = {float(a):g} it lies in [0, {float(1 - a):g}]."
        )
    return a, k


def exact_accuracy(
    p: float, r: float, lam: float, delta: float, alpha: float, kappa: float, u11: float, u12: float
) -> Out:
    """The accuracy after training without any assumption, next to Theorem 1 (erratum 9).

    p^d = c11 (1 - u11) + c12 u12 + (alpha + kappa) c2, by total probability over the case of a sentence
    before training. kappa = Pr(right, not reconstructed after | Case 2); u11, u12: the share of Case 1.1
    that turns wrong and of Case 1.2 that turns right.
    """
    cases = DualLaw.read(p, r, lam, delta).cases
    a, k = redistribution(alpha, kappa)
    correction = cases.correction(k, probability("u11", u11), probability("u12", u12))
    accuracy = cases.printed(a) + correction
    return plain(
        {
            "p_d_exact": accuracy,
            "p_d_thm1": cases.printed(a),
            "correction": correction,
            "gain_exact": accuracy - cases.accuracy,
            "thm1_is_exact": abs(correction) <= TOLERANCE,
            "printed_p_d": cases.printed(a),
        }
    )


def gain_numerator(law: DualLaw, sign: int) -> Fraction | None:
    """((1+delta)r - delta)(1-p) + lambda(1/p - 1 + sign delta); sign is -1, printed as +1 (erratum 6)."""
    if not law.p:
        return None
    bracket = (1 + law.delta) * law.r - law.delta
    return bracket * (1 - law.p) + law.lam * (1 / law.p - 1 + sign * law.delta)


def fixed_point(law: DualLaw, gamma: Fraction) -> Fraction | None:
    """p* = (D* - delta(1-r)) / (r - delta(1-r)), D* = r(1-gamma)/(1-gamma r).

    At lambda = 0 hypothesis H predicts a gain only below p*, and repeated rounds stop there.
    """
    blind = law.delta * (1 - law.r)
    if law.r == blind or gamma * law.r == 1:
        return None
    return (law.r * (1 - gamma) / (1 - gamma * law.r) - blind) / (law.r - blind)


def _line3(cases: Partition, gamma: Fraction, numerator: Fraction | None) -> Fraction | None:
    """p (numerator / D - Gamma Delta), Delta = (r + lambda/p) / D: the last line of the gain."""
    if numerator is None or not cases.reconstructed:
        return None
    return (cases.accuracy * numerator - gamma * cases.c2 * cases.c11) / cases.reconstructed


def proportional(p: float, r: float, lam: float, delta: float, gamma: float) -> Out:
    """Hypothesis H, alpha/beta = c11/c12: equation "accdual", p^d = s(1 - Gamma), Gamma = gamma c2.

    Erratum 6: the last line of the printed gain has +delta where -delta is right. Erratum 7: the printed
    condition r > delta/(1+delta) holds for lambda = 0, gamma = 0 only; the exact one is gamma < gamma_star.
    """
    law, g = DualLaw.read(p, r, lam, delta), probability("gamma", gamma)
    cases = law.cases
    s, accuracy = cases.precision, cases.proportional(g)
    corrected, printed = gain_numerator(law, -1), gain_numerator(law, +1)
    return plain(
        {
            "c11": cases.c11,
            "c12": cases.c12,
            "c2": cases.c2,
            "Gamma": g * cases.c2,
            "s": s,
            "alpha": None if s is None else (1 - g) * s,
            "beta": None if s is None else (1 - g) * (1 - s),
            "p_d": accuracy,
            "gain": None if accuracy is None else accuracy - law.p,
            "better": None if accuracy is None else exceeds(accuracy, law.p),
            "M": cases.likelihood,
            "gamma_star": cases.gamma_star,
            "gain_corrected_line3": _line3(cases, g, corrected),
            "printed_gain": _line3(cases, g, printed),
            "gain_numerator_corrected": corrected,
            "printed_gain_numerator": printed,
            "printed_condition_r_gt": exceeds(law.r, law.delta / (1 + law.delta)),
            "p_star_lambda0": fixed_point(law, g),
        }
    )


def identified_set(p: float, c11: float, c12: float, r: float) -> Out:
    """The values of r, lambda and delta that are consistent with (Y, R): a curve, not a point.

    c11 <= r <= c11 + (1-p) - c12, lambda = c11 - p r, delta = c12 / (1 - p - r + c11). The paper puts
    r = p21, a guess: there is no reference for translating a machine's output back.
    """
    p_ = probability("p", p)
    right = within("c11", c11, Fraction(0), p_, " (right and reconstructed cannot exceed p)")
    blind = within("c12", c12, Fraction(0), 1 - p_, " (wrong and reconstructed cannot exceed 1 - p)")
    low, high = right, right + (1 - p_) - blind
    r_ = within("r", r, low, high, f" with p = {float(p_):g}, c11 = {float(right):g}, c12 = {float(blind):g}")
    return plain(
        {
            "r_lo": low,
            "r_hi": high,
            "lambda_lo": right - p_ * high,
            "lambda_hi": right - p_ * low,
            "delta_lo": ratio(blind, 1 - p_),
            "delta_hi": Fraction(1) if blind else None,
            "at_r": {"r": r_, "lambda": right - p_ * r_, "delta": ratio(blind, 1 - p_ - r_ + right)},
        }
    )
