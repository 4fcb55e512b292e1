"""The loop of three translators, S1 > S2 > S3 > S1: the joint law, Theorem 2, the ratio M.

Z12, Z23, Z31: the three steps are right for their inputs; q12, q23, q31 are their probabilities. All pairs have the
covariance lambda1, and P111 = q12 q23 q31 + lambda2. All patterns of two or more errors have the same delta; a sentence
never returns after exactly one error (errata 11 and 12 correct the printed definition).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from loopmt.theory.exact import (
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

PATTERNS = ("111", "110", "101", "100", "011", "010", "001", "000")


def lambda1_range(products: dict[str, Fraction]) -> tuple[Fraction, Fraction]:
    """max{-(Pq + mb), -(Pq + Pb)/3, -(Pb + ma)} <= lambda1 <= ma + mb; the paper gives no range."""
    one, two = _least(products, 1), _least(products, 2)
    all_right, all_wrong = products["111"], products["000"]
    return max(-(all_right + two), -(all_right + all_wrong) / 3, -(all_wrong + one)), one + two


def lambda2_range(products: dict[str, Fraction], lam1: Fraction) -> tuple[Fraction, Fraction]:
    """max{-Pq, 2 lambda1 - ma} <= lambda2 <= min{lambda1 + mb, 3 lambda1 + Pb}."""
    low = max(-products["111"], 2 * lam1 - _least(products, 1))
    return low, min(lam1 + _least(products, 2), 3 * lam1 + products["000"])


def _least(products: dict[str, Fraction], num_right: int) -> Fraction:
    return min(product for z, product in products.items() if z.count("1") == num_right)


@dataclass(frozen=True)
class TriangleLaw:
    """The joint law of (Z12, Z23, Z31) and delta."""

    q: tuple[Fraction, Fraction, Fraction]
    lam1: Fraction
    lam2: Fraction
    delta: Fraction

    @classmethod
    def read(cls, q12: float, q23: float, q31: float, lam1: float, lam2: float, delta: float) -> TriangleLaw:
        """The law with these parameters; an error if it is impossible."""
        q = read_accuracies(q12, q23, q31)
        products = cls(q, Fraction(0), Fraction(0), Fraction(0)).products
        where = " with q12 = {:g}, q23 = {:g}, q31 = {:g}".format(*map(float, q))
        one = within("lambda1", lam1, *lambda1_range(products), where)
        where += f" and lambda1 = {float(one):g}"
        two = within("lambda2", lam2, *lambda2_range(products, one), where)
        return cls(q, one, two, probability("delta", delta))

    @property
    def products(self) -> dict[str, Fraction]:
        """The independent value of every cell."""
        return {z: _product(self.q, z) for z in PATTERNS}

    @property
    def cells(self) -> dict[str, Fraction]:
        """prod + lambda2, prod + lambda1 - lambda2, prod - 2 lambda1 + lambda2, prod + 3 lambda1 - lambda2.

        By the number of errors: none, one, two, three. Erratum 1: P100 is printed without -2 lambda1.
        """
        shift = (self.lam2, self.lam1 - self.lam2, self.lam2 - 2 * self.lam1, 3 * self.lam1 - self.lam2)
        cells = {z: product + shift[z.count("0")] for z, product in self.products.items()}
        low, high = lambda2_range(self.products, self.lam1)
        return emptied(cells, max(Fraction(0), rounding(low, high)))

    @property
    def cases(self) -> Partition:
        """c11 = P111 + delta P100, c12 = delta (P000 + P001 + P010), from the corrected cells."""
        cell = self.cells
        blind = self.delta * (cell["000"] + cell["001"] + cell["010"])
        return Partition.of(self.q[0], cell["111"] + self.delta * cell["100"], blind)


def _product(q: tuple[Fraction, ...], pattern: str) -> Fraction:
    product = Fraction(1)
    for accuracy, bit in zip(q, pattern, strict=True):
        product *= accuracy if bit == "1" else 1 - accuracy
    return product


def read_accuracies(q12: float, q23: float, q31: float) -> tuple[Fraction, Fraction, Fraction]:
    return probability("q12", q12), probability("q23", q23), probability("q31", q31)


def joint3(q12: float, q23: float, q31: float, lam1: float, lam2: float) -> Out:
    """The joint law of the three steps, with the exact ranges of lambda1 and of lambda2 given lambda1.

    Section 4.1 of the paper. Erratum 1: Pr(Z12 = 1, Z23 = Z31 = 0) misses -2 lambda1. lambda2 is not a
    pure third-order term: the third central moment is lambda2 - lambda1 (q12 + q23 + q31). For an impossible pair,
    `feasible` is false.
    """
    q = read_accuracies(q12, q23, q31)
    one, two = exact("lambda1", lam1), exact("lambda2", lam2)
    products = TriangleLaw(q, one, two, Fraction(0)).products
    low1, high1 = lambda1_range(products)
    one = snap_to_bounds(one, low1, high1) if feasible(one, low1, high1) else one
    low2, high2 = lambda2_range(products, one)
    two = snap_to_bounds(two, low2, high2) if feasible(two, low2, high2) else two
    law = TriangleLaw(q, one, two, Fraction(0))
    return plain(
        {
            **{f"P{z}": cell for z, cell in law.cells.items()},
            "lambda1_lo": low1,
            "lambda1_hi": high1,
            "lambda2_lo": low2,
            "lambda2_hi": high2,
            "feasible": feasible(one, low1, high1) and feasible(two, low2, high2),
            "third_central_moment": two - one * sum(q),
            "printed_P100": products["100"] + two,
        }
    )


def theorem2(q12: float, q23: float, q31: float, lam1: float, lam2: float, delta: float, alpha: float) -> Out:
    """Theorem 2, c11 + alpha' c2, corrected and as printed.

    c11 = q12 q23 q31 + lambda2 + delta (q12 (1-q23)(1-q31) - 2 lambda1 + lambda2) and
    c12 = delta ((1-q12)(1 - q23 q31) - lambda1 + lambda2). Errata 1, 2, 3: the printed cases and what
    they do to the theorem; 4, 5: the printed slopes; 12: delta read literally, for every pattern with an
    error; 9, 13: like Theorem 1 it is Pr(right and reconstructed) for the trained translator.
    """
    law, a = TriangleLaw.read(q12, q23, q31, lam1, lam2, delta), probability("alpha", alpha)
    cases, d, (q1, q2, q3) = law.cases, law.delta, law.q
    printed = Partition.of(
        q1,
        c11=q1 * q2 * q3 + law.lam2 + d * (law.products["100"] + law.lam2),
        c12=d * (1 - q1) * (1 - q2 * q3 - law.lam1 + law.lam2),
    )
    all_right = law.cells["111"]
    return plain(
        {
            **cases.cells(),
            "q_m_lower": cases.printed(a),
            "d_dlambda1": d * (3 * a - 2),
            "d_dlambda2": 1 + d - a * (1 + 2 * d),
            "alpha_breakeven": cases.breakeven,
            "printed_c11": printed.c11,
            "printed_c12": printed.c12,
            "printed_q_m": printed.printed(a),
            "printed_minus_corrected": printed.printed(a) - cases.printed(a),
            "printed_d_dlambda1": a * d * (1 - q1),
            "printed_d_dlambda2": (1 + d) * (1 - a) - a * d * (1 - q1),
            "literal_delta_definition_c11": all_right + d * (q1 - all_right),
            "literal_delta_definition_c12": d * (1 - q1),
        }
    )


def triangle_ratio(q12: float, q23: float, q31: float, delta: float, gamma: float, r: float) -> Out:
    """The ratio M of the triangle at lambda1 = lambda2 = 0, and its conditions under hypothesis H.

    M = delta (1 - q23 q31) / (q23 q31 + delta (1-q23)(1-q31)); q^m = (1 - Gamma') / (1 + M (1-q12)/q12).
    Erratum 14: with gamma' the condition is Gamma' < (1 - M)(1 - q12), not M < 1. Erratum 15: both
    helpers above delta/(delta + 1/2) is sufficient only; the exact condition is the polynomial's sign.
    `head_to_head` > 0: the triangle used instead of the dual loop is the better test (erratum 23).
    """
    q1, q2, q3 = read_accuracies(q12, q23, q31)
    d, g, r_ = probability("delta", delta), probability("gamma", gamma), probability("r", r)
    right_returns, wrong_returns = q2 * q3 + d * (1 - q2) * (1 - q3), d * (1 - q2 * q3)
    cases = Partition.of(q1, q1 * right_returns, (1 - q1) * wrong_returns)
    polynomial = (1 + 2 * d) * q2 * q3 - d * (q2 + q3)
    ratio_m, threshold, loss = ratio(wrong_returns, right_returns), d / (d + Fraction(1, 2)), g * cases.c2
    return plain(
        {
            "M": ratio_m,
            "M_lt_1": None if ratio_m is None else exceeds(1, ratio_m),
            "polynomial": polynomial,
            "printed_polynomial": polynomial / d if d else None,
            "printed_sufficient": exceeds(q2, threshold) and exceeds(q3, threshold),
            "Gamma": loss,
            "q_m": cases.proportional(g),
            "gamma_condition_better": _pays(ratio_m, q1, loss),
            "M2": ratio(d * (1 - r_), r_),
            "head_to_head": q2 * q3 + d * (1 - r_) * (1 - q2) * (1 - q3) - r_,
            "s3": cases.precision,
        }
    )


def _pays(ratio_m: Fraction | float | None, q1: Fraction, loss: Fraction) -> bool | None:
    """Gamma' < (1 - M)(1 - q12)."""
    if ratio_m is None:
        return None
    return isinstance(ratio_m, Fraction) and exceeds((1 - ratio_m) * (1 - q1), loss)
