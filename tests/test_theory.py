"""The closed forms against the shared vectors, exact enumeration, edge values and simulation."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopmt.errors import TheoryError
from loopmt.judge import theory

VECTORS = json.loads((Path(__file__).parent / "data" / "vectors.json").read_text("utf-8"))


def same(got: Any, want: Any) -> bool:
    if isinstance(want, dict):
        return isinstance(got, dict) and got.keys() == want.keys() and all(same(got[k], want[k]) for k in want)
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(same, got, want))
    if isinstance(want, bool | str | None):
        return type(got) is type(want) and got == want
    return not isinstance(got, bool) and math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-11)


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: f"{case['id']}-{case['kind']}")
def test_vectors(case: dict[str, Any]) -> None:
    asked = {key: value for key, value in case.items() if key != "out"}
    filled = theory.fill_case(asked)
    assert same(filled["out"], case["out"])
    assert {key: filled[key] for key in asked} == asked


def test_fill_keeps_the_rest_of_the_document() -> None:
    filled = theory.fill(VECTORS)
    assert filled["schema"] == VECTORS["schema"]
    assert [case["id"] for case in filled["cases"]] == [case["id"] for case in VECTORS["cases"]]


# --- exact enumeration -------------------------------------------------------------------------------

hundredths = st.integers(0, 100).map(lambda k: Fraction(k, 100))
weights = st.integers(0, 20)


def close(got: float | None, want: Fraction | None) -> bool:
    if want is None or got is None:
        return want is None and got is None
    return math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-11)


def ask(function: Callable[..., dict[str, Any]], *numbers: Fraction | float) -> dict[str, Any]:
    return function(*map(float, numbers))


def share(part: Fraction, whole: Fraction) -> Fraction | None:
    return part / whole if whole else None


@st.composite
def laws(draw: st.DrawFn, bits: int) -> dict[str, Fraction]:
    """A random joint law of `bits` indicators, some cells often empty."""
    patterns = ["".join(z) for z in itertools.product("10", repeat=bits)]
    masses = draw(st.lists(weights, min_size=2**bits, max_size=2**bits).filter(any))
    return {z: Fraction(mass, sum(masses)) for z, mass in zip(patterns, masses, strict=True)}


def pr(law: Mapping[str, Fraction], holds: Callable[[str], bool]) -> Fraction:
    return sum((mass for z, mass in law.items() if holds(z)), Fraction(0))


def with_return(law: Mapping[str, Fraction], delta: Callable[[int], Fraction]) -> dict[str, Fraction]:
    """The law of (Z, R) by definition: no error returns, one does not, more return with chance delta."""
    back = {z: [Fraction(1), Fraction(0)][z.count("0")] if z.count("0") < 2 else delta(z.count("0")) for z in law}
    return {
        **{z + "1": mass * back[z] for z, mass in law.items()},
        **{z + "0": mass * (1 - back[z]) for z, mass in law.items()},
    }


def four_cases(law: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {
        "c11": pr(law, lambda z: z[0] == "1" and z[-1] == "1"),
        "c12": pr(law, lambda z: z[0] == "0" and z[-1] == "1"),
        "c21": pr(law, lambda z: z[0] == "1" and z[-1] == "0"),
        "c22": pr(law, lambda z: z[0] == "0" and z[-1] == "0"),
    }


def trained(c: Mapping[str, Fraction], alpha: Fraction, kappa: Fraction, u11: Fraction, u12: Fraction) -> Fraction:
    """Pr(Yd = 1), adding up what becomes of every case."""
    lost = c["c21"] + c["c22"]
    return c["c11"] * (1 - u11) + c["c12"] * u12 + lost * alpha + lost * kappa


def dual_numbers(law: Mapping[str, Fraction]) -> tuple[Fraction, Fraction, Fraction]:
    p, r = pr(law, lambda z: z[0] == "1"), pr(law, lambda z: z[1] == "1")
    return p, r, law["11"] - p * r


@settings(max_examples=150, deadline=None)
@given(laws(2))
def test_joint2_rebuilds_any_law(law: dict[str, Fraction]) -> None:
    p, r, lam = dual_numbers(law)
    out = ask(theory.joint2, p, r, lam)
    assert out["feasible"] and all(close(out[f"P{z}"], mass) for z, mass in law.items())
    assert out["lambda_lo"] <= float(lam) + 1e-12 and float(lam) - 1e-12 <= out["lambda_hi"]
    for bound, step in ((out["lambda_lo"], -1e-6), (out["lambda_hi"], 1e-6)):
        assert ask(theory.joint2, p, r, bound)["feasible"]
        assert not ask(theory.joint2, p, r, bound + step)["feasible"]


@settings(max_examples=150, deadline=None)
@given(laws(2), hundredths, hundredths, hundredths, hundredths, hundredths)
def test_theorem1_and_exact_accuracy(
    law: dict[str, Fraction], delta: Fraction, a: Fraction, k: Fraction, u11: Fraction, u12: Fraction
) -> None:
    kappa = k * (1 - a)
    cases = four_cases(with_return(law, lambda errors: delta))
    numbers = (*dual_numbers(law), delta)
    first = ask(theory.theorem1, *numbers, a)
    assert all(close(first[name], value) for name, value in cases.items())
    assert close(first["p_d_lower"], cases["c11"] + a * (cases["c21"] + cases["c22"]))
    assert close(first["alpha_breakeven"], share(cases["c21"], cases["c21"] + cases["c22"]))
    full = ask(theory.exact_accuracy, *numbers, a, kappa, u11, u12)
    assert close(full["p_d_exact"], trained(cases, a, kappa, u11, u12))


@settings(max_examples=150, deadline=None)
@given(laws(2), hundredths, hundredths)
def test_proportional_redistribution(law: dict[str, Fraction], delta: Fraction, gamma: Fraction) -> None:
    c = four_cases(with_return(law, lambda errors: delta))
    p, r, lam = dual_numbers(law)
    out = ask(theory.proportional, p, r, lam, delta, gamma)
    back, lost = c["c11"] + c["c12"], c["c21"] + c["c22"]
    s = share(c["c11"], back)
    assert close(out["s"], s)
    if s is None:
        assert out["p_d"] is out["better"] is out["gain"] is None
        return
    accuracy = trained(c, (1 - gamma) * s, Fraction(0), Fraction(0), Fraction(0))
    assert close(out["p_d"], accuracy)
    assert out["better"] == (accuracy - p > Fraction(1, 10**12))
    if p:
        assert math.isclose(out["gain_corrected_line3"], accuracy - p, rel_tol=1e-9, abs_tol=1e-11)
    if out["gamma_star"] is not None:
        assert out["better"] == (out["gamma_star"] - float(gamma) > 1e-12 / float(lost * s))


def cell_by_inclusion(q: tuple[Fraction, ...], lam1: Fraction, lam2: Fraction, z: str) -> Fraction:
    """Pr(exactly this pattern) from the probabilities that sets of steps are right."""
    all_right = {0: Fraction(0), 1: Fraction(0), 2: lam1, 3: lam2}
    right = [i for i in range(3) if z[i] == "1"]
    others = [i for i in range(3) if z[i] == "0"]
    total = Fraction(0)
    for size in range(len(others) + 1):
        for extra in itertools.combinations(others, size):
            steps = [*right, *extra]
            total += (-1) ** size * (math.prod((q[i] for i in steps), start=Fraction(1)) + all_right[len(steps)])
    return total


@st.composite
def triangles(draw: st.DrawFn) -> tuple[tuple[Fraction, ...], Fraction, Fraction, dict[str, Fraction]]:
    """q, lambda1, lambda2 and the cells; inside the range or on its bounds."""
    q = tuple(draw(hundredths) for _ in range(3))
    edge = ask(theory.joint3, *q, 0, 0)
    place = st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10), Fraction(1)])

    def between(low: float, high: float) -> Fraction:
        a, b = (Fraction(bound).limit_denominator(10**9) for bound in (low, high))
        return a + draw(place) * (b - a)

    lam1 = between(edge["lambda1_lo"], edge["lambda1_hi"])
    edge = ask(theory.joint3, *q, lam1, 0)
    lam2 = between(edge["lambda2_lo"], edge["lambda2_hi"])
    patterns = ["".join(z) for z in itertools.product("10", repeat=3)]
    return q, lam1, lam2, {z: cell_by_inclusion(q, lam1, lam2, z) for z in patterns}


@settings(max_examples=150, deadline=None)
@given(triangles(), hundredths, hundredths)
def test_triangle_law_and_theorem2(
    triangle: tuple[tuple[Fraction, ...], Fraction, Fraction, dict[str, Fraction]], delta: Fraction, a: Fraction
) -> None:
    q, lam1, lam2, cells = triangle
    law = ask(theory.joint3, *q, lam1, lam2)
    assert law["feasible"] and min(cells.values()) > -Fraction(1, 10**8)
    assert all(math.isclose(law[f"P{z}"], mass, abs_tol=1e-8) for z, mass in cells.items())
    for key, step in (("lambda2_lo", -1e-6), ("lambda2_hi", 1e-6)):
        assert not ask(theory.joint3, *q, lam1, law[key] + step)["feasible"]
    assert not ask(theory.joint3, *q, law["lambda1_hi"] + 1e-6, lam2)["feasible"]
    assert not ask(theory.joint3, *q, law["lambda1_lo"] - 1e-6, lam2)["feasible"]
    c = four_cases(with_return(cells, lambda errors: delta))
    out = ask(theory.theorem2, *q, lam1, lam2, delta, a)
    assert all(math.isclose(out[name], value, abs_tol=1e-8) for name, value in c.items())
    assert math.isclose(out["q_m_lower"], c["c11"] + a * (c["c21"] + c["c22"]), abs_tol=1e-8)
    slope = a * (lam2 - lam1) * q[0] + 2 * (1 - a) * lam1
    assert math.isclose(out["printed_minus_corrected"], delta * slope, abs_tol=1e-8)


@settings(max_examples=100, deadline=None)
@given(st.lists(hundredths, min_size=2, max_size=6), hundredths, hundredths)
def test_loop_of_independent_steps(q: list[Fraction], delta: Fraction, gamma: Fraction) -> None:
    law = {
        "".join(z): math.prod((x if bit == "1" else 1 - x for x, bit in zip(q, z, strict=True)), start=Fraction(1))
        for z in itertools.product("10", repeat=len(q))
    }
    c = four_cases(with_return(law, lambda errors: delta))
    out = theory.loop([float(x) for x in q], float(delta), float(gamma))
    back, lost = c["c11"] + c["c12"], c["c21"] + c["c22"]
    s = share(c["c11"], back)
    assert close(out["c11"], c["c11"]) and close(out["c12"], c["c12"]) and close(out["s"], s)
    assert close(out["acc_proportional"], None if s is None else s * (1 - gamma * lost))
    assert (out["error_odds_sum"] < math.inf) == all(q[1:])
    if 0 < q[0] < 1:
        assert out["informative"] == (c["c11"] - q[0] * back > 0)


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 4).flatmap(laws), st.lists(hundredths, min_size=4, max_size=4), hundredths, hundredths)
def test_loop_of_any_law(law: dict[str, Fraction], deltas: list[Fraction], a: Fraction, k: Fraction) -> None:
    steps, kappa = len(next(iter(law))), k * (1 - a)
    c = four_cases(with_return(law, lambda errors: deltas[errors - 2]))
    table = {z: float(mass) for z, mass in law.items()}
    by_errors = {str(errors): float(deltas[errors - 2]) for errors in range(2, steps + 1)}
    out = theory.loop_joint(steps, table, by_errors, float(a), float(kappa))
    q1, back, lost = c["c11"] + c["c21"], c["c11"] + c["c12"], c["c21"] + c["c22"]
    assert close(out["q1"], q1) and all(close(out[name], value) for name, value in c.items())
    assert close(out["acc_lower"], c["c11"] + a * lost)
    assert close(out["acc_exact"], trained(c, a, kappa, Fraction(0), Fraction(0)))
    assert close(out["cov_Z1_R"], c["c11"] - q1 * back)


def test_uniform_confusion_is_a_walk_on_the_complete_graph() -> None:
    for meanings in range(2, 7):
        home, step = Fraction(1), Fraction(1, meanings - 1)
        for errors in range(9):
            assert close(theory.uniform_confusion(meanings, errors)["return_probability"], home)
            home = (1 - home) * step


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    size = draw(st.integers(1, 6))
    counts = draw(st.lists(weights, min_size=size, max_size=size).filter(any))
    images = st.lists(st.integers(0, size - 1), min_size=size, max_size=size)
    return counts, [draw(images) for _ in range(4)]


@settings(max_examples=200, deadline=None)
@given(worlds())
def test_world2_agrees_with_counting(world: tuple[list[int], list[list[int]]]) -> None:
    """The quantities of a world are the estimates from a sample that shows every sentence as often as mu."""
    counts, (t12, t21, d12, d21) = world
    observed: dict[str, int] = {}
    latent: dict[str, int] = {}
    for x, count in enumerate(counts):
        y, yd = t12[x], d12[x]
        verdicts = [y == x, t21[y] == x, yd == x, d21[yd] == x]
        steps = [y == x, t21[y] == y, t21[y] == x]
        for table, bits in ((observed, verdicts), (latent, steps)):
            key = "".join(str(int(bit)) for bit in bits)
            table[key] = table.get(key, 0) + count
    out = theory.world2([count / sum(counts) for count in counts], t12, t21, d12, d21)
    seen, hidden = theory.estimate_observed(observed), theory.estimate_latent(latent)
    names = ("p", "c11", "c12", "c2", "alpha", "beta", "gamma", "kappa", "u11", "u12", "eta")
    assert all(same(out[name], seen[name]) for name in names)
    assert all(same(out[name], hidden[name]) for name in ("r", "lam", "delta"))
    assert same(out["p_d_true"], seen["p_d"]) and same(out["printed_p_d"], seen["thm1"])
    assert hidden["violation_one_error_reconstructed"] in (0, None)
    assert out["assumption1_holds"] == (out["eta"] in (1, None))


# --- errata: the points that docs/theory.md quotes ---------------------------------------------------


def test_theorem1_fails_when_both_maps_swap() -> None:
    """Assumption 1 holds, Theorem 1 says 1, the truth is 0."""
    out = theory.world2([0.5, 0.5], [0, 1], [0, 1], [1, 0], [1, 0])
    assert (out["assumption1_holds"], out["printed_p_d"], out["p_d_true"]) == (True, 1.0, 0.0)


def test_theorem1_fails_when_nothing_is_trained() -> None:
    p, r = 0.65, 0.73
    c21, c2 = p * (1 - r), theory.theorem1(p, r, 0, 0, 0)["c2"]
    out = theory.exact_accuracy(p, r, 0, 0, 0, c21 / c2, 0, 0)
    assert same(out["printed_p_d"], 0.4745) and same(out["p_d_exact"], 0.65)


def test_printed_gain_can_have_the_wrong_sign() -> None:
    out = theory.proportional(0.6, 0.5, -0.15, 0.4, 0)
    assert same(round(out["printed_gain"], 3), -0.141) and same(round(out["gain"], 3), 0.282)


@pytest.mark.parametrize(
    ("numbers", "accuracy"),
    [((0.95, 0.26, 0.013, 0.3, 0), 0.9455), ((0.3, 0.4, -0.12, 0.3, 0), 0.0), ((0.65, 0.73, 0, 0.3, 0.8), 0.568)],
)
def test_printed_condition_is_not_enough(numbers: tuple[float, ...], accuracy: float) -> None:
    out = theory.proportional(*numbers)
    assert out["printed_condition_r_gt"] and not out["better"] and abs(out["p_d"] - accuracy) < 5e-4


def test_sufficient_condition_is_not_necessary() -> None:
    out = theory.triangle_ratio(0.7, 0.9, 0.25, 0.3, 0, 0.7)
    assert out["M_lt_1"] and not out["printed_sufficient"]


def test_longer_loops_are_weaker() -> None:
    ratios = [theory.loop([0.7] + [0.9] * helpers, 0.2, 0)["M"] for helpers in range(1, 8)]
    assert ratios == sorted(ratios) and ratios[0] < ratios[-1]


def test_printed_jensen_step_reverses_the_inequality() -> None:
    out = theory.jensen([1.0], [[0.5, 0.5]], [0.8, 0.4])
    assert out["printed_sum_of_logs"] < out["jensen_bound"] < out["log_exact"]
    assert same(round(out["log_exact"], 3), -0.511) and same(round(out["printed_sum_of_logs"], 3), -2.526)


def test_printed_estimators_sum_to_one_over_c2() -> None:
    counts = {f"{i:04b}": 5 + i for i in range(16)}
    out = theory.estimate_observed(counts)
    printed = out["printed_alpha"] + out["printed_beta"] + out["printed_gamma"]
    assert same(printed, 1 / out["c2"]) and same(out["alpha"] + out["beta"] + out["gamma"], 1.0)


# --- edges -------------------------------------------------------------------------------------------

UNIT = [0.0, 1.0]


@pytest.mark.parametrize("p", UNIT)
@pytest.mark.parametrize("r", UNIT)
@pytest.mark.parametrize("delta", UNIT)
@pytest.mark.parametrize("rate", UNIT)
def test_corners_of_the_dual_loop(p: float, r: float, delta: float, rate: float) -> None:
    assert theory.joint2(p, r, 0)["phi"] is None
    assert sum(theory.theorem1(p, r, 0, delta, rate)[c] for c in ("c11", "c12", "c21", "c22")) == 1
    out = theory.proportional(p, r, 0, delta, rate)
    assert out["M"] is None
    assert (out["s"] is None) == (out["c11"] + out["c12"] == 0)
    assert (out["printed_gain_numerator"] is None) == (p == 0)


CORNERS: list[tuple[dict[str, float], str, Any]] = [
    ({"q12": 0.5, "q23": 0, "q31": 1, "delta": 0.3}, "M", math.inf),
    ({"q12": 0.5, "q23": 0, "q31": 1, "delta": 0.3}, "M_lt_1", False),
    ({"q12": 0.5, "q23": 0, "q31": 1, "delta": 0.3}, "q_m", 0.0),
    ({"q12": 0.5, "q23": 0, "q31": 1, "delta": 0}, "M", None),
    ({"q12": 0.5, "q23": 0, "q31": 1, "delta": 0}, "printed_polynomial", None),
    ({"q12": 0.5, "q23": 1, "q31": 1, "delta": 1}, "M", 0.0),
    ({"q12": 1, "q23": 0, "q31": 1, "delta": 0.3}, "s3", None),
    ({"q12": 0, "q23": 0.5, "q31": 0.5, "delta": 0.3}, "s3", 0.0),
]


@pytest.mark.parametrize(("numbers", "name", "want"), CORNERS)
def test_corners_of_the_triangle(numbers: dict[str, float], name: str, want: Any) -> None:
    assert same(theory.triangle_ratio(**numbers, gamma=0, r=0.5)[name], want)


def test_reading_decimals_keeps_bounds_exact() -> None:
    """0.07 * 0.12 is not 0.0084 in floating point; the law at that bound has an empty cell all the same."""
    assert theory.joint2(0.07, 0.12, -0.0084)["P11"] == 0
    assert theory.proportional(0.07, 0.12, -0.0084, 0.5, 0)["M"] == math.inf
    assert theory.joint2(0.3, 0.4, 0.1 + 0.2 - 0.12)["feasible"]


def test_infeasible_law_is_answered_by_joint_kinds_only() -> None:
    assert theory.joint2(0.5, 0.5, 0.3)["feasible"] is False
    assert theory.joint3(0.5, 0.5, 0.5, 0.4, 0)["feasible"] is False
    with pytest.raises(TheoryError, match=r"lambda = 0\.3 is impossible .*: the range is \[-0\.25, 0\.25\]"):
        theory.theorem1(0.5, 0.5, 0.3, 0.1, 0.1)


def test_jensen_with_empty_routes() -> None:
    out = theory.jensen([1, 0], [[1, 0], [0, 1]], [0.5, 0])
    assert same(out["jensen_bound"], math.log(0.5)) and out["printed_sum_of_logs"] == -math.inf
    assert theory.jensen([1], [[1]], [0])["log_exact"] == -math.inf


def test_estimates_without_sentences() -> None:
    for estimate in (theory.estimate_observed, theory.estimate_latent, theory.estimate_triangle):
        out = estimate({})
        assert out["n"] == 0
        assert all(value == [0.0, 1.0] or value is None for key, value in out.items() if key != "n")


def test_estimates_with_empty_cases() -> None:
    out = theory.estimate_observed({"1111": 8, "0111": 2})
    assert out["alpha"] is None and out["alpha_ci"] == [0.0, 1.0] and out["thm1"] == 0.8 and out["rho"] is None
    out = theory.estimate_observed({"0100": 3, "1000": 4})
    assert out["M"] == math.inf and out["M_ci"] is None and out["u11"] is None
    assert theory.estimate_triangle({"1111": 5})["pairwise_equality_chi2_df2"] is None


# --- what a user reads when something is wrong -------------------------------------------------------

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("joint2", {"p": 1.2, "r": 0.5, "lambda": 0}, "p = 1.2 is not a probability: it must lie in [0, 1]"),
    ("joint2", {"p": True, "r": 0.5, "lambda": 0}, "p is True, which is not a number"),
    ("joint2", {"p": "0.5", "r": 0.5, "lambda": 0}, "p is '0.5', which is not a number"),
    ("joint2", {"p": None, "r": 0.5, "lambda": 0}, "p is None, which is not a number"),
    ("joint2", {"p": math.nan, "r": 0.5, "lambda": 0}, "p is nan; it must be a finite number"),
    ("joint2", {"p": 0.5, "r": 0.5, "lambda": math.inf}, "lambda is inf; it must be a finite number"),
    ("joint2", {"p": 0.5, "r": 0.5, "lambda": 10**400}, "lambda is beyond 1e100"),
    ("joint2", {"p": 0.5, "r": 0.5}, "kind joint2 needs lambda; its fields are p, r, lambda"),
    ("joint2", {"p": 0.5, "r": 0.5, "lam": 0, "lambda": 0}, "no field 'lam' (did you mean 'lambda'?)"),
    ("thm1", {"p": 0.5, "r": 0.5, "lambda": 0, "delta": -0.1, "alpha": 0}, "delta = -0.1 is not a probability"),
    (
        "exact_accuracy",
        {"p": 0.5, "r": 0.5, "lambda": 0, "delta": 0, "alpha": 0.7, "kappa": 0.4, "u11": 0, "u12": 0},
        "alpha + kappa = 1.1 exceeds 1",
    ),
    (
        "thm2",
        {"q12": 0.5, "q23": 0.5, "q31": 0.5, "lambda1": 0.1, "lambda2": 0, "delta": 0.1, "alpha": 0.1},
        "lambda2 = 0 is impossible with q12 = 0.5, q23 = 0.5, q31 = 0.5 and lambda1 = 0.1: the range is [0.075,",
    ),
    ("loopK", {"q": [0.5], "delta": 0.1, "gamma": 0}, "q has one entry; a loop has at least two steps"),
    ("loopK", {"q": 0.5, "delta": 0.1, "gamma": 0}, "q is 0.5; it must be a list of numbers"),
    ("loopK", {"q": [], "delta": 0.1, "gamma": 0}, "q is empty"),
    (
        "loopK_joint",
        {"K": 2, "table": {"11": 0.5}, "delta_by_errors": {"2": 0.5}, "alpha": 0, "kappa": 0},
        "table sums to 0.5; the probabilities must sum to 1",
    ),
    (
        "loopK_joint",
        {"K": 2, "table": {"111": 1}, "delta_by_errors": {"2": 0.5}, "alpha": 0, "kappa": 0},
        "table has the key '111'; a key is a string of 2 zeros and ones",
    ),
    (
        "loopK_joint",
        {"K": 3, "table": {"000": 1}, "delta_by_errors": {"2": 0.5}, "alpha": 0, "kappa": 0},
        "delta_by_errors has no entry for 3 errors, which table[000] needs",
    ),
    (
        "loopK_joint",
        {"K": 2, "table": {"11": 1}, "delta_by_errors": {"1": 0.5}, "alpha": 0, "kappa": 0},
        "delta_by_errors has the key '1'; its keys are 2 to 2",
    ),
    ("loopK_joint", {"K": 2.5, "table": {}, "delta_by_errors": {}, "alpha": 0, "kappa": 0}, "K = 2.5 must be a whole"),
    ("uniform_confusion", {"N": 1, "errors": 2}, "N = 1 leaves no other meaning"),
    ("uniform_confusion", {"N": 4, "errors": -1}, "errors = -1 must be a whole number from 0"),
    (
        "jensen",
        {"p_k_given_2": [0.5, 0.5], "p_1_given_k": [[1]], "p_2_given_1": [1]},
        "p_1_given_k has 1 rows, p_k_given_2 2 entries",
    ),
    ("jensen", {"p_k_given_2": [1], "p_1_given_k": [[0.5, 0.5]], "p_2_given_1": [1]}, "p_1_given_k[0] has 2 entries"),
    ("jensen", {"p_k_given_2": [0.9], "p_1_given_k": [[1]], "p_2_given_1": [1]}, "p_k_given_2 sums to 0.9"),
    ("identified_set", {"p": 0.6, "c11": 0.7, "c12": 0, "r": 0.7}, "c11 = 0.7 is impossible"),
    ("identified_set", {"p": 0.6, "c11": 0.5, "c12": 0.1, "r": 0.9}, "r = 0.9 is impossible with p = 0.6"),
    ("estimate_latent", {"counts": {"000": -1}}, "counts[000] = -1 must be a whole number"),
    ("estimate_latent", {"counts": {"00": 1}}, "counts has the key '00'"),
    ("estimate_observed", {"counts": [1, 2]}, "counts is [1, 2]; it must be an object keyed by strings of 4 bits"),
    ("world2", {"mu": [1], "T12": [1], "T21": [0], "Td12": [0], "Td21": [0]}, "T12 maps to 1; the meanings are"),
    ("world2", {"mu": [1], "T12": [0, 0], "T21": [0], "Td12": [0], "Td21": [0]}, "T12 has 2 entries for the 1"),
    ("thm9", {}, "kind 'thm9' is unknown"),
]


@pytest.mark.parametrize(("kind", "given_", "sentence"), BAD)
def test_errors_name_the_case_and_say_what_is_wrong(kind: str, given_: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TheoryError) as error:
        theory.fill({"cases": [{"id": "bad-one", "kind": kind, "in": given_}]})
    assert str(error.value).startswith("case bad-one: ") and sentence in str(error.value)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({}, 'a list under "cases"'),
        ({"cases": {}}, 'a list under "cases"'),
        ({"cases": [3]}, "case number 0"),
        ({"cases": [{"kind": "joint2"}]}, 'a text under "id"'),
        ({"cases": [{"id": "x", "kind": "joint2"}]}, 'case x: "in" is None'),
    ],
)
def test_malformed_documents(document: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TheoryError, match=sentence):
        theory.fill(document)


# --- coverage of the intervals -----------------------------------------------------------------------

REPETITIONS = 1200


def coverage(
    estimate: Callable[[dict[str, int]], dict[str, Any]], law: dict[str, float], names: list[str], n: int
) -> None:
    """Intervals of samples of size n cover the value that the law itself has, 93 to 97 times in 100."""
    truth = estimate({key: round(mass * 10**6) for key, mass in law.items()})
    draws = np.random.default_rng(7).multinomial(n, list(law.values()), size=REPETITIONS)
    hits = dict.fromkeys(names, 0)
    for row in draws.tolist():
        out = estimate(dict(zip(law, row, strict=True)))
        for name in names:
            low, high = _interval(out, name)
            hits[name] += low <= truth[name] <= high
    assert {name: 0.93 <= hit / REPETITIONS <= 0.97 for name, hit in hits.items()} == dict.fromkeys(names, True)


def _interval(out: dict[str, Any], name: str) -> tuple[float, float]:
    if f"{name}_ci" in out:
        return out[f"{name}_ci"][0], out[f"{name}_ci"][1]
    return out[name] - 1.96 * out[f"{name}_se"], out[name] + 1.96 * out[f"{name}_se"]


def random_law(bits: int, seed: int) -> dict[str, float]:
    masses = np.random.default_rng(seed).dirichlet(np.full(2**bits, 4.0)).round(6)
    masses[0] += 1 - masses.sum()
    return {f"{i:0{bits}b}": float(mass) for i, mass in enumerate(masses)}


def test_coverage_observed() -> None:
    coverage(
        theory.estimate_observed, random_law(4, 1), ["p", "p_d", "gain", "s", "M", "alpha", "gamma", "eta", "rho"], 600
    )


def test_coverage_latent() -> None:
    coverage(theory.estimate_latent, random_law(3, 2), ["p", "r", "lam", "delta"], 500)


def test_coverage_triangle() -> None:
    coverage(theory.estimate_triangle, random_law(4, 3), ["lambda1", "lambda2", "delta"], 500)
