"""Tables of all quantities and conditions for given parameters, beside the paper's printed formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from loopmt.errors import TheoryError
from loopmt.theory.dual import exact_accuracy, joint2, proportional, theorem1
from loopmt.theory.exact import SUM_TOLERANCE, Out, exact, probability
from loopmt.theory.loops import loop
from loopmt.theory.triangle import joint3, theorem2, triangle_ratio

Answers = dict[str, Out]
"""The results of the theory's functions, by the kind of case."""


@dataclass(frozen=True)
class Row:
    """A row of the table; `printed` is the value of the paper's formula."""

    section: str
    name: str
    value: object
    printed: object = None
    remark: str = ""


def read_gamma(alpha: float | None, beta: float | None, gamma: float | None) -> float:
    """gamma, computed from alpha and beta if it is not given; 0 if nothing is known."""
    if alpha is not None and beta is not None:
        rest = 1 - probability("alpha", alpha) - probability("beta", beta)
        if gamma is not None and abs(rest - exact("gamma", gamma)) > SUM_TOLERANCE:
            raise TheoryError(
                f"alpha + beta + gamma must be 1; with alpha = {alpha:g} and beta = {beta:g}, "
                f"gamma is {float(rest):g}, not {gamma:g}. Leave one of the three out."
            )
        if rest < -SUM_TOLERANCE:
            raise TheoryError(f"alpha + beta = {float(1 - rest):g} exceeds 1: both are shares of Case 2.")
        return float(max(rest, Fraction(0)))
    return 0.0 if gamma is None else gamma


def dual_answers(
    p: float,
    r: float,
    lam: float = 0.0,
    delta: float = 0.0,
    alpha: float | None = None,
    beta: float | None = None,
    gamma: float | None = None,
    kappa: float = 0.0,
    u11: float = 0.0,
    u12: float = 0.0,
) -> Answers:
    """All results for the loop of two; an unknown alpha counts as 0."""
    rest, share = read_gamma(alpha, beta, gamma), 0.0 if alpha is None else alpha
    if (beta is not None or gamma is not None) and kappa > rest + float(SUM_TOLERANCE):
        raise TheoryError(f"kappa = {kappa:g} exceeds gamma = {rest:g}, of which it is a part.")
    return {
        "accdual": proportional(p, r, lam, delta, rest),
        "joint2": joint2(p, r, lam),
        "thm1": theorem1(p, r, lam, delta, share),
        "exact_accuracy": exact_accuracy(p, r, lam, delta, share, kappa, u11, u12),
    }


def dual_rows(answers: Answers, alpha: float | None, beta: float | None) -> list[Row]:
    """The table of the loop of two; it has Theorem 1 only if alpha is known."""
    theorem, accuracy, hypothesis = answers["thm1"], answers["exact_accuracy"], answers["accdual"]
    return [
        *_joint2_rows(answers["joint2"]),
        *_case_rows(theorem, hypothesis["s"], hypothesis["M"]),
        *(_theorem1_rows(theorem, accuracy) if alpha is not None else []),
        *_proportional_rows(hypothesis, alpha, beta),
    ]


def _case_rows(cells: Out, s: object, m: float | None) -> list[Row]:
    section = "The four cases before training"
    return [
        Row(section, "c11, right and reconstructed", cells["c11"]),
        Row(section, "c12, wrong but reconstructed", cells["c12"], None, "the alignment problem"),
        Row(section, "c21, right, not reconstructed", cells["c21"], None, "what training puts at risk"),
        Row(section, "c22, wrong, not reconstructed", cells["c22"], None, "what training can correct"),
        Row(section, "c2, not reconstructed", cells["c2"]),
        Row(section, "s = Pr(right | reconstructed)", s),
        Row(section, "ratio M", m, None, "Pr(reconstructed | wrong) / Pr(reconstructed | right)"),
        Row(section, "the loop is informative", None if m is None else m < 1, None, "M < 1"),
    ]


def _joint2_rows(law: Out) -> list[Row]:
    section = "Joint law of the two steps"
    allowed = [law["lambda_lo"], law["lambda_hi"]]
    printed = [law["printed_lambda_lo"], law["printed_lambda_hi"]]
    return [
        Row(section, "P11, both right", law["P11"]),
        Row(section, "P10, only the way there right", law["P10"]),
        Row(section, "P01, only the way back right", law["P01"]),
        Row(section, "P00, both wrong", law["P00"]),
        Row(section, "lambda may lie in", allowed, printed, "erratum 8: loose by exactly p r"),
        Row(section, "correlation phi", law["phi"]),
    ]


def _theorem1_rows(theorem: Out, accuracy: Out) -> list[Row]:
    section = "Theorem 1"
    slopes = {"ddp": "p", "ddr": "r", "ddlambda": "lambda", "ddalpha": "alpha", "dddelta": "delta"}
    left_out = f"erratum 9: leaves out {accuracy['correction']:+.6g}"
    holds = accuracy["p_d_thm1"] > theorem["c11"] + theorem["c21"]
    return [
        Row(section, "right and reconstructed after", theorem["p_d_lower"], None, "c11 + alpha c2"),
        Row(section, "accuracy after training", accuracy["p_d_exact"], theorem["printed_p_d"], left_out),
        Row(section, "gain", accuracy["gain_exact"], theorem["printed_p_d"] - theorem["c11"] - theorem["c21"]),
        Row(section, "Theorem 1 is the accuracy", accuracy["thm1_is_exact"], True, "kappa c2 + c12 u12 = c11 u11"),
        Row(section, "accuracy lies in", [theorem["bracket_lo"], theorem["bracket_hi"]], None, "if u11 = u12 = 0"),
        Row(section, "break-even alpha + kappa", theorem["alpha_breakeven"], None, "c21 / c2"),
        Row(section, "alpha alone is above it", holds),
        *(Row(section, f"slope in {name}", theorem[key]) for key, name in slopes.items()),
        Row(section, "slope of the gain in p", theorem["dgain_dp"], "positive", "erratum 10: the gain falls in p"),
    ]


def _proportional_rows(out: Out, alpha: float | None, beta: float | None) -> list[Row]:
    section = "Hypothesis H, alpha : beta = c11 : c12"
    sign = "erratum 6: +delta for -delta"
    return [
        Row(section, "alpha under H", out["alpha"]),
        Row(section, "beta under H", out["beta"]),
        *_rho_rows(section, out, alpha, beta),
        Row(section, "Gamma = gamma c2", out["Gamma"]),
        Row(section, "accuracy after training", out["p_d"], None, "s (1 - Gamma)"),
        Row(section, "gain", out["gain"], out["printed_gain"], sign),
        Row(section, "numerator of the gain", out["gain_numerator_corrected"], out["printed_gain_numerator"], sign),
        Row(
            section,
            "better than before",
            out["better"],
            out["printed_condition_r_gt"],
            "erratum 7: r > delta/(1+delta)",
        ),
        Row(section, "better iff gamma is below", out["gamma_star"]),
        Row(section, "repeated rounds stop at p*", out["p_star_lambda0"], None, "lambda = 0, M < 1"),
    ]


def _rho_rows(section: str, out: Out, alpha: float | None, beta: float | None) -> list[Row]:
    """rho = (alpha/beta) / (c11/c12) if both sides are known; 1 under H."""
    if alpha is None or not beta or not out["c11"]:
        return []
    return [Row(section, "rho, measured over H", alpha / beta * out["c12"] / out["c11"], 1, "H says 1")]


def triangle_answers(
    q12: float,
    q23: float,
    q31: float,
    lam1: float = 0.0,
    lam2: float = 0.0,
    delta: float = 0.0,
    alpha: float | None = None,
    gamma: float = 0.0,
    r: float | None = None,
) -> Answers:
    """All results for the loop of three; `alpha` and `gamma` are the paper's alpha' and gamma'."""
    share = 0.0 if alpha is None else alpha
    return {
        "thm2": theorem2(q12, q23, q31, lam1, lam2, delta, share),
        "joint3": joint3(q12, q23, q31, lam1, lam2),
        "triangle_M": triangle_ratio(q12, q23, q31, delta, gamma, 1.0 if r is None else r),
    }


def triangle_rows(answers: Answers, alpha: float | None, r: float | None) -> list[Row]:
    """The table of the loop of three."""
    return [
        *_joint3_rows(answers["joint3"]),
        *_theorem2_rows(answers["thm2"], alpha),
        *_ratio_rows(answers["triangle_M"], r),
    ]


def _joint3_rows(law: Out) -> list[Row]:
    section = "Joint law of the three steps"
    cells = [key for key in law if key.startswith("P")]
    missing = "erratum 1: -2 lambda1 is missing"
    return [
        *(
            Row(section, cell, law[cell], law["printed_P100"], missing)
            if cell == "P100"
            else Row(section, cell, law[cell])
            for cell in cells
        ),
        Row(section, "lambda1 may lie in", [law["lambda1_lo"], law["lambda1_hi"]]),
        Row(section, "lambda2 may lie in", [law["lambda2_lo"], law["lambda2_hi"]], None, "at this lambda1"),
        Row(section, "third central moment", law["third_central_moment"]),
    ]


def _theorem2_rows(out: Out, alpha: float | None) -> list[Row]:
    section = "Theorem 2"
    rows = [
        Row(section, "right and reconstructed, c11", out["c11"], out["printed_c11"], "erratum 1"),
        Row(section, "wrong but reconstructed, c12", out["c12"], out["printed_c12"], "erratum 2"),
        Row(section, "c11, delta as defined in print", out["c11"], out["literal_delta_definition_c11"], "erratum 12"),
        Row(section, "c12, delta as defined in print", out["c12"], out["literal_delta_definition_c12"], "erratum 12"),
        Row(section, "right but not reconstructed, c21", out["c21"]),
        Row(section, "wrong and not reconstructed, c22", out["c22"]),
        Row(section, "break-even alpha'", out["alpha_breakeven"], None, "c21 / c2"),
    ]
    if alpha is None:
        return rows
    off = f"erratum 3: off by {out['printed_minus_corrected']:+.6g}"
    return [
        *rows,
        Row(section, "right and reconstructed after", out["q_m_lower"], out["printed_q_m"], off),
        Row(
            section, "slope in lambda1", out["d_dlambda1"], out["printed_d_dlambda1"], "erratum 4: delta (3 alpha' - 2)"
        ),
        Row(section, "slope in lambda2", out["d_dlambda2"], out["printed_d_dlambda2"], "erratum 5"),
    ]


def _ratio_rows(out: Out, r: float | None) -> list[Row]:
    section = "Hypothesis H at lambda1 = lambda2 = 0"
    rows = [
        Row(section, "ratio M", out["M"]),
        Row(
            section,
            "the loop is informative, M < 1",
            out["M_lt_1"],
            out["printed_sufficient"],
            "erratum 15: sufficient only",
        ),
        Row(section, "Gamma' = gamma' c2", out["Gamma"]),
        Row(section, "accuracy after training", out["q_m"]),
        Row(
            section,
            "better than before",
            out["gamma_condition_better"],
            out["M_lt_1"],
            "erratum 14: Gamma' < (1-M)(1-q12)",
        ),
        Row(section, "s = Pr(right | reconstructed)", out["s3"]),
    ]
    if r is None:
        return rows
    beats = out["head_to_head"] > 0
    return [
        *rows,
        Row(section, "ratio M of the dual loop", out["M2"], None, "at this r, lambda = 0"),
        Row(section, "triangle instead of dual", beats, True, f"erratum 23: margin {out['head_to_head']:+.6g}"),
    ]


def loop_rows(answers: Mapping[str, Out], q: Sequence[float], delta: float) -> list[Row]:
    """The table of a loop of any length with independent steps."""
    out, section = answers["loopK"], f"Loop of {len(q)} independent steps"
    limit = 1 / delta if delta else float("inf")
    return [
        Row(section, "Pi, no helper errs", out["Pi"]),
        Row(section, "E, exactly one helper errs", out["E"]),
        Row(section, "right and reconstructed, c11", out["c11"]),
        Row(section, "wrong but reconstructed, c12", out["c12"]),
        Row(section, "not reconstructed, c2", out["c2"]),
        Row(section, "s = Pr(right | reconstructed)", out["s"]),
        Row(section, "ratio M", out["M"]),
        Row(section, "sum of the helpers' error odds", out["error_odds_sum"], None, f"must stay below {limit:.6g}"),
        Row(section, "the loop is informative", out["informative"], None, "M < 1"),
        Row(section, "accuracy after training", out["acc_proportional"], None, "hypothesis H"),
        Row(section, "accuracy lies in", out["acc_bracket"], None, "if u11 = u12 = 0"),
    ]


def loop_answers(q: Sequence[float], delta: float = 0.0, gamma: float = 0.0) -> Answers:
    """All results for a loop of any length with independent steps."""
    return {"loopK": loop(q, delta, gamma)}
