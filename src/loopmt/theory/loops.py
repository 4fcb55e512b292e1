"""Loops of any length K; the paper covers two and three."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from loopmt.errors import TheoryError
from loopmt.theory.dual import redistribution
from loopmt.theory.exact import (
    Out,
    bit_table,
    distribution,
    exceeds,
    natural,
    plain,
    probabilities,
    probability,
    ratio,
    sequence,
    sums_to_one,
)
from loopmt.theory.partition import Partition


def loop(q: Sequence[float], delta: float, gamma: float) -> Out:
    """A loop of K independent steps with one delta; the translator of interest is the first.

    With Pi the product of the helpers' accuracies and E the chance that exactly one helper errs,
    c11 = q1 (Pi + delta (1 - Pi - E)), c12 = (1-q1) delta (1 - Pi), M = (c12/(1-q1)) / (c11/q1). The loop
    is informative (M < 1) iff delta E < Pi, that is, iff the helpers' error odds sum to less than
    1/delta. K = 2 and K = 3 are the paper's two conditions at gamma = 0 (errata 7, 14, 15).
    """
    first, helpers = read_loop(q)
    d, g = probability("delta", delta), probability("gamma", gamma)
    all_right, one_wrong = helper_odds(helpers)
    right_returns, wrong_returns = all_right + d * (1 - all_right - one_wrong), d * (1 - all_right)
    cases = Partition.of(first, first * right_returns, (1 - first) * wrong_returns)
    return plain(
        {
            "Pi": all_right,
            "E": one_wrong,
            "c11": cases.c11,
            "c12": cases.c12,
            "c2": cases.c2,
            "M": ratio(wrong_returns, right_returns),
            "error_odds_sum": error_odds(helpers),
            "informative": exceeds(all_right, d * one_wrong),
            "s": cases.precision,
            "acc_proportional": cases.proportional(g),
            "acc_bracket": [cases.c11, 1 - cases.c12],
        }
    )


def read_loop(q: Sequence[float]) -> tuple[Fraction, list[Fraction]]:
    """The first accuracy and those of its helpers."""
    accuracies = probabilities("q", q)
    if len(accuracies) < 2:
        raise TheoryError("q has one entry; a loop needs at least two steps: there and back.")
    return accuracies[0], accuracies[1:]


def helper_odds(helpers: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
    """Pi: no helper errs; E: exactly one does."""
    none, one = Fraction(1), Fraction(0)
    for accuracy in helpers:
        none, one = none * accuracy, one * accuracy + none * (1 - accuracy)
    return none, one


def error_odds(helpers: Sequence[Fraction]) -> Fraction | float:
    """The sum of (1-q)/q over the helpers; infinite if one of them is never right."""
    if not all(helpers):
        return math.inf
    return sum(((1 - q) / q for q in helpers), Fraction(0))


def loop_joint(
    K: int, table: Mapping[str, float], delta_by_errors: Mapping[str, float], alpha: float, kappa: float
) -> Out:
    """A loop of K steps with any joint law of (Z1, ..., ZK) and a delta for each number of errors.

    c11 and c12 sum the probability of returning over the patterns with the first step right and wrong.
    acc_lower = c11 + alpha c2 is the theorems' value, acc_exact adds kappa c2 (erratum 9); cov_Z1_R > 0 iff
    the loop is informative.
    """
    steps = natural("K", K, least=2)
    law = {z: probability(f"table[{z}]", value) for z, value in bit_table("table", table, steps).items()}
    total = sums_to_one("table", law.values())
    law = {z: mass / total for z, mass in law.items()}
    returns = read_returns(delta_by_errors, steps)
    a, k = redistribution(alpha, kappa)
    closed = {"1": Fraction(0), "0": Fraction(0)}
    for z, mass in law.items():
        closed[z[0]] += mass * _return_probability(returns, z, mass)
    first = sum((mass for z, mass in law.items() if z[0] == "1"), Fraction(0))
    cases = Partition.of(first, closed["1"], closed["0"])
    return plain(
        {
            "q1": first,
            "c11": cases.c11,
            "c12": cases.c12,
            "c21": cases.c21,
            "c22": cases.c22,
            "M": cases.likelihood,
            "s": cases.precision,
            "acc_lower": cases.printed(a),
            "acc_exact": cases.printed(a) + k * cases.c2,
            "alpha_breakeven": cases.breakeven,
            "cov_Z1_R": cases.covariance,
        }
    )


def read_returns(delta_by_errors: Mapping[str, float], steps: int) -> dict[int, Fraction]:
    """Pr(R=1 | e errors) for every given e; for none and one it follows from the oracles."""
    if not isinstance(delta_by_errors, Mapping):
        raise TheoryError(f"delta_by_errors is {delta_by_errors!r}; it must be keyed by 2 to {steps}.")
    returns = {0: Fraction(1), 1: Fraction(0)}
    allowed = {str(errors): errors for errors in range(2, steps + 1)}
    for key, value in delta_by_errors.items():
        if str(key) not in allowed:
            raise TheoryError(f"delta_by_errors has the key {key!r}; its keys are 2 to {steps} (K).")
        returns[allowed[str(key)]] = probability(f"delta_by_errors[{key}]", value)
    return returns


def _return_probability(returns: Mapping[int, Fraction], pattern: str, mass: Fraction) -> Fraction:
    errors = pattern.count("0")
    if mass and errors not in returns:
        raise TheoryError(f"delta_by_errors has no entry for {errors} errors, which table[{pattern}] needs.")
    return returns.get(errors, Fraction(0))


def uniform_confusion(N: int, errors: int) -> Out:
    """Probability of return after some errors, if a wrong step picks one of the N-1 other meanings uniformly.

    a_j = 1/N + (N-1)/N (-1/(N-1))^j, a random walk on the complete graph: one delta for two and three errors
    (the paper's definition, errata 11 and 12) is exact only as N grows.
    """
    meanings, wrong = natural("N", N, least=1), natural("errors", errors)
    if meanings == 1 and wrong:
        raise TheoryError("with N = 1 there is no wrong meaning: set errors to 0, or N to at least 2.")
    if not wrong:
        return {"return_probability": 1.0}
    return {"return_probability": (1 - (-1 / (meanings - 1)) ** (wrong - 1)) / meanings}


def jensen(p_k_given_2: Sequence[float], p_1_given_k: Sequence[Sequence[float]], p_2_given_1: Sequence[float]) -> Out:
    """The bound behind Algorithm 2 for one sentence x2: ln Pr(R) >= E_k E_1 ln P(x2 | x1).

    Appendix A of the paper. Erratum 17: its first lines print a double sum of logarithms instead of the logarithm of
    the double sum, which would reverse the inequality; the final bound is right.
    """
    pivots = distribution("p_k_given_2", p_k_given_2)
    rows = sequence("p_1_given_k", p_1_given_k)
    if len(rows) != len(pivots):
        raise TheoryError(f"p_1_given_k has {len(rows)} rows, p_k_given_2 {len(pivots)} entries.")
    table = [distribution(f"p_1_given_k[{i}]", row) for i, row in enumerate(rows)]
    closing = probabilities("p_2_given_1", p_2_given_1)
    for i, row in enumerate(table):
        if len(row) != len(closing):
            raise TheoryError(f"p_1_given_k[{i}] has {len(row)} entries, p_2_given_1 {len(closing)}.")
    routes = [
        (pivot * onward, last)
        for pivot, row in zip(pivots, table, strict=True)
        for onward, last in zip(row, closing, strict=True)
    ]
    total = sum((weight * last for weight, last in routes), Fraction(0))
    return plain(
        {
            "reconstruction_probability": total,
            "log_exact": _log(total),
            "jensen_bound": math.fsum(float(weight) * _log(last) for weight, last in routes if weight),
            "printed_sum_of_logs": math.fsum(_log(weight * last) for weight, last in routes),
        }
    )


def _log(value: Fraction) -> float:
    """ln, accurate near 1 and for products too small for a float."""
    if 2 * value > 1:
        return math.log1p(float(value - 1))
    return math.log(value.numerator) - math.log(value.denominator) if value else -math.inf
