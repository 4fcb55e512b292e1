"""Estimates of the parameters from verdicts on held-out sentences, with 95% intervals.

Proportions have Wilson intervals; with an empty denominator they are not identifiable: None and [0, 1].
Ratios have intervals on the log scale if all their counts are positive. For sentences from documents these intervals
are too narrow: bootstrap over documents instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from loopmt.theory.dual import lambda_range
from loopmt.theory.exact import Out, Value, bit_table, natural, plain

Influence = Callable[[str], Fraction]
"""The contribution of a sentence to an estimate, by its bits."""

Z95 = 1.959963984540054


def wilson(successes: int, trials: int) -> list[float]:
    """The 95% Wilson interval of a proportion; [0, 1] without trials."""
    if not trials:
        return [0.0, 1.0]
    rate, z2 = successes / trials, Z95 * Z95 / trials
    centre = (rate + z2 / 2) / (1 + z2)
    half = math.sqrt(rate * (1 - rate) * z2 + z2 * z2 / 4) / (1 + z2)
    low = 0.0 if successes == 0 else max(centre - half, 0.0)
    return [low, 1.0 if successes == trials else min(centre + half, 1.0)]


def around(centre: Fraction, error: float) -> list[float]:
    """The normal interval, not clipped."""
    return [float(centre) - Z95 * error, float(centre) + Z95 * error]


def log_interval(centre: Value, variance: Fraction | None) -> list[float] | None:
    """The interval of a ratio, normal on the log scale; None if a count is zero."""
    if variance is None or not isinstance(centre, Fraction):
        return None
    spread = math.exp(Z95 * math.sqrt(variance))
    return [float(centre) / spread, float(centre) * spread]


@dataclass(frozen=True)
class VerdictCounts:
    """Counts of sentences by their bits, the first verdict first."""

    counts: Mapping[str, int]

    @classmethod
    def read(cls, counts: Mapping[str, int], bits: int) -> VerdictCounts:
        table = bit_table("counts", counts, bits)
        return cls({key: natural(f"counts[{key}]", value) for key, value in table.items()})

    def of(self, pattern: str) -> int:
        """The number of sentences that match the pattern; "." matches either bit."""
        return self.where(lambda key: all(want in (".", bit) for want, bit in zip(pattern, key, strict=True)))

    def where(self, holds: Callable[[str], bool]) -> int:
        return sum(count for key, count in self.counts.items() if holds(key))

    def moments(self, *influences: Influence) -> tuple[list[Fraction], list[list[Fraction]]]:
        """The averages of functions of the bits over all sentences (at least one), and their covariances."""
        n = sum(self.counts.values())
        rows = [(count, [influence(key) for influence in influences]) for key, count in self.counts.items()]
        places = range(len(influences))
        means = [sum((count * row[i] for count, row in rows), Fraction(0)) / n for i in places]
        products = [[sum((c * row[i] * row[j] for c, row in rows), Fraction(0)) / n for j in places] for i in places]
        return means, [[products[i][j] - means[i] * means[j] for j in places] for i in places]


def share(part: int, whole: int) -> Fraction | None:
    return Fraction(part, whole) if whole else None


def _with_interval(name: str, part: int, whole: int) -> Out:
    return {name: share(part, whole), f"{name}_ci": wilson(part, whole)}


def _likelihood(n11: int, n12: int, num_right: int, num_wrong: int) -> tuple[Value, list[float] | None]:
    """M = (n12 / n_wrong) / (n11 / n_right) and its interval, var = 1/n12 - 1/n_wrong + 1/n11 - 1/n_right."""
    if not num_right or not num_wrong or not n11 + n12:
        return None, None
    if not n11:
        return math.inf, None
    centre = Fraction(n12 * num_right, num_wrong * n11)
    if not n12:
        return centre, None
    variance = Fraction(1, n12) - Fraction(1, num_wrong) + Fraction(1, n11) - Fraction(1, num_right)
    return centre, log_interval(centre, variance)


def _proportionality(*counts: int) -> tuple[Value, list[float] | None]:
    """rho = (n_alpha / n_beta) / (n11 / n12); 1 under hypothesis H; needs four positive counts."""
    if not all(counts):
        return None, None
    alpha, beta, n11, n12 = counts
    centre = Fraction(alpha * n12, beta * n11)
    return centre, log_interval(centre, sum((Fraction(1, count) for count in counts), Fraction(0)))


def _paired_gain(tally: VerdictCounts, n: int) -> Out:
    """(b - c) / n with se sqrt(b + c - (b-c)^2/n) / n: b corrected, c broken."""
    if not n:
        return {"gain": None, "gain_se": None, "gain_ci": None}
    mended, broken = tally.of("0.1."), tally.of("1.0.")
    gain = Fraction(mended - broken, n)
    error = math.sqrt(mended + broken - n * gain * gain) / n
    return {"gain": gain, "gain_se": error, "gain_ci": around(gain, error)}


def estimate_observed(counts: Mapping[str, int]) -> Out:
    """Everything that (Y, R) before and (Yd, Rd) after training identify; keys are the bits of (Y,R,Yd,Rd).

    Section 5 of the paper, "empirical alpha, beta, gamma". Erratum 16: the printed estimators count their
    numerators over all sentences instead of inside Case 2 (Case 1 for eta), so that they sum to 1/c2.
    """
    tally = VerdictCounts.read(counts, 4)
    n, back, lost = tally.of("...."), tally.of(".1.."), tally.of(".0..")
    n11, n12, n21, n22 = (tally.of(key) for key in ("11..", "01..", "10..", "00.."))
    alpha, beta = tally.of(".011"), tally.of(".001")
    m, m_interval = _likelihood(n11, n12, n11 + n21, n12 + n22)
    rho, rho_interval = _proportionality(alpha, beta, n11, n12)
    printed = Fraction(n11 + alpha, n) if n else None
    return plain(
        {
            "n": n,
            **_with_interval("p", n11 + n21, n),
            **_with_interval("p_d", tally.of("..1."), n),
            **_paired_gain(tally, n),
            "c11": share(n11, n),
            "c12": share(n12, n),
            "c21": share(n21, n),
            "c22": share(n22, n),
            "c2": share(lost, n),
            **_with_interval("s", n11, back),
            "M": m,
            "M_ci": m_interval,
            **_with_interval("alpha", alpha, lost),
            **_with_interval("beta", beta, lost),
            **_with_interval("gamma", tally.of(".0.0"), lost),
            "kappa": share(tally.of(".010"), lost),
            **_with_interval("eta", tally.of(".1.1"), back),
            "u11": share(tally.of("110."), n11),
            "u12": share(tally.of("011."), n12),
            "thm1": printed,
            "thm1_gap": None if printed is None else Fraction(tally.of("..1."), n) - printed,
            "alpha_breakeven": share(n21, lost),
            "rho": rho,
            "rho_ci": rho_interval,
            "printed_alpha": share(tally.of("..11"), lost),
            "printed_beta": share(tally.of("..01"), lost),
            "printed_gamma": share(tally.of("...0"), lost),
            "printed_eta": share(tally.of("...1"), back),
        }
    )


def _violations(tally: VerdictCounts, steps: int) -> Out:
    """How often bijective oracles are violated: a sentence must return after no error, and not after one."""
    fine = "1" * steps
    one = [fine[:i] + "0" + fine[i + 1 :] for i in range(steps)]
    missed = share(tally.of(fine + "0"), tally.of(fine + "."))
    closed = share(sum(tally.of(z + "1") for z in one), sum(tally.of(z + ".") for z in one))
    return {"violation_all_correct_not_reconstructed": missed, "violation_one_error_reconstructed": closed}


def estimate_latent(counts: Mapping[str, int]) -> Out:
    """p, r, lambda and delta if the way back was judged as well; keys are the bits of (Y, V, R).

    lambda = mean(YV) - pr with se sd[(Y-p)(V-r)] / sqrt(n); delta is the share of (Y,V) = (0,0) that
    returns. The two violation rates say how far the verdicts are from bijective oracles (erratum 24).
    """
    tally = VerdictCounts.read(counts, 3)
    n = tally.of("...")
    p, r = share(tally.of("1.."), n), share(tally.of(".1."), n)
    lam: Out = dict.fromkeys(("lam", "lam_se", "lam_ci", "lam_lo", "lam_hi"))
    if p is not None and r is not None:
        centre = Fraction(tally.of("11."), n) - p * r
        error = math.sqrt(tally.moments(_centred_product((0, 1), (p, r)))[1][0][0] / n)
        low, high = lambda_range(p, r)
        lam = {"lam": centre, "lam_se": error, "lam_ci": around(centre, error), "lam_lo": low, "lam_hi": high}
    return plain(
        {
            "n": n,
            **_with_interval("p", tally.of("1.."), n),
            **_with_interval("r", tally.of(".1."), n),
            **lam,
            **_with_interval("delta", tally.of("001"), tally.of("00.")),
            **_violations(tally, 2),
        }
    )


def _centred_product(places: Sequence[int], means: Sequence[Fraction]) -> Influence:
    """(Z_i - q_i)(Z_j - q_j), the influence of a sentence on a covariance."""
    return lambda key: math.prod((int(key[i]) - means[i] for i in places), start=Fraction(1))


def _equality_chi2(values: Sequence[Fraction], cov: Sequence[Sequence[Fraction]]) -> Fraction | None:
    """Wald's test that three estimates are equal, two degrees of freedom; None for a singular covariance."""
    a, b = values[0] - values[1], values[1] - values[2]
    aa = cov[0][0] - 2 * cov[0][1] + cov[1][1]
    bb = cov[1][1] - 2 * cov[1][2] + cov[2][2]
    ab = cov[0][1] - cov[0][2] - cov[1][1] + cov[1][2]
    determinant = aa * bb - ab * ab
    if not determinant:
        return None
    return (a * a * bb - 2 * a * b * ab + b * b * aa) / determinant


LAMBDAS = (
    "lambda_12_23", "lambda_23_31", "lambda_12_31", "lambda1", "lambda1_se",
    "lambda2", "lambda2_se", "third_central_moment", "pairwise_equality_chi2_df2",
)  # fmt: skip


def _influence2(q: Sequence[Fraction]) -> Influence:
    """Z1 Z2 Z3 - q2 q3 Z1 - q1 q3 Z2 - q1 q2 Z3, the influence of a sentence on lambda2."""

    def influence(key: str) -> Fraction:
        z1, z2, z3 = (int(bit) for bit in key[:3])
        return z1 * z2 * z3 - q[1] * q[2] * z1 - q[0] * q[2] * z2 - q[0] * q[1] * z3

    return influence


def _dependence(tally: VerdictCounts, q: Sequence[Fraction], n: int) -> Out:
    """The pairwise covariances, lambda1 their mean, lambda2 = P111 - q12 q23 q31, and the third moment."""
    places = ((0, 1), (1, 2), (0, 2), (0, 1, 2))
    means, cov = tally.moments(*(_centred_product(place, q) for place in places), _influence2(q))
    pairs, errors = range(3), [[entry / n for entry in row] for row in cov]
    values = (
        *means[:3],
        sum(means[:3]) / 3,
        math.sqrt(sum((errors[i][j] for i in pairs for j in pairs), Fraction(0)) / 9),
        Fraction(tally.of("111."), n) - math.prod(q, start=Fraction(1)),
        math.sqrt(errors[4][4]),
        means[3],
        _equality_chi2(means[:3], errors),
    )
    return dict(zip(LAMBDAS, values, strict=True))


def estimate_triangle(counts: Mapping[str, int]) -> Out:
    """The triangle's parameters if every step was judged; keys are the bits of (Z12, Z23, Z31, R).

    lambda1, "the same dependence on any two" in the paper, means something only if the test of equal
    covariances does not reject. delta is the share that returns after two or more errors (errata 11, 12).
    """
    tally = VerdictCounts.read(counts, 4)
    n = tally.of("....")
    accuracies = [share(tally.of(pattern), n) for pattern in ("1...", ".1..", "..1.")]
    known = [q for q in accuracies if q is not None]
    n11, n12, right = tally.of("1..1"), tally.of("0..1"), tally.of("1...")
    return plain(
        {
            "n": n,
            **dict(zip(("q12", "q23", "q31"), accuracies, strict=True)),
            **(_dependence(tally, known, n) if known else dict.fromkeys(LAMBDAS)),
            **_with_interval(
                "delta",
                tally.where(lambda key: key[:3].count("0") >= 2 and key[3] == "1"),
                tally.where(lambda key: key[:3].count("0") >= 2),
            ),
            "c11": share(n11, n),
            "c12": share(n12, n),
            "M": _likelihood(n11, n12, right, n - right)[0],
            "s": share(n11, n11 + n12),
            **_violations(tally, 3),
        }
    )
